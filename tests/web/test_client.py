"""The JavaScript client and page, tested in Node and by the TypeScript compiler."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
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


@cache
def why_no_compiler() -> str | None:
    """Fetch tsc by npx; why that cannot be done, None where it can."""
    npx = shutil.which("npx")
    if npx is None:
        return "npx is not installed: types were not checked"
    command = [npx, "--yes", "-p", TYPESCRIPT, "tsc", "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return f"{TYPESCRIPT} could not be fetched in time: types were not checked"
    return None if done.returncode == 0 else f"{TYPESCRIPT} could not be fetched: types were not checked"


def compile_types(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tsc; skip, aloud, where it cannot be had."""
    if (why := why_no_compiler()) is not None:
        pytest.skip(why)
    command = ["npx", "--yes", "-p", TYPESCRIPT, "tsc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_compiler_accepts_every_type_of_the_page_and_what_it_imports():
    done = compile_types("-p", str(PAGE))
    assert done.returncode == 0, done.stdout


def test_the_declarations_are_those_of_the_source(tmp_path: Path):
    emit = ("--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", str(tmp_path))
    done = compile_types("-p", str(CLIENT), *emit)  # checks the client's types as well
    assert done.returncode == 0, done.stdout
    made = {path.name: path.read_text() for path in tmp_path.glob("*.d.ts")}
    kept = {path.name: path.read_text() for path in (CLIENT / "types").glob("*.d.ts")}
    assert made == kept, "run tsc -p src/polyvec/web/client --noEmit false --declaration --emitDeclarationOnly"


@needs_node
def test_the_folder_is_a_package_as_it_stands(tmp_path: Path):
    """Packed by npm, unpacked, and imported by its name."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: the package was not packed")
    packed = subprocess.run([npm, "pack", "--silent", str(CLIENT)], capture_output=True, text=True, cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    archive = next(tmp_path.glob("*.tgz"))
    home = tmp_path / "node_modules" / "@polyvec" / "i8bin"
    home.mkdir(parents=True)
    subprocess.run(["tar", "xzf", str(archive), "-C", str(home), "--strip-components=1"], check=True)
    held = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert {"index.js", "worker.js", "kernel.wasm", "kernel.wat", "types/index.d.ts", "README.md"} <= held
    (tmp_path / "use.mjs").write_text(
        'import { dequantize, loadIndex } from "@polyvec/i8bin";\n'
        "console.log(dequantize(new Int8Array([127]))[0], typeof loadIndex);\n"
    )
    done = subprocess.run([str(NODE), "use.mjs"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "1 function\n", done.stderr
