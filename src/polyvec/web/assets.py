"""The page's own files: found in the package, as a site's index.html, or bundled into one."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent
ENTRY, WORKER = "page/main.js", "client/worker.js"
IMAGES = "img-src 'self' https: data:"
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; "
    f"{IMAGES}; worker-src 'self'; base-uri 'none'; form-action 'none'"
)

_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?(function|class|const|let)\b)", re.MULTILINE)


@cache
def asset_files() -> Mapping[str, Path]:
    """Name in the site -> file, for everything that the page loads."""
    found = [*ROOT.glob("page/*.js"), *ROOT.glob("page/*.css"), *ROOT.glob("client/*.js"), ROOT / "client/kernel.wasm"]
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(found)}


def read_asset(name: str) -> bytes:
    """The bytes of one of `asset_files`; KeyError for any other name."""
    return asset_files()[name].read_bytes()


def site_html(title: str) -> str:
    """The index.html of a site whose files lie beside it."""
    modules = [name for name in module_order(ENTRY) if name != ENTRY]
    preload = "\n".join(f'<link rel="modulepreload" href="{name}">' for name in modules)
    style = f'<link rel="stylesheet" href="page/page.css">\n{preload}'
    return _fill(title, POLICY, style, f'<script type="module" src="{ENTRY}"></script>')


def single_html(title: str, data: Mapping[str, bytes]) -> str:
    """One page with everything in it: scripts and style, allowed by their hashes alone, and data as text."""
    style = read_asset("page/page.css").decode()
    script = bundle(ENTRY)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}' 'wasm-unsafe-eval'; style-src '{_hash(style)}'; "
        f"{IMAGES}; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    blocks = [f'<script type="text/plain" data-worker>{bundle(WORKER)}</script>']
    for name, content in {**data, "kernel.wasm": read_asset("client/kernel.wasm")}.items():
        packed = gzip.compress(content, 9, mtime=0)
        smaller = len(packed) < 0.9 * len(content)
        text = base64.b64encode(packed if smaller else content).decode()
        how = ' data-packed="gzip"' if smaller else ""
        blocks.append(f'<script type="application/octet-stream" data-file="{html.escape(name)}"{how}>{text}</script>')
    blocks.append(f'<script type="module">{script}</script>')
    return _fill(title, policy, f"<style>{style}</style>", "\n".join(blocks))


def _fill(title: str, policy: str, style: str, script: str) -> str:
    given = {"title": html.escape(title), "policy": html.escape(policy), "style": style, "script": script}
    page = (ROOT / "page" / "index.html").read_text(encoding="utf-8")
    # One pass, so that nothing filled in is looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: given[match[1]], page)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def module_order(entry: str) -> list[str]:
    """The modules that ``entry`` needs, each after those it imports."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        folder = Path(name).parent
        for target in _IMPORT.findall(read_asset(name).decode()):
            visit((ROOT / folder / target).resolve().relative_to(ROOT.resolve()).as_posix())
        order.append(name)

    visit(entry)
    return order


def bundle(entry: str) -> str:
    """A module and what it imports as one script.

    The modules are written for it: imports are of plain names, and no two modules share a top-level name.
    """
    pieces = []
    for name in module_order(entry):
        source = _EXPORT.sub("", _IMPORT.sub("", read_asset(name).decode()))
        pieces.append(f"// {name}\n{source}")
    script = "\n".join(pieces)
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("a module holds text that would end the script element")
    return script
