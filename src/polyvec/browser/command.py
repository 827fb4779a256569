"""The original exporter's command: ``python -m polyvec.browser --input-dir IN --output-dir OUT``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from polyvec.browser.export import INPUT_RECORDS, INPUT_VECTORS, BrowserExport, export_for_browser
from polyvec.core.errors import FormatError, InputError
from polyvec.formats.i8bin import DIM

if TYPE_CHECKING:
    import argparse


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    import argparse

    parser = argparse.ArgumentParser(prog="python -m polyvec.browser", description="Export embeddings for the browser.")
    parser.add_argument(
        "--input-dir", required=True, help=f"a folder with {INPUT_VECTORS} and {INPUT_RECORDS}, or any file"
    )
    parser.add_argument(
        "--output-dir", required=True, help="where embeddings.i8bin, meta.json and build_manifest.json go"
    )
    parser.add_argument("--records", help="records as JSONL, CSV or Parquet, where the input has none")
    parser.add_argument("--rounding", default="norm", choices=("norm", "nearest", "truncate"))
    parser.add_argument("--normalize", action="store_true", help="rescale rows to length one first")
    parser.add_argument("--any-dim", action="store_true", help=f"allow other dimensions than {DIM} (an extension)")
    parser.add_argument("--timestamp", help="the manifest's timestamp; now unless given")
    return parser.parse_args(given)


def _lines(done: BrowserExport) -> Iterator[str]:
    yield f"wrote {done.embeddings}: {done.rows:,} x {done.dim}, {done.rows * done.dim:,} bytes"
    yield f"  sha256 {done.file_hash}"
    yield (
        f"  norms {done.norm_min:.4f} to {done.norm_max:.4f}; "
        f"errors up to {done.max_error:.3f} of a level, mean {done.mean_error:.3f}"
    )
    yield f"  beside it: {done.meta.name}, {done.manifest.name}"


def main(given: Sequence[str] | None = None) -> int:
    """The original exporter's command; every error is one line on standard error."""
    chosen = _arguments(given)
    try:
        done = export_for_browser(
            chosen.input_dir,
            chosen.output_dir,
            records=chosen.records,
            rounding=chosen.rounding,
            normalize=chosen.normalize,
            any_dim=chosen.any_dim,
            timestamp=chosen.timestamp,
        )
    except (FormatError, InputError, OSError) as error:
        print(f"polyvec.browser: {error}", file=sys.stderr)
        return 1
    print("\n".join(_lines(done)))
    return 0
