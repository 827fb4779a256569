"""Install the peers of tests/peers.txt one by one; what cannot be had is said aloud, and its tests are skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    lines = Path(__file__).with_name("peers.txt").read_text().splitlines()
    peers = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    if subprocess.run([*pip, *peers]).returncode == 0:
        return
    for peer in peers:
        if subprocess.run([*pip, peer]).returncode != 0:
            print(f"SKIPPED: {peer} could not be installed; its interop tests will not run", flush=True)


if __name__ == "__main__":
    main()
