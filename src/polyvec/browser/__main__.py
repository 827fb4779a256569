"""``python -m polyvec.browser``."""

from polyvec.browser.command import main

if __name__ == "__main__":
    raise SystemExit(main())
