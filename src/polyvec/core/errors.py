"""Every error polyvec raises on purpose.

An error message is one line: what is wrong, what was expected, what was found, where, and what to do.
"""

from __future__ import annotations

from typing import Any


class PolyvecError(Exception):
    """Everything polyvec raises on purpose."""


class FormatError(PolyvecError, ValueError):
    """A file does not hold what its format promises.

    ``path, offset, field, expected, found`` say where and what; ``remedy`` says what to do. All are optional,
    and `located` fills in those that only an outer layer knows.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        field: str | None = None,
        expected: Any = None,
        found: Any = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.field = field
        self.expected = expected
        self.found = found
        self.remedy = remedy

    def located(self, path: str) -> FormatError:
        """This error with the file's name in it, unless it names one already."""
        if self.path is None:
            self.path = path
        return self

    def __str__(self) -> str:
        where = []
        if self.field is not None:
            where.append(f"field {self.field}")
        if self.offset is not None:
            where.append(f"at byte {self.offset}")
        what = []
        if self.expected is not None:
            what.append(f"expected {self.expected}")
        if self.found is not None:
            what.append(f"found {self.found}")
        inside = "; ".join(part for part in (" ".join(where), ", ".join(what)) if part)
        text = f"{self.path}: {self.message}" if self.path else self.message
        if inside:
            text += f" ({inside})"
        if self.remedy:
            text += f"; {self.remedy}"
        return " ".join(text.split())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, {k: v for k, v in vars(self).items() if k != "message"})


def _rebuild(kind: type[FormatError], message: str, state: dict[str, Any]) -> FormatError:
    error = kind(message)
    vars(error).update(state)
    return error


class UnknownFormat(FormatError):
    """No format recognises the file."""


class AmbiguousFormat(FormatError):
    """Several formats fit the file equally well; the message names them."""


class Truncated(FormatError):
    """The file ends before what it promises."""


class Corrupt(FormatError):
    """The bytes contradict each other or their checksum."""


class Unsupported(FormatError):
    """A valid file that uses something polyvec does not read."""


class Replaced(FormatError):
    """Another program replaced a file while it was opened."""


class InputError(PolyvecError, ValueError):
    """An argument or an array that cannot be used as asked."""


class LossyConversion(PolyvecError):
    """A conversion would lose what nobody agreed to lose."""


class MissingExtra(PolyvecError, ImportError):
    """An optional dependency is not installed.

    >>> str(MissingExtra("h5py", extra="hdf5", purpose="HDF5 files"))
    "HDF5 files need h5py, which is not installed; pip install 'polyvec[hdf5]'"
    """

    def __init__(self, package: str, *, extra: str, purpose: str, one: bool = False) -> None:
        super().__init__(
            f"{purpose} {'needs' if one else 'need'} {package}, which is not installed; pip install 'polyvec[{extra}]'"
        )
        self.package = package
        self.extra = extra


class UnknownWord(PolyvecError, KeyError):
    """A word that a vocabulary does not have and that no subword of it knows."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "unknown word"


class DeviceError(PolyvecError, RuntimeError):
    """A GPU that is not there, is full, or failed."""


class Unsearchable(InputError):
    """Rows that a device cannot search as they are stored; the CPU can."""


class Cancelled(PolyvecError):
    """Work was stopped on request; nothing was left behind."""


class FormatWarning(UserWarning):
    """Something odd in a file that can still be read, such as bytes after its end."""


class DeviceWarning(UserWarning):
    """A device could not be used, and the CPU did the work."""


class SizeMismatchWarning(FormatWarning):
    """A file's size is not what its header promises."""


def speak_of(error: BaseException, said: str, meant: str) -> None:
    """Say ``meant`` wherever an error, or one that it comes from, says ``said``: another library may have put it in."""
    seen: set[int] = set()
    short = said.rpartition("/")[2], meant.rpartition("/")[2]
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))

        def change(value: Any) -> Any:
            return value.replace(said, meant).replace(*short) if isinstance(value, str) else value

        following.args = tuple(map(change, following.args))
        if isinstance(following, OSError):
            for name in ("filename", "filename2"):
                if isinstance(getattr(following, name), str):  # setting it to None would be told as a name
                    setattr(following, name, change(getattr(following, name)))
        if isinstance(following, FormatError):
            for name in ("message", "path", "expected", "found", "remedy"):
                setattr(following, name, change(getattr(following, name)))
        following = following.__cause__ or following.__context__
