"""The page's files: looked up by name, bundled in the order of their imports, allowed by their hashes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re

import pytest

from polyvec.web.assets import ENTRY, WORKER, asset_files, bundle, module_order, read_asset, single_html, site_html


def test_only_files_of_the_page_are_found() -> None:
    assert {ENTRY, WORKER, "page/page.css", "client/kernel.wasm"} <= set(asset_files())
    for name in ("../app.py", "page/../app.py", "/etc/passwd", "page/index.html"):
        with pytest.raises(KeyError):
            read_asset(name)


@pytest.mark.parametrize("entry", [ENTRY, WORKER])
def test_a_module_comes_after_all_that_it_imports_and_once(entry: str) -> None:
    order = module_order(entry)
    assert order[-1] == entry and len(order) == len(set(order))
    for place, name in enumerate(order):
        for target in re.findall(r'from "\./([^"]+)"', read_asset(name).decode()):
            assert f"{name.rpartition('/')[0]}/{target}" in order[:place]


def test_a_bundle_has_neither_imports_nor_exports() -> None:
    script = bundle(ENTRY)
    assert not re.search(r"^(import|export) ", script, re.M) and all(f"// {n}\n" in script for n in module_order(ENTRY))


def test_a_single_page_allows_its_own_scripts_and_holds_its_data() -> None:
    data = {"site.json": b'{"a": 1}' * 100, 'odd"name': b"\x00\x01"}
    page = single_html("<b>", data)
    assert "&lt;b&gt;" in page and "<b>" not in page.split("</title>")[0] and "{{" not in page.split("<script")[0]
    script = page.rpartition('<script type="module">')[2].partition("</script>")[0]
    wanted = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"sha256-{wanted}" in page.replace("&#x27;", "'")
    packed = re.search(r'data-file="site.json" data-packed="gzip">([^<]+)<', page)[1]
    assert gzip.decompress(base64.b64decode(packed)) == data["site.json"]
    assert 'data-file="odd&quot;name">AAE=<' in page


def test_a_site_names_its_modules_and_no_other_host() -> None:
    page = site_html("t")
    assert f'src="{ENTRY}"' in page and "'self'" in page.replace("&#x27;", "'")
    assert not re.search(r'(src|href)="(https?:)?//', page)
