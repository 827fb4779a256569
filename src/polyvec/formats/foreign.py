"""Files that hold no embeddings, named by their first bytes: failed downloads, pointers, archives. Not a format.

Long marks of text (a page, a pointer) settle it whatever the file is called. Short binary ones can be a count by chance,
and speak only where the format that the name promises does not fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_BYTES = 1024
SMALL = 64 << 10  # an error message of a server is no longer than that

ARCHIVES = {
    b"\x1f\x8b\x08": ("a gzip file", "unpack it first (gunzip)"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "unpack it first (unzstd)"),
    b"\xfd7zXZ\x00": ("an xz file", "unpack it first (unxz)"),
    b"BZh": ("a bzip2 file", "unpack it first (bunzip2)"),
    b"\x04\x22\x4d\x18": ("an lz4 file", "unpack it first (unlz4)"),
    b"PK\x03\x04": ("a zip archive", "unpack it first (unzip)"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it first"),
    b"Rar!\x1a\x07": ("a rar archive", "unpack it first"),
}
OTHERS = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF",
    b"SQLite format 3\x00": "an SQLite database",
    b"\x7fELF": "a program",
    b"\x80\x02": "a Python pickle",
    b"\x80\x03": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"\x80\x05": "a Python pickle",
}
DOWNLOAD = "the download failed; fetch it again (a login may be needed)"
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_LFS = re.compile(rb"version https://git-lfs\.github\.com/spec/v\d+\s")
_LFS_SIZE = re.compile(rb"\nsize (\d{1,20})\s*$", re.M)
_HTML = re.compile(rb"\s*(<!doctype html|<html|<head|<body|<script|<!--|<\?xml[^>]*>\s*(<!doctype html|<html))", re.I)
_XML = re.compile(rb"\s*<\?xml[^>]*>|\s*<Error>", re.I)
_ANSWER = re.compile(rb'\s*\{\s*"(error|errors|message|detail|code|status|statuscode|fault)"\s*:', re.I)
_PLAIN = re.compile(
    rb"(\d{3}:? )?(not found|entry not found|access (to .{1,80} )?(is )?(denied|restricted)|invalid username or password|"
    rb"forbidden|unauthorized|repository not found|internal server error|bad gateway|service unavailable)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a file is, and what to do about it. ``sure`` where its bytes can be nothing else."""

    kind: str
    remedy: str
    sure: bool

    def __str__(self) -> str:
        return f"{self.kind}: {self.remedy}" if self.remedy else self.kind


def identify(head: bytes, size: int) -> Foreign | None:
    """What a file is that holds no embeddings, where its first bytes (`HEAD_BYTES` of them) tell."""
    if not size:
        return Foreign("an empty file", "nothing was written or downloaded into it", True)
    return _text(head, size) or _binary(head)


def _text(head: bytes, size: int) -> Foreign | None:
    if _LFS.match(head):
        told = _LFS_SIZE.search(head)
        of = f" of a file of {int(told[1]):,} bytes" if told else ""
        return Foreign(f"a Git LFS pointer{of}", "run git lfs pull to fetch the file itself", True)
    if _is_row(head):
        return None
    if _HTML.match(head):
        return Foreign("an HTML page", DOWNLOAD, True)
    if _XML.match(head) and size <= SMALL:
        return Foreign("an XML answer of a server", DOWNLOAD, True)
    if _ANSWER.match(head) and size <= SMALL:
        return Foreign(f"a JSON answer of a server ({_shown(head)})", DOWNLOAD, True)
    if _PLAIN.match(head) and size <= 1024:
        return Foreign(f"an error message ({_shown(head)})", DOWNLOAD, True)
    return None


def _is_row(head: bytes) -> bool:
    """Whether the first line is a word and numbers: then the word may be anything."""
    _, *numbers = head.lstrip().split(b"\n")[0].split()[:4] or [b""]
    return len(numbers) > 1 and all(_NUMBER.fullmatch(number) for number in numbers)


def _binary(head: bytes) -> Foreign | None:
    if head[257:262] == b"ustar":
        return Foreign("a tar archive", "unpack it first (tar xf)", True)
    for magic, (kind, remedy) in ARCHIVES.items():
        if head.startswith(magic):
            return Foreign(kind, remedy, False)
    return next((Foreign(kind, "", False) for magic, kind in OTHERS.items() if head.startswith(magic)), None)


def _shown(head: bytes) -> str:
    text = " ".join(head[:200].decode("utf-8", "replace").split())
    return text if len(text) <= 80 else f"{text[:79]}…"
