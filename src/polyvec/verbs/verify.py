"""verify: read everything and report what is wrong, with its place, and how much of it could be compared.

Most formats keep no checksums: of them only the structure can be checked, unless a digest lies beside the file
(``FILE.sha256``), which `verify` writes when asked and compares from then on.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Unpack

from polyvec import formats
from polyvec.core.arguments import check_flags, check_paths, check_texts, joined, shown
from polyvec.core.digests import read_digests, sidecars_of, write_digests
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.format import Finding, Progress
from polyvec.core.hashing import DIGEST, HASH_STEP
from polyvec.core.places import Place
from polyvec.core.progress import check_progress, telling
from polyvec.core.remarks import unremarked
from polyvec.core.sidecars import attach_sidecars
from polyvec.core.signatures import shows_options
from polyvec.core.sources import IN_MEMORY, Source, Where, open_source
from polyvec.core.ties import check_digests
from polyvec.formats.options import ReadingOptions
from polyvec.kernels.threads import Crew


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `verify`: ``ok`` where no finding is an error.

    ``checked`` is ``"content"`` where every byte was compared with a checksum or digest, which ``against`` names, and
    ``"structure"`` where there was nothing to compare content with. ``digest`` is the digest file that was written.
    """

    path: str
    format: str | None
    bytes: int
    findings: tuple[Finding, ...]
    sha256: str | None = None
    checked: str = "structure"
    against: str | None = None
    digest: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the file is what it says."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"ok": self.ok, **asdict(self)}


@shows_options(ReadingOptions)
def verify(
    path: Where | Source,
    *,
    format: str | None = None,
    sha256: str | bool = False,
    write_digest: bool = False,
    progress: Progress | bool | None = None,
    options: Mapping[str, Any] | None = None,
    **own: Unpack[ReadingOptions],
) -> Report:
    """Check a file: its structure, every size and checksum it has, and every row.

    ``sha256`` True adds the file's digest to the report; a digest is also compared. Digests beside the file
    (``FILE.sha256``, of ``sha256sum``'s format) are compared; ``write_digest`` writes them where the file is good. A
    missing file is an OSError; whatever is wrong inside a file is a finding. ``progress`` is told the bytes read and how
    many there are. Further options are those of `open`; ``options`` takes them by name, also a foreign format's.
    """
    if not isinstance(path, (*IN_MEMORY, Place, Source)):
        check_paths(path=path)
    check_texts(format=format)
    check_flags(write_digest=write_digest)
    check_progress(progress)
    if not isinstance(sha256, (bool, str)):
        raise InputError(f"sha256 must be a digest, True or False, not {shown(sha256)}")
    given = joined(own, options)
    source = open_source(path)
    if write_digest and source.place is None:
        source.close()
        raise InputError("standard input has no place for a digest beside it; name a file")
    with (
        source,
        Hashing(source, wanted=bool(sha256) or write_digest) as hashing,
        _watch(source, progress, hashing.total),
    ):
        findings: list[Finding] = list(hashing.findings)
        name = None
        guarded = False
        try:
            detection = formats.detect(source, format)
            name = detection.format.name
            said = formats.reading_options(detection.format, given)
            try:
                with unremarked():
                    findings.extend(_check(source, detection, said))
                    guarded = detection.format.told(said).guarded(source, variant=detection.match.variant)
            except FormatError as error:
                raise formats.hinted(error.located(source.label), detection, source) from None
        except FormatError as error:
            findings.append(Finding.of(error.located(source.label)))
        digest = hashing.digest()
        findings.extend(hashing.compare())
        if not source.current():
            findings.append(
                Finding(
                    "error",
                    f"{source.label}: the file was replaced or changed while it was checked; "
                    "check it again when its writer is done",
                )
            )
        if isinstance(sha256, str) and digest != sha256.lower():
            findings.append(
                Finding(
                    "error",
                    f"{source.label}: SHA-256 differs: expected {sha256}, found {digest}; fetch the file again",
                    field="sha256",
                )
            )
        against = hashing.against or ("the digest given" if isinstance(sha256, str) else None)
        against = against or ("its own checksums" if guarded else None)
        bad = any(finding.severity == "error" for finding in findings)
        written = None if bad or not write_digest else hashing.write()
        return Report(
            source.label,
            name,
            source.size,
            tuple(findings),
            digest if sha256 else None,
            "content" if against or written else "structure",
            against,
            written,
        )


def verify_all(paths: Sequence[str | os.PathLike[str]], **options: Any) -> list[Report]:
    """Check several files; one that cannot be read is a finding too, so that the others are still checked."""
    if len(paths) == 1:
        return [verify(paths[0], **options)]
    reports = []
    for path in paths:
        try:
            reports.append(verify(path, **options))
        except FormatError as error:
            reports.append(Report(os.fspath(path), None, 0, (Finding.of(error),)))
        except OSError as error:
            said = f"{os.fspath(path)}: {(error.strerror or str(error)).lower()}"
            reports.append(Report(os.fspath(path), None, 0, (Finding("error", said),)))
    return reports


@contextmanager
def _watch(source: Source, progress: Progress | bool | None, total: int) -> Iterator[None]:
    """Tell how far the reading is, whoever reads: every format checks in its own way, and all through the source."""
    with telling(progress, total, "bytes") as tell:
        if tell is None:
            yield
            return
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.1):
                tell(source.bytes_read, total)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _check(source: Source, detection: formats.Detection, own: Mapping[str, Any]) -> list[Finding]:
    variant = detection.match.variant
    # The check closes the collection it opens; the file itself stays ours.
    findings = list(detection.format.told(own).check(source, variant=variant))
    if source.place is not None:
        findings += [Finding.of(error) for error in check_digests(source)]
        with detection.format.open(source, variant=variant, **own) as collection:
            try:
                attach_sidecars(collection, source)
            except Corrupt as error:
                told = Finding.of(error)
                return findings if told in findings else [*findings, told]
            if collection.records is not None:
                for _ in collection.records:
                    pass
    return findings


class Hashing:
    """The digests of a file and its sidecars: hashed on threads of their own, while the file is checked."""

    def __init__(self, source: Source, *, wanted: bool) -> None:
        self.source = source
        self.findings: list[Finding] = []
        self.told: dict[str, str] | None = None
        try:
            self.told = read_digests(source)
        except FormatError as error:
            self.findings.append(Finding.of(error))
        self.names = [source.name, *sidecars_of(source)] if wanted or self.told is not None else []
        self.total = source.size * (2 if self.names else 1)
        self._found: dict[str, str] = {}
        self._stopped = threading.Event()
        self._pool = Crew(max_workers=2) if self.names else None
        self._running = [self._pool.submit(self._hash, name) for name in self.names] if self._pool else []

    def __enter__(self) -> Hashing:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _hash(self, name: str) -> None:
        own = name == self.source.name
        source = self.source if own else self.source.sibling(name)
        if source is None:
            return
        digest = hashlib.sha256()
        with nullcontext() if own else source:
            for at in range(0, source.size, HASH_STEP):
                if self._stopped.is_set():
                    return
                digest.update(source.read_at(at, HASH_STEP))
        self._found[name] = digest.hexdigest()

    def digest(self) -> str | None:
        """The file's own SHA-256, once all are there; None where nobody asked."""
        for running in self._running:
            running.result()
        return self._found.get(self.source.name)

    @property
    def against(self) -> str | None:
        """The name of the digests that the file was compared with."""
        return self.source.name + DIGEST if self.told and self.source.name in self.told else None

    def compare(self) -> Iterator[Finding]:
        """What differs from the digests that lie beside the file."""
        if self.told is None:
            return
        listed = self.source.name + DIGEST
        if self.source.name not in self.told:
            yield Finding(
                "warning",
                f"{self.source.label}: {listed} lies beside it and does not name it; remove it, or "
                "write it again (--write-digest)",
                field="sha256",
            )
            return
        for name, digest in self.told.items():
            if name not in self.names:
                beside = self.source.sibling(name)
                if beside is None and name.startswith(self.source.name):
                    yield Finding(
                        "error",
                        f"{self.source.label}: its sidecar {name}, of which {listed} holds a digest, "
                        "is missing; put it back",
                        field="sha256",
                    )
                elif beside is not None:
                    beside.close()
            elif self._found.get(name) != digest:
                yield Finding(
                    "error",
                    f"{self._label(name)}: its content is not what {listed} says: expected {digest}, "
                    f"found {self._found.get(name)}{self._age(name)}",
                    field="sha256",
                )
        new = [name for name in self.names if name not in self.told]
        if new:
            yield Finding(
                "warning",
                f"{self.source.label}: {', '.join(new)} beside it has no digest in {listed}; add it "
                f"by removing {listed} and running polyvec verify --write-digest",
                field="sha256",
            )

    def _label(self, name: str) -> str:
        if name == self.source.name or self.source.place is None:
            return self.source.label
        return str(self.source.place.sibling(name))

    def _age(self, name: str) -> str:
        """Whether the file was changed after its digest was written, which tells an edit from damage."""
        if self.source.place is None:
            return "; restore it from its source"
        beside = self.source.name + DIGEST
        found = [self.source.place.sibling(one).identity() for one in (name, beside)]
        changed, made = (None if one is None else one.written for one in found)
        if changed is None or made is None:
            return "; restore it from its source"
        again = f"if that was meant, remove {beside} and run polyvec verify --write-digest"
        if changed > made:
            return f"; it was changed after its digest was written: {again}"
        return f"; it is damaged, restore it from its source ({again})"

    def write(self) -> str | None:
        """Write the digests beside the file, where they are not there already; returns the name of what was written."""
        place = self.source.place
        if place is None or self._found == self.told:
            return None
        return os.fspath(write_digests(place.path, {name: self._found[name] for name in self.names}))
