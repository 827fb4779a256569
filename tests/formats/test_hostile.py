"""Every file that once did harm does none now."""

from __future__ import annotations

from pathlib import Path

import pytest

import polyvec as pv
from polyvec import formats
from polyvec.testing.contents import consume, examine
from polyvec.testing.limits import bounded

FILES = sorted(path for path in (Path(__file__).parent.parent / "hostile").iterdir() if path.suffix != ".md")


def test_there_are_hostile_files() -> None:
    assert FILES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_hostile_file_is_a_format_error_or_consistent(path: Path) -> None:
    pv.verify(path)  # what is imported on first use is there before the limits are
    with bounded() as clock:
        clock.restart()
        try:
            with pv.open(path) as collection:
                consume(collection)
        except pv.FormatError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        with pv.open_source(path) as source:
            try:
                found = formats.detect(source)
            except pv.FormatError:
                return
            examine(found.format, source, variant=found.match.variant)
