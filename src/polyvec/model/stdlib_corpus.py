"""Some 3,000 one-line summaries of the Python standard library: real text that is on every machine.

Pure modules are parsed, never imported (importing may open windows or print poems); the compiled ones that
have no source (`math`, `itertools`, `zlib`) are imported and asked. The order is that of the names, so two
runs of one Python give the same corpus.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

# Not part of what a programmer looks up: tests, demos, the editor, platform leftovers.
_SKIPPED = frozenset(
    [
        "antigravity",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "test",
        "this",
        "turtledemo",
        "ensurepip",
        "venv",
        "msilib",
        "nturl2path",
        "sre_compile",
        "sre_constants",
        "sre_parse",
        "distutils",
        "pyclbr",
        "tabnanny",
        "turtle",
        "tkinter",
        "encodings",
        "smtpd",
    ]
)
# Compiled modules that have no source file to parse; anything not in this list is left alone.
_COMPILED = [
    "array",
    "atexit",
    "binascii",
    "builtins",
    "cmath",
    "errno",
    "faulthandler",
    "fcntl",
    "gc",
    "grp",
    "itertools",
    "marshal",
    "math",
    "mmap",
    "posix",
    "pwd",
    "readline",
    "resource",
    "select",
    "sys",
    "syslog",
    "termios",
    "time",
    "unicodedata",
    "zlib",
]
_MIN_LENGTH = 20  # shorter docstrings ("Test.", "x.foo()") say nothing
_MAX_LENGTH = 200
_LIMIT = 3000


@dataclass(frozen=True, slots=True)
class Entry:
    """One documented name: `zipfile.ZipFile`, its one-line summary, its module, and what it is."""

    name: str
    summary: str
    module: str
    kind: str  # module, class, function or method

    @property
    def text(self) -> str:
        """What is embedded: the name and the summary, since both carry meaning."""
        return f"{self.name}: {self.summary}"


def list_entries(limit: int | None = _LIMIT) -> list[Entry]:
    """The corpus, sorted by name; with a limit, every n-th entry is kept so that all modules stay present."""
    found = {entry.name: entry for entry in _walk()}
    entries = [found[name] for name in sorted(found)]
    if limit is None or len(entries) <= limit:
        return entries
    # Modules, classes and functions are kept first; methods, the most repetitive, fill what is left.
    first = [entry for entry in entries if entry.kind != "method"]
    rest = [entry for entry in entries if entry.kind == "method"]
    kept = _spread(first, limit) if len(first) > limit else first + _spread(rest, limit - len(first))
    return sorted(kept, key=lambda entry: entry.name)


def list_docstrings(min_words: int) -> list[str]:
    """Whole docstrings of at least `min_words` words, in name order: the long texts of the benchmarks."""
    texts: dict[str, str] = {}
    for name, path in _sources():
        tree = _parse(path)
        if tree is None:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text and len(text.split()) >= min_words:
                    texts[f"{name}.{getattr(node, 'name', '')}"] = " ".join(text.split())
    return [texts[name] for name in sorted(texts)]


def _spread(entries: list[Entry], count: int) -> list[Entry]:
    return [entries[index * len(entries) // count] for index in range(count)]


def _walk() -> Iterator[Entry]:
    for name, path in _sources():
        tree = _parse(path)
        if tree is not None:
            yield from _from_tree(name, tree)
    for name in _COMPILED:
        if name in sys.stdlib_module_names:
            try:
                module = importlib.import_module(name)
            except ImportError:  # another platform's module
                continue
            yield from _from_module(name, module)


def _sources() -> Iterator[tuple[str, Path]]:
    """(dotted name, file) of the library's public pure-Python modules, packages one level deep."""
    library = Path(sysconfig.get_path("stdlib"))
    for name in sorted(sys.stdlib_module_names):
        if name.startswith("_") or name in _SKIPPED:
            continue
        if (library / f"{name}.py").is_file():
            yield name, library / f"{name}.py"
        elif (library / name / "__init__.py").is_file():
            yield name, library / name / "__init__.py"
            for path in sorted((library / name).glob("*.py")):
                if not path.stem.startswith("_"):
                    yield f"{name}.{path.stem}", path


def _parse(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _from_tree(module: str, tree: ast.Module) -> Iterator[Entry]:
    summary = _summarise(ast.get_docstring(tree))
    if summary:
        yield Entry(module, summary, module, "module")
    for node in tree.body:
        yield from _from_node(module, module, node)


def _from_node(module: str, owner: str, node: ast.stmt) -> Iterator[Entry]:
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return
    name = f"{owner}.{node.name}"
    is_class = isinstance(node, ast.ClassDef)
    summary = _summarise(ast.get_docstring(node, clean=True))
    if summary:
        yield Entry(name, summary, module, "class" if is_class else "function" if owner == module else "method")
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            if not isinstance(child, ast.ClassDef):
                yield from _from_node(module, name, child)


def _from_module(name: str, module: ModuleType) -> Iterator[Entry]:
    summary = _summarise(module.__doc__)
    if summary:
        yield Entry(name, summary, name, "module")
    for member in sorted(vars(module)):
        value = vars(module)[member]
        if member.startswith("_") or not callable(value):
            continue
        summary = _summarise(getattr(value, "__doc__", None))
        if summary:
            kind = "class" if isinstance(value, type) else "function"
            yield Entry(f"{name}.{member}", summary, name, kind)


def _summarise(docstring: str | None) -> str | None:
    """The first sentence or paragraph of a docstring on one line; None when it says too little."""
    if not docstring:
        return None
    paragraph = docstring.strip().split("\n\n", 1)[0]
    text = " ".join(paragraph.split())
    if len(text) > _MAX_LENGTH:
        head = text[:_MAX_LENGTH]
        stop = head.rfind(". ")
        text = head[: stop + 1] if stop > _MIN_LENGTH else head[: head.rfind(" ")] + " …"
    return text if len(text) >= _MIN_LENGTH else None
