"""fbin -> HDF5 against a plain h5py write, and against cp.

    python benchmarks/hdf5.py [--small]

Prints seconds (best of three, in turn) and ratios. Ours include the sample that the receipt's loss is measured on;
neither compresses nor syncs. The claim: at most 1.2 times h5py, at 200k rows:
the sample costs the same in a small run and weighs more.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
from turns import best, read_fbin, write_fbin

import polyvec as pv

CLAIM = 1.2


def peer_write(fbin: Path, target: Path) -> None:
    """fbin -> HDF5 as one writes it with h5py."""
    rows = read_fbin(fbin)
    with h5py.File(target, "w") as out:
        out["vectors"] = rows


def peer_read(source: Path, target: Path) -> None:
    """HDF5 -> fbin as one writes it with h5py."""
    with h5py.File(source) as f:
        write_fbin(target, f["vectors"][:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="20k rows instead of 200k")
    rows = 20_000 if parser.parse_args().small else 200_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pv.write(folder / "a.fbin", np.random.default_rng(0).standard_normal((rows, 768), np.float32), durable=False)
        writing = best(
            {
                "polyvec": lambda: pv.convert(folder / "a.fbin", folder / "ours.h5", durable=False),
                "h5py": lambda: peer_write(folder / "a.fbin", folder / "peer.h5"),
                "cp": lambda: shutil.copyfile(folder / "a.fbin", folder / "copy.fbin"),
            }
        )
        reading = best(
            {
                "polyvec": lambda: pv.convert(folder / "peer.h5", folder / "ours.fbin", durable=False),
                "h5py": lambda: peer_read(folder / "peer.h5", folder / "peer.fbin"),
            }
        )
        same = (folder / "ours.fbin").read_bytes() == (folder / "a.fbin").read_bytes()
    print(
        f"{rows:,} x 768 float32, {rows * 768 * 4 / 1e6:,.0f} MB; there and back is {'exact' if same else 'NOT EXACT'}"
    )
    for title, times in (("fbin -> hdf5", writing), ("hdf5 -> fbin", reading)):
        print(title)
        for who, seconds in times.items():
            print(f"  {who:<24} {seconds:7.2f} s   {seconds / times['h5py']:5.2f} of h5py")
    ratio = writing["polyvec"] / writing["h5py"]
    print(f"  claim: fbin -> hdf5 at most {CLAIM} of h5py: {'kept' if ratio <= CLAIM else 'BROKEN'} ({ratio:.2f})")


if __name__ == "__main__":
    main()
