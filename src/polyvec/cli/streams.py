"""Standard input, output and error as they come: closed, of another encoding, read by someone who goes away. Not a command.

Only small modules are imported here: ``polyvec --help`` waits for it.
"""

from __future__ import annotations

import codecs
import os
import sys

# Our own symbols where a terminal has none of them; any other character is written as an escape.
PLAIN = {"…": "...", "×": "x", "→": "->", "·": "-", "–": "-", "—": "-", "’": "'", "█": "#", "░": "."}


def prepare() -> None:
    """Make the three streams safe to use: what cannot be encoded is spelt out, what is closed is opened."""
    # A closed descriptor would be given to the next file that is opened, and what is printed would go into it. Writing
    # to a closed standard output fails, as it does for other programs: the null device is opened for reading.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        _open_closed(number, mode)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="polyvec")


def finish(code: int) -> int:
    """Write out what is still buffered; returns the exit code. Without this a full disk or a reader that went away is a
    traceback at the interpreter's end."""
    if code:  # what went wrong has been told; once is enough
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            drop_output()
    else:
        code = show("", end="")
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _to_null(2)
    return code


def show(text: str, end: str = "\n") -> int:
    """Print at once; returns 0, or 1 where it cannot be written. A reader that went away is no error."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        drop_output()
    except (OSError, ValueError) as error:
        drop_output()
        say(f"polyvec: standard output: {(getattr(error, 'strerror', None) or str(error)).lower()}")
        return 1
    return 0


def drop_output() -> None:
    """Let standard output go nowhere from here on, what is buffered included: nobody reads it any more."""
    _to_null(1)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        pass


def fit(text: str) -> str:
    """The text as standard output shows it; for those who would write to it past its error handler."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "polyvec").decode(encoding)


def say(line: str) -> None:
    """One line on standard error, where anyone listens."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _to_null(2)


def _open_closed(number: int, mode: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


def _to_null(number: int) -> None:
    opened = os.open(os.devnull, os.O_WRONLY)
    os.dup2(opened, number)
    os.close(opened)


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """The error handler: our symbols in ASCII, all else as escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    spelt = "".join(PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in part)
    return spelt, error.end


codecs.register_error("polyvec", _spell)
