"""FBIN and IBIN by the names their community uses: readers, writers, shard merging, conversions.

The names, arguments and result keys are those of the format's own document and its reference toolkit; what stands
behind them is polyvec's model. Progress is ``callback(current, total)``; a checksum is the SHA-256 of the whole file.
"""

from __future__ import annotations

from polyvec.fbin.conversions import convert_fbin_to_hdf5, convert_fbin_to_npy, convert_npy_to_fbin
from polyvec.fbin.reading import FBINReader, IBINReader
from polyvec.fbin.shards import MergePreview, ShardInfo, ShardMerger, ShardValidationResult, merge_fbin_shards
from polyvec.fbin.writing import FBINWriter, IBINWriter, write_fbin, write_ibin

__all__ = [
    "FBINReader",
    "FBINWriter",
    "IBINReader",
    "IBINWriter",
    "MergePreview",
    "ShardInfo",
    "ShardMerger",
    "ShardValidationResult",
    "convert_fbin_to_hdf5",
    "convert_fbin_to_npy",
    "convert_npy_to_fbin",
    "merge_fbin_shards",
    "write_fbin",
    "write_ibin",
]
