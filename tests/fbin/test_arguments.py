"""Arguments of the FBIN face that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec import fbin
from polyvec.fbin.arguments import at_least_one, not_negative


def no_temp_files(folder):
    return not [path for path in folder.iterdir() if path.name.endswith(".polyvec-tmp")]


@pytest.mark.parametrize(
    "call",
    [
        lambda p, t: fbin.FBINReader(p).sample_strided(stride=0),
        lambda p, t: fbin.FBINReader(p).sample_strided(stride=-1),
        lambda p, t: fbin.FBINReader(p).sample(start=-1),
        lambda p, t: fbin.FBINReader(p).sample(count=-1),
        lambda p, t: fbin.FBINReader(p).sample_random(count=-1),
        lambda p, t: list(fbin.FBINReader(p).read_sequential(chunk_size=0)),
        lambda p, t: fbin.FBINWriter(t).write(np.zeros((2, 2)), chunk_size=0),
        lambda p, t: fbin.FBINWriter(t).write(np.zeros(3)),
        lambda p, t: fbin.ShardMerger(chunk_size=0),
        lambda p, t: fbin.merge_fbin_shards([p], t, output_format="parquet"),
        lambda p, t: fbin.merge_fbin_shards([], t),
        lambda p, t: fbin.convert_fbin_to_npy(p, t, chunk_size=0),
        lambda p, t: fbin.convert_fbin_to_npy(p, p),
    ],
)
def test_bad_arguments_are_input_errors(path, tmp_path, call):
    with pytest.raises(pv.InputError):
        call(path, tmp_path / "target")
    assert not (tmp_path / "target").exists() and no_temp_files(tmp_path)


def test_numbers_are_named_with_what_they_must_be():
    at_least_one(chunk_size=1, count=9)
    not_negative(start=0)
    with pytest.raises(pv.InputError, match="chunk_size must be at least 1, not 0"):
        at_least_one(count=3, chunk_size=0)
    with pytest.raises(pv.InputError, match="start must not be negative, not -1"):
        not_negative(start=-1)
