"""The JavaScript client and page, tested in Node and by the TypeScript compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "src" / "polyvec" / "web" / "client"
PAGE = CLIENT.parent / "page"
TYPESCRIPT = "typescript@7.0.2"  # pinned: declarations are compared byte for byte

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed: the JavaScript tests did not run")


@needs_node
@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_every_javascript_test_passes(name: str):
    done = subprocess.run([str(NODE), "--test", str(HERE / name)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "# fail 0" in done.stdout and "# pass 0" not in done.stdout


def compile_types(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tsc, fetched by npx; skip where there is no npm or no way to fetch it."""
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("npx is not installed: types were not checked")
    try:
        probe = subprocess.run(
            [npx, "--yes", "-p", TYPESCRIPT, "tsc", "--version"], capture_output=True, text=True, timeout=90
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{TYPESCRIPT} could not be fetched in time: types were not checked")
    if probe.returncode != 0:
        pytest.skip(f"{TYPESCRIPT} could not be fetched: types were not checked")
    return subprocess.run(
        [npx, "--yes", "-p", TYPESCRIPT, "tsc", *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("folder", [CLIENT, PAGE], ids=["client", "page"])
def test_the_compiler_accepts_every_type(folder: Path):
    done = compile_types("-p", str(folder))
    assert done.returncode == 0, done.stdout


def test_the_declarations_are_those_of_the_source(tmp_path: Path):
    done = compile_types(
        "-p", str(CLIENT), "--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", str(tmp_path)
    )
    assert done.returncode == 0, done.stdout
    made = {path.name: path.read_text() for path in tmp_path.glob("*.d.ts")}
    kept = {path.name: path.read_text() for path in (CLIENT / "types").glob("*.d.ts")}
    assert made == kept, "run: npx -p typescript tsc -p src/polyvec/web/client --noEmit false --declaration ..."
