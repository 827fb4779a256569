"""The project itself: a bare install works, the README runs, nothing heavy is imported, the layers hold."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import polyvec as pv

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "h5py",
    "pyarrow",
    "faiss",
    "tokenizers",
    "safetensors",
    "onnxruntime",
    "onnx",
    "openvino",
    "starlette",
    "uvicorn",
    "torch",
    "triton",
    "cupy",
    "playwright",
    "polars",
    "duckdb",
)
BLOCK = f"import sys\nfor name in {EXTRAS!r}: sys.modules[name] = None\n"


def bare(code, tmp_path):
    """Runs code in a process where no extra can be imported, as after a plain `pip install polyvec`."""
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, cwd=tmp_path)


def test_a_bare_install_imports_and_helps(tmp_path):
    done = bare("import sys; sys.argv=['polyvec','--help']\nfrom polyvec.cli import main\nmain()", tmp_path)
    assert done.returncode == 0 and "convert" in done.stdout, done.stderr


def test_the_readme_says_what_all_extras_are():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [everything] = re.findall(r"polyvec\[(.*)\]", extras["all"][0])
    [sentence] = re.findall(
        r"polyvec\[all\]'` takes all the extras but\s+(.*?)\.", (ROOT / "README.md").read_text(), re.S
    )
    assert set(extras) - {"all"} - set(everything.split(",")) == set(re.findall(r"`([\w-]+)`", sentence))


def test_a_bare_install_converts(tmp_path):
    code = (
        "import numpy as np, polyvec as pv\n"
        "pv.write('a.fbin', np.eye(4, dtype='f4')); pv.convert('a.fbin', 'b.npy', encoding='float16')\n"
        "print(pv.verify('b.npy').ok, pv.open('b.npy').rows)"
    )
    done = bare(code, tmp_path)
    assert done.stdout.split() == ["True", "4"], done.stderr


def test_everything_works_without_native_kernels(tmp_path):
    code = "from polyvec import kernels; print(kernels.NATIVE, kernels.cpu_path())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "POLYVEC_NO_NATIVE": "1"},
    )
    assert done.stdout.split() == ["False", "numpy"]


def test_every_public_name_is_there():
    for name in pv.__all__:
        assert getattr(pv, name) is not None
    with pytest.raises(AttributeError):
        _ = pv.no_such_name


def test_errors_are_what_callers_expect():
    assert issubclass(pv.FormatError, ValueError) and issubclass(pv.InputError, ValueError)
    assert issubclass(pv.MissingExtra, ImportError)
    for name in ("UnknownFormat", "AmbiguousFormat", "Truncated", "Corrupt", "Unsupported"):
        assert issubclass(getattr(pv, name), pv.FormatError)


MODULES = [
    m.name
    for m in pkgutil.walk_packages(pv.__path__, "polyvec.")
    if m.name not in ("polyvec.__main__", "polyvec._native")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except pv.MissingExtra as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("polyvec"):
            raise
        pytest.skip(f"{error.name} is not installed")
    assert module.__doc__ or name.endswith("__init__"), f"{name} has no docstring"
    assert doctest.testmod(module).failed == 0


def test_the_readme_is_short_and_its_python_runs(tmp_path, monkeypatch):
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_modules_stay_small():
    code = [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/polyvec/web/**/*.js"), *ROOT.glob("native/*.[ch]pp")]
    assert {".py", ".js", ".cpp", ".hpp"} == {path.suffix for path in code}
    assert not {path: lines for path in code if (lines := len(path.read_text("utf-8").splitlines())) > 500}


# Who may ask the file system about a file himself: of what is read `Place` and `Source` tell.
STATS = {
    "cli/demo": "its own outputs, of which it tells the sizes",
    "cli/streams.py": "whether standard streams are open",
    "verbs/embed.py": "the state it keeps beside its output",
    "verbs/parts.py": "the parts it keeps beside its output",
}


def modules():
    return {path.relative_to(ROOT / "src" / "polyvec").as_posix(): path for path in (ROOT / "src").rglob("*.py")}


def test_one_door_opens_sources():
    built = re.compile(r"\b(LocalSource|MemorySource|DistantSource)(\.\w+)?\(")
    found = {
        name
        for name, path in modules().items()
        if name != "core/sources.py" and not name.startswith("testing/") and built.search(path.read_text())
    }
    assert not found, "open_source opens whatever is read"


def test_nobody_asks_the_file_system_about_an_input():
    asked = re.compile(r"(?<!re)\.l?stat\(|getsize\(|\bfstat\(")
    found = {name for name, path in modules().items() if asked.search(path.read_text())}
    strangers = {
        name for name in found if not name.startswith(("core/", "testing/")) and not name.startswith(tuple(STATS))
    }
    assert not strangers, "Place.identity tells what lies somewhere, Source.size what was opened"


def test_the_label_of_a_collection_is_never_opened():
    opened = re.compile(r"\b(Path|open|open_source|Place\.of)\(\w*(collection|found|base|side)\w*\.path\b")
    assert not [name for name, path in modules().items() if opened.search(path.read_text())], "it has a place"


def test_the_repository_speaks_of_itself_alone():
    """No path of a machine, no registry host."""
    words = ("/work/" + "main", "/work/" + "shared", "pypi." + "org", "registry.npmjs" + ".org")
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("tests/**/*.py"),
    ]:
        text = path.read_text()
        assert not [w for w in words if w in text], path


def has_logic(tree):
    """Whether a module does anything: constants, re-exports and records alone do not."""
    return any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(tree))


def twins_of(module):
    """Where the tests of a module may be: a package's beside or inside its folder."""
    folder, name = module.parent, module.stem
    if name == "__init__":
        return [folder / f"test_{folder.name}.py", folder.parent / f"test_{folder.name}.py"]
    return [folder / f"test_{name}.py"]


def test_every_module_with_logic_has_its_twin():
    """A command's module needs none: tests/cli/test_commands.py runs every command's examples."""
    source, tests = ROOT / "src" / "polyvec", ROOT / "tests"
    alone = []
    for path in sorted(source.rglob("*.py")):
        module, tree = path.relative_to(source), ast.parse(path.read_text())
        command = module.parts[0] == "cli" and (
            {"command", "app", "main"} & set(re.findall(r"^(?:def )?(\w+)", path.read_text(), re.M))
        )
        if command or module == Path("__init__.py") or not has_logic(tree):
            continue
        if not any((tests / twin).is_file() for twin in twins_of(module)):
            alone.append(f"{module.as_posix()}: write tests/{twins_of(module)[0].as_posix()}")
    assert not alone
