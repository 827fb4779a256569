"""What records cost: converting vectors with a record a row, against the same vectors without.

    python benchmarks/records.py [--small]

Each line is the time with records divided by the time without, and the records a second that pass through.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import polyvec as pv


def best(run: Callable[[], object], times: int = 3) -> float:
    """The best of a few rounds, in seconds."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    count = 20_000 if parser.parse_args().small else 200_000
    rows = np.random.default_rng(0).standard_normal((count, 64), dtype=np.float32)
    records = [{"id": row, "title": f"item number {row}", "tag": row % 7} for row in range(count)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, told = folder / "plain.fbin", folder / "told.fbin"
        pv.write(plain, rows)
        pv.write(told, rows, records=records)
        targets: list[tuple[str, dict[str, str]]] = [
            ("o.cvc", {"encoding": "int8"}),
            ("o.cvc", {}),
            ("o.npy", {}),
            ("o.parquet", {}),
        ]
        for target, options in targets:
            without = best(lambda: pv.convert(plain, folder / target, durable=False, **options))
            held = best(lambda: pv.convert(told, folder / target, durable=False, **options))
            what = f"convert to {target[2:]} {options.get('encoding', '')}"
            print(f"{what:28} {held / without:6.2f} x without records   {count / (held - without):12,.0f} records/s")
        chosen = np.sort(np.random.default_rng(1).permutation(count)[: count // 10])
        with pv.open(told) as collection:
            assert collection.records is not None
            taken = best(lambda: collection.records.take(chosen))
            one = best(lambda: [collection.records[int(row)] for row in chosen[:1000]])
        print(f"{'a tenth of them, at once':28} {len(chosen) / taken:12,.0f} records/s")
        print(f"{'one after the other':28} {len(chosen[:1000]) / one:12,.0f} records/s")


if __name__ == "__main__":
    main()
