"""Descriptors: a read that has begun ends on its own file, whoever closes it meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.descriptors import Descriptor


def test_a_descriptor_closes_with_the_last_who_holds_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    one = Descriptor((tmp_path / "a").open("rb", buffering=0))
    other, number = one, one.number
    del one
    assert os.pread(other.number, 3, 0) == b"abc"
    del other
    with pytest.raises(OSError):
        os.fstat(number)


@pytest.mark.parametrize("name", ["pread", "preadv"])
def test_a_file_that_is_closed_while_it_is_read_gives_its_own_bytes_or_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a closed file is the next one that is opened: without a hold on it the read was of that file."""
    ones, twos = tmp_path / "ones.fbin", tmp_path / "twos.fbin"
    pv.write(ones, np.full((50, 4), 1, np.float32))
    pv.write(twos, np.full((50, 4), 2, np.float32))
    collection = pv.open(ones)
    real, others = getattr(os, name), []

    def meanwhile(*given: Any) -> Any:
        if not others:
            collection.close()
            others.extend(twos.open("rb") for _ in range(4))
        return real(*given)

    read = collection.vectors.__getitem__ if name == "preadv" else lambda rows: source.read_at(8, 16)
    source = collection.vectors.source
    monkeypatch.setattr(os, name, meanwhile)
    found = read(slice(0, 50))
    monkeypatch.undo()
    assert others
    for other in others:
        other.close()
    values = np.frombuffer(found, np.float32) if isinstance(found, bytes) else found
    assert (values == 1).all()
    with pytest.raises(pv.InputError, match=r"ones\.fbin is closed"):
        collection.vectors[0]
