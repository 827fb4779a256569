"""The command line: one file a command. Dropping a module with a ``command`` function (or, for a group, a typer
``app``) into this folder adds it; `terminal` holds what commands share."""

from __future__ import annotations

import os
import sys
from typing import Any

DEBUG = "POLYVEC_DEBUG"  # set: every error comes with its traceback


def main() -> None:
    """The entry point: runs a command; every error is one line on standard error, never a traceback.

    Exit codes: 0 ok, 1 bad or missing data, 2 usage, 130 interrupted (143 where a signal asked to end).
    """
    from polyvec.cli import streams

    streams.prepare()
    _end_cleanly()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from polyvec import __version__

        code = streams.show(f"polyvec {__version__}")
    elif arguments in ([], ["--help"], ["-h"]):
        code = streams.show(overview())  # without loading a single command: this is what people wait for first
    else:
        code = run(arguments)
    sys.exit(streams.finish(code))


def overview() -> str:
    """The page of ``polyvec --help``: every command with the first line of its module."""
    folder = os.path.dirname(__file__)
    lines = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        path = os.path.join(path, "__init__.py") if os.path.isdir(path) else path
        if name.startswith("_") or not path.endswith(".py") or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as file:
            title, colon, summary = file.readline().strip().strip('"').partition(": ")
        if colon and title == f"polyvec {name.removesuffix('.py')}":
            lines.append(f"  {title.split()[1]:<10} {summary[:1].upper()}{summary[1:]}")
    return "\n".join(
        [
            "Usage: polyvec COMMAND [ARGS]...",
            "",
            "  Open, check, convert, shrink and search any embedding file, and know exactly what you lost.",
            "",
            "Options:",
            "  --version   Print the version and exit.",
            "  -h, --help  Show this message and exit.",
            "",
            "Commands:",
            *lines,
            "",
            "polyvec COMMAND --help explains one of them, with an example.",
        ]
    )


def _end_cleanly() -> None:
    """SIGTERM (a scheduler's or a service manager's request) unwinds like Ctrl-C, so that no temporary file stays."""
    import signal

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)


def _misused(error: Any, arguments: list[str]) -> int:
    """Tell of a command line that no command takes; a command without arguments shows its help."""
    from polyvec.cli.advice import about_usage
    from polyvec.cli.terminal import fail

    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return 0
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return fail(f"{about_usage(error.format_message(), arguments)}{hint}", 2)


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    from polyvec.cli.terminal import warnings_in_lines

    with warnings_in_lines():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    import typer

    from polyvec.cli.advice import fitted
    from polyvec.cli.spellings import renew
    from polyvec.cli.streams import drop_output
    from polyvec.cli.terminal import build, fail, warn
    from polyvec.core.errors import InputError, LossyConversion, MissingExtra, PolyvecError

    # typer brings its own click or uses the installed one: its usage errors are told by what BadParameter is.
    usage_error: type[Any] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    if "polyvec.core.commits" in sys.modules:  # not the first command of this process
        sys.modules["polyvec.core.commits"].forget_outputs()
    arguments = arguments or ["--help"]
    try:
        program = build(arguments)
        arguments = renew(program, arguments, warn)
        # Not program(...), which ends the process with 1 where a reader went away.
        with program.make_context("polyvec", arguments) as context:
            result = program.invoke(context)
        return result if isinstance(result, int) else 0
    except typer.Exit as end:
        return fail(_interrupted(), 130) if end.exit_code == 130 else end.exit_code
    except usage_error as error:
        return _misused(error, arguments)
    except (typer.Abort, KeyboardInterrupt):
        return fail(_interrupted(), 130)
    except SystemExit as error:
        if error.code == 143:
            return fail(_interrupted(), 143)
        raise
    except (InputError, LossyConversion, MissingExtra) as error:
        return fail(fitted(str(error), arguments), 2)
    except PolyvecError as error:
        return fail(fitted(str(error), arguments), 1)
    except BrokenPipeError:
        drop_output()  # the reader went away: not our error
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return fail(f"{name}{(error.strerror or str(error)).lower()}", 1)
    except MemoryError as error:
        return fail(
            f"not enough memory{f': {error}' if str(error) else ''}; see `ulimit -v` and what else runs here", 1
        )
    except Exception as error:
        return fail(*_unexpected(error))


def _unexpected(error: Exception) -> tuple[str, int]:
    """A line and an exit code for what is no error of polyvec's: a bad setting of the environment, or a fault."""
    threads = sys.modules.get("polyvec.kernels.threads")
    if threads is not None and isinstance(error, threads.BadSetting):
        return str(error), 2
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"unexpected {what}; this is a fault of polyvec ({DEBUG}=1 shows where)", 1


def _interrupted() -> str:
    """What is true of the outputs when a command is stopped."""
    done: list[str] = []
    if "polyvec.core.commits" in sys.modules:
        done = list(dict.fromkeys(sys.modules["polyvec.core.commits"].changed_outputs()))
    if not done:
        return "interrupted; no output was changed"
    more = f" and {len(done) - 3} more" if len(done) > 3 else ""
    return f"interrupted; {', '.join(done[:3])}{more} {'is' if len(done) == 1 else 'are'} complete"
