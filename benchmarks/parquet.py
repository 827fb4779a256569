"""fbin -> Parquet and back, against pyarrow's own write and read of the same table, and against cp.

    python benchmarks/parquet.py [--small]

Prints seconds (best of three, in turn) and ratios. Ours include the sample that the receipt's loss is measured on;
both write to the same folder and neither syncs. The claim: at most 1.5 times pyarrow, both ways, at 200k rows:
the sample costs the same in a small run and weighs more.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from turns import best, read_fbin, write_fbin

import polyvec as pv

CLAIM = 1.5


def peer_write(fbin: Path, target: Path, **options: object) -> None:
    """fbin -> Parquet as one writes it with pyarrow: the whole table at once."""
    rows = read_fbin(fbin)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    pq.write_table(pa.table({"vectors": lists}), target, **options)


def peer_read(source: Path, target: Path) -> None:
    """Parquet -> fbin as one writes it with pyarrow."""
    column = pq.read_table(source)["vectors"].combine_chunks()
    rows = column.flatten().to_numpy().reshape(len(column), -1)
    write_fbin(target, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="20k rows instead of 200k")
    rows = 20_000 if parser.parse_args().small else 200_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pv.write(folder / "a.fbin", np.random.default_rng(0).standard_normal((rows, 768), np.float32), durable=False)
        pq_file, peer_file = folder / "ours.parquet", folder / "peer.parquet"
        writing = best(
            {
                "polyvec": lambda: pv.convert(folder / "a.fbin", pq_file, durable=False),
                "pyarrow": lambda: peer_write(folder / "a.fbin", peer_file),
                "pyarrow, stored as ours": lambda: peer_write(
                    folder / "a.fbin",
                    folder / "plain.parquet",
                    compression="none",
                    use_dictionary=False,
                    write_statistics=False,
                ),
                "cp": lambda: shutil.copyfile(folder / "a.fbin", folder / "copy.fbin"),
            }
        )
        reading = best(
            {
                "polyvec": lambda: pv.convert(pq_file, folder / "ours.fbin", durable=False),
                "pyarrow": lambda: peer_read(pq_file, folder / "peer.fbin"),
                "polyvec, pyarrow's file": lambda: pv.convert(peer_file, folder / "ours2.fbin", durable=False),
                "pyarrow, its own file": lambda: peer_read(peer_file, folder / "peer2.fbin"),
            }
        )
        same = (folder / "ours.fbin").read_bytes() == (folder / "a.fbin").read_bytes()
    print(
        f"{rows:,} x 768 float32, {rows * 768 * 4 / 1e6:,.0f} MB; there and back is {'exact' if same else 'NOT EXACT'}"
    )
    for title, times in (("fbin -> parquet", writing), ("parquet -> fbin", reading)):
        print(title)
        for who, seconds in times.items():
            print(f"  {who:<24} {seconds:7.2f} s   {seconds / times['pyarrow']:5.2f} of pyarrow")
        ratio = times["polyvec"] / times["pyarrow"]
        print(f"  claim: at most {CLAIM} of pyarrow: {'kept' if ratio <= CLAIM else 'BROKEN'} ({ratio:.2f})")


if __name__ == "__main__":
    main()
