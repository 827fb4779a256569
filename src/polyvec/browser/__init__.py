"""The ``.i8bin`` community's own API: export a collection for the browser, read an export back.

>>> import numpy as np
>>> from polyvec.browser import export_for_browser, load_browser_index
>>> cards = [{"name": name, "set": "lea", "image_url": "", "card_url": ""} for name in ("Ankh", "Bog", "Crypt")]
>>> done = export_for_browser(np.eye(3, 512, dtype=np.float32), "index_out", records=cards)
>>> load_browser_index("index_out").search(1, k=1)[0].record["name"]
'Bog'

Also ``python -m polyvec.browser --input-dir IN --output-dir OUT``.
"""

from __future__ import annotations

from polyvec.browser.cards import meta_schema
from polyvec.browser.command import main
from polyvec.browser.export import BrowserExport, export_for_browser
from polyvec.browser.loading import BrowserIndex, load_browser_index
from polyvec.browser.values import dequantize, quantize, validate_l2_norm

__all__ = [
    "BrowserExport",
    "BrowserIndex",
    "dequantize",
    "export_for_browser",
    "load_browser_index",
    "main",
    "meta_schema",
    "quantize",
    "validate_l2_norm",
]
