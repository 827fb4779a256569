"""``python -m polyvec``: the command line."""

from polyvec.cli import main

main()
