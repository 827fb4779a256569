"""Which format a file is: what every format makes of it, surest first. Not a format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyvec.core.errors import AmbiguousFormat, FormatError, UnknownFormat
from polyvec.core.format import Confidence, Format, Match, Peek
from polyvec.core.options import near
from polyvec.core.remarks import remark
from polyvec.core.sources import Source
from polyvec.formats.discovery import all_formats, find_format, is_own
from polyvec.formats.foreign import HEAD_BYTES as FOREIGN_BYTES
from polyvec.formats.foreign import Foreign, identify


@dataclass(frozen=True, slots=True)
class Detection:
    """The format chosen for a file, why, and every other reading that fits."""

    format: Format
    match: Match
    others: tuple[tuple[Format, Match], ...] = ()


def _suffixes() -> list[str]:
    return [suffix for format in all_formats() for suffix in format.suffixes]


def readings(source: Source) -> list[tuple[Format, Match]]:
    """Every reading of a file by every format, surest first."""
    peek = Peek(source)
    found = [(f, m) for f in all_formats() for m in _sniffed(f, peek)]
    return sorted(found, key=lambda pair: -pair[1].confidence)


def _sniffed(format: Format, peek: Peek) -> Sequence[Match]:
    try:
        return [*format.sniff(peek)]  # all of it here: it may be a generator
    except Exception as error:
        if is_own(format) or isinstance(error, OSError):
            raise
        message = (
            f"the format {format.name} is left out: it cannot look at {peek.name} ({type(error).__name__}: {error})"
        )
        remark(message, stacklevel=2)  # a stranger's fault must not close every other file
        return []


def detect(source: Source, format: str | None = None) -> Detection:
    """The format of a file: the surest reading; two that are equally sure by their size alone are ambiguous."""
    found = readings(source)
    other = foreign(source)
    if other is not None and other.sure and not any(m.confidence == Confidence.MAGIC for _, m in found):
        if format is not None:
            find_format(format)  # a wrong name is the first thing to say
        raise refused(source, other)
    if format is not None:
        chosen, variant = find_format(format)
        others = tuple(pair for pair in found if pair[0] is not chosen)
        own = next((m for f, m in found if f is chosen and (not variant or m.variant == variant)), None)
        reason = f"asked for as {format}" + (f"; {own.reason}" if own else "; the bytes do not look like it")
        own_variant = variant or (own.variant if own else "")
        return Detection(chosen, Match(Confidence.NAMED, reason, own_variant), others)
    for confidence in sorted(Confidence, reverse=True):
        level = [pair for pair in found if pair[1].confidence == confidence]
        if len(level) > 1 and confidence in (Confidence.FITS, Confidence.NAMED):
            names = ", ".join(m.variant or f.name for f, m in level)
            example = _askable(*level[0])
            raise AmbiguousFormat(
                f"the file fits several formats: {names}",
                path=source.label,
                found=f"{source.size} bytes",
                remedy=f"say which with --from (format=), for example --from {example}",
            )
        if level and confidence == Confidence.SUFFIX and other is not None and other.remedy:
            raise refused(source, other)
        if level:
            others = tuple(pair for pair in found if pair is not level[0])
            return Detection(level[0][0], level[0][1], others)
    raise UnknownFormat(
        "no format recognises this file",
        path=source.label,
        offset=0,
        expected="one of " + ", ".join(f.name for f in all_formats()),
        found=f"{source.size} bytes starting {_shown(source)}",
        remedy=other.remedy
        if other is not None and other.remedy
        else "say what it is with --from (format=), or convert it to npy first" + near(source.suffix, _suffixes()),
    )


def foreign(source: Source) -> Foreign | None:
    """What a file is that holds no embeddings, where its first bytes tell."""
    return identify(source.read_at(0, FOREIGN_BYTES), source.size)


def refuse_foreign(source: Source) -> None:
    """`UnknownFormat` where a file's first bytes say that it holds no embeddings; for readers of one format alone."""
    found = foreign(source)
    if found is not None and found.sure:
        raise refused(source, found)


def refused(source: Source, found: Foreign) -> UnknownFormat:
    """The error for a file that holds no embeddings."""
    return UnknownFormat(
        f"this is {found.kind}, not an embedding file",
        path=source.label,
        offset=0,
        expected="an embedding file",
        found=f"{source.size} bytes",
        remedy=found.remedy or None,
    )


def _shown(source: Source) -> str:
    head, kind = source.read_at(0, 8).hex(" "), foreign(source)
    return f"{head}: {kind.kind}" if kind else head


def _askable(format: Format, match: Match) -> str:
    """What a user says to have a file read so: the variant where that is a name, else an alias of it, else the format's."""
    if match.variant in format.aliases or f".{match.variant}" in format.suffixes:
        return match.variant
    return next((name for name, variant in format.aliases.items() if match.variant == variant != ""), format.name)


def hinted(error: FormatError, detection: Detection, source: Source) -> FormatError:
    """An error of a format chosen by name also tells what the bytes look like."""
    if detection.match.confidence < Confidence.MAGIC:
        hint = None
        better = [(f, m) for f, m in detection.others if m.fits]
        other = foreign(source)
        if better:
            name = _askable(*better[0])
            hint = f"the bytes look like {name} ({better[0][1].reason}): try --from {name}"
        elif other is not None:
            hint = f"the bytes look like {other}"
        if hint:
            error.remedy = f"{error.remedy}; {hint}" if error.remedy else hint
    return error
