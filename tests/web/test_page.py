"""The page as a person uses it, in a real Chromium: load, type, pick, pan, go back, narrow screens, broken files."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec.browser import export_for_browser, load_browser_index
from polyvec.core.collection import Collection
from polyvec.web.publish import publish, publish_single_file

sys.path.insert(0, str(Path(__file__).parent))
import chromium

pytestmark = [pytest.mark.browser, pytest.mark.skipif(chromium.missing() is not None, reason=chromium.missing() or "")]

ROWS, DIM = 400, 32
COLORS = ["red", "green", "blue", "grey"]
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


def sample() -> Collection:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((8, DIM))[np.arange(ROWS) % 8] + 0.4 * rng.standard_normal((ROWS, DIM))
    records = [
        {
            "name": f"Item {i:03d} {'Éclair' if i == 42 else 'plain'}",
            "color": COLORS[i % 4],
            "year": 1900 + i % 100,
            "summary": f"number {i}",
            "url": f"https://example.org/{i}" if i != 9 else "javascript:window.hacked=3",
            "image": "https://image.invalid/x.png",
        }
        for i in range(ROWS)
    ]
    records[7] = {**records[7], "name": f"Evil {EVIL}", "summary": EVIL, "color": EVIL, "note": EVIL}
    return Collection.from_arrays(x.astype(np.float32), records=records)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(sample(), tmp_path_factory.mktemp("web") / "site", title="Test & <b>title</b>").page.parent


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with chromium.browser() as running:
        yield running


@pytest.fixture
def tab(chrome: Any) -> Iterator[Any]:
    context = chrome.new_context(viewport={"width": 1200, "height": 760}, color_scheme="dark", reduced_motion="reduce")
    context.route(re.compile(r"^https?://(?!127\.0\.0\.1)"), lambda route: route.abort())
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    yield page
    context.close()


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with chromium.serving(site) as where:
        yield where


def ready(tab: Any, address: str, state: str = "ready") -> None:
    tab.goto(address)
    tab.wait_for_selector(f"html[data-state={state}]", timeout=15000)


def until(tab: Any, expression: str, given: Any = None) -> None:
    """Wait until an expression holds: by polling, since the page's policy forbids evaluation inside it."""
    for _ in range(400):
        if tab.evaluate(expression, given):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(f"still not so: {expression}")


def results(tab: Any) -> list[str]:
    tab.wait_for_selector("#results .hit")
    return [b.inner_text() for b in tab.query_selector_all("#results .hit b")]


def test_load_type_pick_see_neighbours(tab: Any, address: str):
    ready(tab, address)
    assert tab.title() == "Test & <b>title</b>" and tab.inner_text("#title") == "Test & <b>title</b>"
    assert "400 rows × 32 dimensions" in tab.inner_text("#about")
    tab.fill("#find", "eclair")  # accents fold
    tab.wait_for_selector("#suggestions li")
    assert tab.inner_text("#suggestions li mark") == "Éclair"
    tab.click("#suggestions li")
    names = results(tab)
    assert len(names) == 20 and tab.inner_text("#subject h2") == "Item 042 Éclair"
    # the same cluster: rows equal modulo 8
    numbers = [int(re.search(r"\d+", name)[0]) for name in names if name.startswith("Item")]
    assert np.mean([n % 8 == 42 % 8 for n in numbers]) > 0.9
    scores = [float(s.inner_text()) for s in tab.query_selector_all("#results .score")]
    assert scores == sorted(scores, reverse=True) and 0 < scores[0] <= 1.01
    assert "row=42" in tab.url
    assert tab.evaluate("polyvec.page.map.near.length") == 20
    assert not tab.problems


def test_details_more_like_this_and_the_way_back(tab: Any, address: str):
    ready(tab, f"{address}#row=3")
    first = results(tab)[0]
    tab.click("#results .hit")
    tab.wait_for_selector("#results li.open dl.facts")
    assert "hit=" in tab.url
    link = tab.query_selector("#results li.open .acts a")
    assert link.get_attribute("href").startswith("https://example.org/") and "noopener" in link.get_attribute("rel")
    tab.click("#results li.open .acts .main")  # more like this
    until(tab, "name => document.querySelector('#subject h2')?.innerText === name", first)
    tab.go_back()
    until(tab, "document.querySelector('#subject h2')?.innerText === 'Item 003 plain'")
    tab.wait_for_selector("#results li.open")
    tab.go_back()
    until(tab, "!document.querySelector('#results li.open')")
    tab.go_forward()
    tab.wait_for_selector("#results li.open")
    tab.click("#close-subject")
    tab.wait_for_selector(".chips button")
    assert not tab.problems


def test_every_state_has_an_address(tab: Any, address: str):
    ready(tab, f"{address}#row=5&hit=13&color=year&f.color=red&f.color=green&view=0.4,0.6,3&k=40")
    tab.wait_for_selector("#results .hit")
    page = tab.evaluate("JSON.parse(JSON.stringify({s: polyvec.page.state, v: polyvec.page.map.view}))")
    assert page["s"]["k"] == 40 and page["s"]["color"] == "year" and page["s"]["filters"] == {"color": ["red", "green"]}
    assert page["v"] == {"x": 0.4, "y": 0.6, "z": 3}
    assert tab.input_value("#color") == "year"
    assert "200 left" in tab.inner_text("#filtered")
    shown = {int(re.search(r"\d+", name)[0]) % 4 for name in results(tab) if name.startswith("Item")}
    assert shown <= {0, 1}
    tab.evaluate("location.hash = '#row=6'")  # the address changes by hand
    until(tab, "document.querySelector('#subject h2')?.innerText === 'Item 006 plain'")
    assert not tab.problems


def test_the_map_pans_zooms_hovers_and_selects(tab: Any, address: str):
    ready(tab, address)
    box = tab.query_selector("#map").bounding_box()
    x, y = box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2
    before = tab.evaluate("({...polyvec.page.map.view})")
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 80, y + 40, steps=4)
    tab.mouse.up()
    panned = tab.evaluate("({...polyvec.page.map.view})")
    assert panned["x"] < before["x"] and panned["y"] < before["y"]
    tab.mouse.wheel(0, -300)
    until(tab, "z => polyvec.page.map.view.z > z", before["z"])
    until(tab, "location.hash.includes('view=')")
    tab.click("#zoom-fit")
    until(tab, "polyvec.page.map.getView() === null")
    px, py = tab.evaluate("polyvec.page.map.place(100)")
    tab.mouse.move(box["x"] + px, box["y"] + py)
    tab.wait_for_selector("#tip:not([hidden])")
    hovered = tab.evaluate("polyvec.page.map.hover")
    assert f"Item {hovered:03d}" in tab.inner_text("#tip")
    tab.mouse.click(box["x"] + px, box["y"] + py)
    until(tab, "row => polyvec.page.state.row === row", hovered)
    assert tab.evaluate("polyvec.page.map.lastDraw") < 1000
    assert not tab.problems


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)


def test_thumbnails_show_where_they_load_and_go_where_they_do_not(tab: Any, address: str):
    ready(tab, f"{address}#row=3")
    results(tab)
    until(tab, "document.querySelectorAll('#results img').length === 0")  # the host does not exist
    tab.context.route("https://image.invalid/*", lambda route: route.fulfill(body=PIXEL, content_type="image/png"))
    tab.evaluate("location.hash = '#row=4'")
    until(tab, "document.querySelector('#subject img')?.naturalWidth === 1")
    assert tab.get_attribute("#subject img", "referrerpolicy") == "no-referrer"


def test_a_number_finds_its_row(tab: Any, address: str):
    ready(tab, address)
    tab.fill("#find", "#123")
    tab.wait_for_selector("#suggestions li")
    tab.keyboard.press("Enter")
    until(tab, "polyvec.page.state.row === 123")
    tab.fill("#find", "03 item")  # words in any order
    tab.wait_for_selector("#suggestions li:nth-child(10)")
    tab.fill("#find", "no such name")
    tab.wait_for_selector("#suggestions .none")
    ready(tab, f"{address}#row=99999")
    tab.reload()
    until(tab, "document.querySelector('#status').textContent.includes('There is no row 99,999')")
    assert not tab.problems


def test_names_and_map_work_while_vectors_are_on_their_way(tab: Any, address: str):
    held: list[Any] = []
    tab.context.route("**/embeddings.i8bin", lambda route: held.append(route))
    ready(tab, address, "interactive")
    assert tab.evaluate("Number(document.querySelector('#progress').getAttribute('aria-valuenow'))") < 100
    tab.fill("#find", "Item 017")
    tab.wait_for_selector("#suggestions li")
    tab.keyboard.press("Enter")
    until(tab, "document.querySelector('#subject h2')?.innerText === 'Item 017 plain'")
    until(tab, "document.querySelector('#status').textContent === 'Vectors are on their way…'")
    held[0].continue_()
    assert len(results(tab)) == 20
    until(tab, "document.querySelector('#progress').classList.contains('done')")


def test_colour_and_filter_by_field(tab: Any, address: str):
    ready(tab, address)
    assert tab.input_value("#color") == "color"
    legend = [b.inner_text() for b in tab.query_selector_all("#legend button span")]
    assert set(COLORS) <= set(legend) and EVIL in legend
    codes = tab.evaluate("new Set(polyvec.page.map.codes).size")
    assert codes >= 4
    tab.click("#legend button:has-text('blue')")
    tab.wait_for_selector("#filtered:not([hidden])")
    assert "100 left" in tab.inner_text("#filtered")
    tab.click("#clear")
    tab.fill("[aria-label='year from']", "1990")
    tab.press("[aria-label='year from']", "Tab")
    until(tab, "document.querySelector('#filtered').textContent === '40 left'")
    tab.select_option("#color", "year")
    tab.wait_for_selector("#legend canvas")
    tab.go_back()
    until(tab, "document.querySelector('#color').value === 'color'")
    assert not tab.problems


def plain_site(tmp_path: Path, **given: Any) -> Path:
    rng = np.random.default_rng(1)
    return publish(
        Collection.from_arrays(rng.standard_normal((40, 8)).astype(np.float32), **given), tmp_path / "p"
    ).page.parent


def text_of(tab: Any) -> str:
    """All that is written on the page, details of a result and the tip of a point included."""
    tab.click("#results .hit")
    tab.wait_for_selector("#results li.open")
    point = tab.evaluate("polyvec.page.map.place(5)")
    box = tab.query_selector("#map").bounding_box()
    tab.mouse.move(box["x"] + point[0], box["y"] + point[1])
    tab.wait_for_selector("#tip:not([hidden])")
    return tab.inner_text("body")


NOTHING = re.compile(r"\b(null|undefined|NaN|None)\b|\[object")


@pytest.mark.parametrize("kind", ["bare", "ids", "words", "odd"])
def test_what_is_not_there_is_not_written(tab: Any, tmp_path: Path, kind: str):
    odd = [
        {
            "kind": None,
            "score": float("nan") if i == 5 else i,
            "deep": {"a": [None, {"b": True}]},
            "blank": "",
            "off": False,
        }
        for i in range(40)
    ]
    given = {
        "bare": {},
        "ids": {"ids": list(range(40))},
        "words": {"vocab": [f"w{i}" for i in range(40)]},
        "odd": {"records": odd},
    }[kind]
    with chromium.serving(plain_site(tmp_path, **given)) as address:
        ready(tab, f"{address}#row=5&color=score")
        results(tab)
        shown = text_of(tab).replace('{"a":[null,{"b":true}]}', "")  # a nested record is shown as it is
        assert not NOTHING.search(shown), NOTHING.search(shown)
        name = {"bare": "Row 5", "ids": "5", "words": "w5", "odd": "Row 5"}[kind]
        assert tab.inner_text("#subject h2") == name and tab.inner_text("#tip").split("\n")[0]
        if kind == "odd":
            facts = tab.inner_text("#subject .facts")
            assert "off" in facts and "false" in facts and "blank" not in facts and "kind" not in facts
    assert not tab.problems


def test_an_id_is_shown_found_and_linked_to(tab: Any, tmp_path: Path):
    big = 2**60
    ids = [big + i for i in range(40)]
    site = plain_site(tmp_path, ids=ids, records=[{"name": f"N{i}", "kind": "ab"[i % 2]} for i in range(40)])
    with chromium.serving(site) as address:
        ready(tab, address)
        tab.fill("#find", str(big + 7))
        tab.wait_for_selector("#suggestions li")
        tab.keyboard.press("Enter")
        until(tab, "document.querySelector('#subject h2')?.innerText === 'N7'")
        assert str(big + 7) in tab.inner_text("#subject .facts")
        until(tab, "id => location.hash.includes('id=' + id)", str(big + 7))
        # The address of an older order of rows still leads to the same record.
        tab.goto("about:blank")
        ready(tab, f"{address}#row=3&id={big + 9}")
        until(tab, "document.querySelector('#subject h2')?.innerText === 'N9'")
        until(tab, "location.hash.includes('row=9')")
        tab.goto("about:blank")
        ready(tab, f"{address}#id=absent")
        until(tab, "document.querySelector('#status').textContent.includes('no row with the id absent')")
    assert not tab.problems


def test_a_copy_of_a_row_is_nearest_to_it_with_a_cosine_of_one(tab: Any, tmp_path: Path):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 5)).astype(np.float32)
    x[150:] = x[:150] * 7
    with chromium.serving(publish(Collection.from_arrays(x), tmp_path / "p").page.parent) as address:
        ready(tab, address)
        for row in range(0, 150, 7):
            hits = tab.evaluate("row => polyvec.page.store.search({row}, 300, {})", row)
            assert {hits[0]["row"], hits[1]["row"]} == {row, row + 150} or hits[2]["score"] == 1
            assert hits[0]["score"] == 1 and all(-1 <= hit["score"] <= 1 for hit in hits) and len(hits) == 300


@pytest.mark.parametrize("rows", [1, 2])
def test_one_row_has_no_neighbour_and_no_filter_is_blamed(tab: Any, tmp_path: Path, rows: int):
    c = Collection.from_arrays(np.eye(2, 1, dtype=np.float32)[:rows] + 1)
    with chromium.serving(publish(c, tmp_path / "p").page.parent) as address:
        ready(tab, f"{address}#row=0")
        until(tab, "document.querySelector('#status').textContent !== ''")
        assert tab.inner_text("#status").startswith("There is no other row" if rows == 1 else "1 nearest")
        assert tab.inner_text("#about") == ("1 row × 1 dimension" if rows == 1 else "2 rows × 1 dimension")
        assert tab.inner_text("#method") == "all rows have one direction: there is nothing to spread out"
    assert not tab.problems


def test_a_range_shows_its_true_ends_and_years_as_years(tab: Any, tmp_path: Path):
    told = [{"name": f"N{i}", "year": 1990 + i if i else 1066, "score": i / 7, "cost": 1000.5 * i} for i in range(40)]
    with chromium.serving(plain_site(tmp_path, records=told)) as address:
        ready(tab, f"{address}#color=year")
        ends = [tab.get_attribute(f"[aria-label='{name}']", "placeholder") for name in ("year from", "year to")]
        assert ends == ["1066", "2029"]
        assert tab.inner_text("#legend").split() == ["1066", "2029"]
        for name, count in (("year", 40), ("score", 40), ("cost", 40)):
            for end in ("from", "to"):
                box = f"[aria-label='{name} {end}']"
                tab.fill(box, tab.get_attribute(box, "placeholder"))
                tab.press(box, "Tab")
            until(tab, "n => document.querySelector('#filtered').textContent === `${n} left`", count)
            tab.click("#clear")
        tab.fill("[aria-label='score to']", str(3 / 7))
        tab.press("[aria-label='score to']", "Tab")
        until(tab, "document.querySelector('#filtered').textContent === '4 left'")
    assert not tab.problems


def test_keyboard_only(tab: Any, address: str):
    ready(tab, address)
    tab.keyboard.press("/")
    tab.keyboard.type("item 01")
    tab.wait_for_selector("#suggestions li:nth-child(3)")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    assert tab.get_attribute("#find", "aria-activedescendant") == "suggestion-2"
    tab.keyboard.press("Enter")
    until(tab, "polyvec.page.state.row === 12")
    results(tab)
    tab.focus(".skip")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "results" and "row=12" in tab.url
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    second = tab.evaluate("Number(document.activeElement.dataset.row)")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#results li.open")
    assert tab.evaluate("Number(document.activeElement.dataset.row)") == second  # focus stays
    tab.keyboard.press("m")
    until(tab, "row => polyvec.page.state.row === row", second)
    tab.keyboard.press("g")
    z = tab.evaluate("polyvec.page.map.view.z")
    tab.keyboard.press("+")
    until(tab, "z => polyvec.page.map.view.z > z", z)
    x = tab.evaluate("polyvec.page.map.view.x")
    tab.keyboard.press("ArrowRight")
    until(tab, "x => polyvec.page.map.view.x > x", x)
    tab.keyboard.press("t")
    assert tab.get_attribute("html", "data-theme") == "light"
    tab.keyboard.press("?")
    assert tab.is_visible("#keys")
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".chips button")
    assert not tab.problems


def test_a_narrow_screen_has_no_sideways_scroll(tab: Any, address: str):
    tab.set_viewport_size({"width": 360, "height": 740})
    ready(tab, f"{address}#row=1")
    results(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    assert tab.is_visible("#find") and not tab.evaluate("document.querySelector('#panel').open")
    top = tab.query_selector("#subject").bounding_box()
    stage = tab.query_selector(".stage").bounding_box()
    assert top["y"] >= stage["y"] + stage["height"] and stage["width"] == 360
    touched = "#results .hit, .tools button:not(#help), .zoom button"
    small = tab.evaluate("s => [...document.querySelectorAll(s)].map(e => e.offsetHeight)", touched)
    assert min(small) >= 36  # a finger hits it
    tab.click("#panel summary")
    assert tab.is_visible("#color")


def test_dark_and_light_follow_the_system_and_the_choice_is_kept(chrome: Any, address: str):
    context = chrome.new_context(color_scheme="light")
    page = context.new_page()
    ready(page, address)
    assert page.get_attribute("html", "data-theme") == "light"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    ready(page, address)
    assert page.get_attribute("html", "data-theme") == "dark"
    context.close()


def test_markup_in_records_is_text_and_nothing_runs(tab: Any, address: str):
    ready(tab, f"{address}#row=7")
    results(tab)
    assert tab.inner_text("#subject h2").startswith("Evil <script>")
    assert "<img src=x" in tab.inner_text("#subject .blurb")
    assert tab.query_selector("#subject script") is None and tab.query_selector("#subject img[src='x']") is None
    tab.fill("#find", "Evil")
    tab.wait_for_selector("#suggestions li")
    assert "<script>" in tab.inner_text("#suggestions li")
    ready(tab, f"{address}#row=9")
    tab.reload()
    tab.wait_for_selector("#subject h2")
    assert tab.query_selector("#subject .acts a") is None  # javascript: is no address
    assert tab.evaluate("window.hacked") is None
    blocked = tab.evaluate(
        "new Promise(r => { addEventListener('securitypolicyviolation', e => r(e.violatedDirective));"
        " const s = document.createElement('script'); s.textContent = 'window.hacked = 4'; document.body.append(s); })"
    )
    assert blocked.startswith("script-src") and tab.evaluate("window.hacked") is None


def _site(**change: Any) -> Any:
    return lambda data: json.dumps(json.loads(data) | change).encode()


BROKEN = {
    "truncated": (
        "embeddings.i8bin",
        lambda d: d[:-100],
        "size",
        "Embedding file size mismatch: expected 12800 bytes (400 cards × 32 dims), got 12700 bytes",
    ),
    "float16": ("embeddings.i8bin", lambda d: d + d, "legacy", "old float16 format"),
    "404": ("embeddings.i8bin", lambda d: None, "network", "Failed to load embeddings: 404"),
    "other bytes": ("embeddings.i8bin", lambda d: bytes(reversed(d)), "hash", "hash mismatch: the manifest says"),
    "wrong manifest": (
        "site.json",
        _site(embeddings={"file": "embeddings.i8bin", "sha256": "0" * 64}),
        "hash",
        "hash mismatch",
    ),
    "wrong count": (
        "site.json",
        _site(rows=399, map={"file": "map.bin", "points": 400, "note": ""}),
        "count",
        "Metadata count mismatch: expected 399 records, got 400",
    ),
    "half a description": ("site.json", lambda d: d[:50], "meta", "not JSON"),
    "no description": ("site.json", lambda d: None, "network", "404"),
    "names of the wrong count": (
        "names.txt",
        lambda d: d.split(b"\n", 5)[5],
        "count",
        "Metadata count mismatch: expected 400 records, got 395",
    ),
    "half a map": ("map.bin", lambda d: d[:100], "count", "Metadata count mismatch"),
}


@pytest.mark.parametrize(("name", "change", "code", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_site_shows_the_right_panel(tab: Any, site: Path, tmp_path: Path, name, change, code, words):
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    path = broken / "data" / name
    data = change(path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)
    with chromium.serving(broken) as address:
        ready(tab, address, "failed")
        assert tab.is_visible("#error") and words in tab.inner_text("#error-text")
        assert tab.get_attribute("#error", "data-code") == code and len(tab.inner_text("#error-help")) > 20
        assert tab.evaluate("window.hacked") is None


def test_minus_128_shows_its_index(tab: Any, site: Path, tmp_path: Path):
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    path = broken / "data" / "embeddings.i8bin"
    data = bytearray(path.read_bytes())
    data[1000] = 0x80
    path.write_bytes(data)
    about = json.loads((broken / "data" / "site.json").read_bytes())
    about["embeddings"]["sha256"] = ""
    (broken / "data" / "site.json").write_text(json.dumps(about))
    with chromium.serving(broken) as address:
        ready(tab, address, "failed")
        assert "Invalid int8 value at index 1000: -128. Values must be in range [-127, 127]." in tab.inner_text(
            "#error-text"
        )


def test_a_site_opened_from_disk_says_what_to_do(tab: Any, site: Path):
    tab.goto((site / "index.html").as_uri())
    tab.wait_for_selector("#waiting", state="visible", timeout=10000)
    assert "--single-file" in tab.inner_text("#waiting")


def test_an_export_for_the_browser_is_loaded_and_searched_by_the_client(tab: Any, site: Path, tmp_path: Path):
    """Python writes index_out/, the browser reads it: the same rows, records and neighbours as Python reads back."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((60, 512)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cards = [{"name": f"C{i} ü", "set": "lea", "image_url": "https://i", "card_url": "https://c"} for i in range(60)]
    export_for_browser(rows, tmp_path / "index_out", records=cards)
    index = load_browser_index(tmp_path / "index_out")
    shutil.copytree(site / "client", tmp_path / "client")
    (tmp_path / "blank.html").write_text("<!doctype html>")
    with chromium.serving(tmp_path) as address:
        tab.goto(f"{address}blank.html")
        found = tab.evaluate(
            """async (query) => {
              const { loadIndex } = await import("/client/index.js");
              const index = await loadIndex("/index_out/");
              const records = await index.records();
              return { rows: index.rows, kernel: index.kernel, names: records.map((r) => r.name),
                       vector: Array.from(await index.vector(7)), near: await index.search(7, 5),
                       asked: await index.search(Float32Array.from(query), 5) };
            }""",
            rows[11].tolist(),
        )
    assert (found["rows"], found["kernel"]) == (60, "wasm") and found["names"] == [card["name"] for card in cards]
    np.testing.assert_array_equal(np.array(found["vector"], np.float32), index.vectors[7])
    assert [hit["row"] for hit in found["near"]] == [hit.row for hit in index.search(7, 5)]
    assert [hit["row"] for hit in found["asked"]] == [hit.row for hit in index.search(rows[11], 5)]


def test_a_single_file_opens_from_disk(tab: Any, tmp_path: Path):
    page = publish_single_file(
        sample(), tmp_path / "one file.html", title="One </title><script>window.hacked=1</script>"
    ).page
    ready(tab, f"{page.as_uri()}#row=42")
    assert len(results(tab)) == 20
    kernel = tab.evaluate("polyvec.page.store.ready.then(i => i.kernel)")
    assert kernel == "wasm" and tab.title().startswith("One </title>")
    assert tab.evaluate("window.hacked") is None and not tab.problems
    assert "script-src 'sha256-" in tab.get_attribute("meta[http-equiv]", "content")


def test_the_worker_searches_with_wasm_and_the_second_visit_is_cached(tab: Any, address: str):
    ready(tab, address)
    assert tab.evaluate("polyvec.page.store.ready.then(i => [i.kernel, i.cached])") == ["wasm", False]
    until(tab, "caches.open('polyvec-i8bin').then(c => c.keys()).then(k => k.length === 1)")
    ready(tab, address)
    tab.reload()
    tab.wait_for_selector("html[data-state=ready]")
    assert tab.evaluate("polyvec.page.store.ready.then(i => i.cached)") is True


def test_the_browser_and_python_find_the_same_neighbours(tab: Any, site: Path, address: str):
    codes = (
        np.frombuffer((site / "data" / "embeddings.i8bin").read_bytes(), np.int8).reshape(ROWS, DIM).astype(np.int64)
    )
    ready(tab, address)
    for row in (0, 77, 399):
        found = tab.evaluate("row => polyvec.page.store.search({row}, 15, {})", row)
        scores = (codes @ codes[row]) / np.sqrt((codes * codes).sum(axis=1) * (codes[row] * codes[row]).sum())
        expected = np.lexsort((np.arange(ROWS), -scores))[:15]
        assert [hit["row"] for hit in found] == expected.tolist()
        np.testing.assert_allclose([hit["score"] for hit in found], scores[expected], rtol=1e-12)
