"""Targets: the one door through which a sink is opened, whatever kind of place its file is for."""

from __future__ import annotations

import os
from collections.abc import Iterable

from polyvec.core.arguments import check_targets
from polyvec.core.local_sinks import LocalSink, check_local
from polyvec.core.local_sinks import Together as Together
from polyvec.core.local_sinks import refuse_inputs as refuse_inputs
from polyvec.core.sinks import Sink
from polyvec.core.spools import StandardOutput

STDOUT = "-"


def open_sink(
    target: str | os.PathLike[str],
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    overwrite: bool = True,
    durable: bool = True,
    sha256: bool = False,
    together: Together | None = None,
    working: bool = False,
) -> Sink:
    """A sink for a path, or for ``-``, standard output. Use as a context manager: commits on success.

    ``inputs`` are files that must not be the target. ``durable=False`` skips fsync. ``sha256=True`` has the digest of
    the file at the end (`Sink.hexdigest`). With ``together`` the sink's commit only makes it ready, and it appears with
    the others of that set. ``working`` is for files that are no output: states and parts of an unfinished run.
    `InputError` where no file can be written there.
    """
    check_targets(target=target)
    if os.fspath(target) == STDOUT:
        return StandardOutput(sha256=sha256)
    return LocalSink(
        target,
        inputs=inputs,
        overwrite=overwrite,
        durable=durable,
        sha256=sha256,
        together=together,
        working=working,
    )


def check_target(
    target: str | os.PathLike[str], *, inputs: Iterable[str | os.PathLike[str]] = (), overwrite: bool = True
) -> None:
    """`InputError` where `open_sink` would refuse; a dry run asks this too. Standard output always can be written."""
    check_targets(target=target)
    if os.fspath(target) != STDOUT:
        check_local(target, inputs=inputs, overwrite=overwrite)
