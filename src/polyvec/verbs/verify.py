"""verify: read everything and report what is wrong, with its place."""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from polyvec import formats
from polyvec.core.errors import FormatError, FormatWarning
from polyvec.core.files import Source, open_source
from polyvec.core.format import Finding, Progress
from polyvec.core.sidecars import attach_sidecars
from polyvec.core.ties import check_digests


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `verify`: ``ok`` where no finding is an error."""

    path: str
    format: str | None
    bytes: int
    findings: tuple[Finding, ...]
    sha256: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the file is what it says."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"ok": self.ok, **asdict(self)}


def verify(
    path: str | os.PathLike[str] | Source, *, format: str | None = None, sha256: str | bool = False,
    progress: Progress | None = None, **own: Any,
) -> Report:  # fmt: skip
    """Check a file: its structure, every size and checksum it has, and every row.

    ``sha256`` True adds the file's digest to the report; a digest is also compared. A missing file is an OSError;
    whatever is wrong inside a file is a finding. ``progress`` is told the bytes read and the file's size. Further
    options are those of `open`.
    """
    source = open_source(path)
    with source, _watch(source, progress):
        findings: list[Finding] = []
        name = None
        try:
            detection = formats.detect(source, format)
            name = detection.format.name
            own = formats.reading_options(detection.format, own)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FormatWarning)
                    findings.extend(_check(source, detection, own))
            except FormatError as error:
                raise formats.hinted(error.located(source.label), detection, source) from None
        except FormatError as error:
            findings.append(Finding.of(error.located(source.label)))
        digest = _digest(source) if sha256 else None
        if not source.current():
            findings.append(Finding("error", f"{source.label}: the file was replaced or changed while it was checked; "
                                    "check it again when its writer is done"))  # fmt: skip
        if isinstance(sha256, str) and digest != sha256.lower():
            findings.append(Finding("error", f"{source.label}: SHA-256 differs: expected {sha256}, found {digest}; "
                                    "fetch the file again", field="sha256"))  # fmt: skip
        return Report(source.label, name, source.size, tuple(findings), digest)


def verify_all(
    paths: Sequence[str | os.PathLike[str]], *, format: str | None = None, sha256: str | bool = False,
    progress: Progress | None = None, **own: Any,
) -> list[Report]:  # fmt: skip
    """Check several files; one that cannot be read is a finding too, so that the others are still checked."""
    if len(paths) == 1:
        return [verify(paths[0], format=format, sha256=sha256, progress=progress, **own)]
    reports = []
    for path in paths:
        try:
            reports.append(verify(path, format=format, sha256=sha256, progress=progress, **own))
        except FormatError as error:
            reports.append(Report(os.fspath(path), None, 0, (Finding.of(error),)))
        except OSError as error:
            said = f"{os.fspath(path)}: {(error.strerror or str(error)).lower()}"
            reports.append(Report(os.fspath(path), None, 0, (Finding("error", said),)))
    return reports


@contextmanager
def _watch(source: Source, progress: Progress | None) -> Iterator[None]:
    """Tell how far the reading is, whoever reads: every format checks in its own way, and all through the source."""
    if progress is None:
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(0.1):
            progress(min(source.bytes_read, source.size - 1), source.size)

    watcher = threading.Thread(target=tell, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        progress(source.size, source.size)


def _check(source: Source, detection: formats.Detection, own: Mapping[str, Any]) -> list[Finding]:
    variant = detection.match.variant
    # The check closes the collection it opens; the file itself stays ours.
    findings = list(detection.format.told(own).check(source, variant=variant))
    if source.path is not None:
        findings += [Finding.of(error) for error in check_digests(source)]
        with detection.format.open(source, variant=variant, **own) as collection:
            attach_sidecars(collection, source)
            if collection.records is not None:
                for _ in collection.records:
                    pass
    return findings


def _digest(source: Source) -> str:
    digest = hashlib.sha256()
    at = 0
    while piece := source.read_at(at, 1 << 20):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()
