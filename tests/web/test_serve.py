"""polyvec serve: the same page over any file, on this machine only."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.web.served import ServedCollection, TooSlow

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient

from polyvec.web.app import make_app

sys.path.insert(0, str(Path(__file__).parent))
import chromium

ROWS, DIM = 300, 24


def vectors() -> np.ndarray:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, DIM))[np.arange(ROWS) % 6] + 0.3 * rng.standard_normal((ROWS, DIM))
    return (2 * x).astype(np.float32)


def sample() -> Collection:
    records = [{"name": f"Row {i} {'Ünder' if i == 5 else 'x'}", "kind": "abc"[i % 3], "n": i} for i in range(ROWS)]
    return Collection.from_arrays(vectors(), records=records)


def client(served: ServedCollection | None, **options: Any) -> TestClient:
    return TestClient(make_app(served, **options), base_url="http://127.0.0.1:8765")


@pytest.fixture
def served() -> ServedCollection:
    return ServedCollection(sample(), title="Served", embed=lambda text: vectors()[len(text)], points=200)


@pytest.fixture
def asked(served: ServedCollection) -> Iterator[Any]:
    web = client(served)
    yield lambda path, **given: web.get(f"/c/{served.id}/{path}", **given)


def test_the_page_and_its_files_are_served_under_an_opaque_id(served: ServedCollection, asked):
    page = asked("")
    assert page.status_code == 200 and "<title>Served</title>" in page.text
    assert client(served).get("/", follow_redirects=False).headers["location"] == f"/c/{served.id}/"
    assert len(served.id) == 18 and all(c in "0123456789abcdef" for c in served.id)
    for name in ("page/main.js", "page/page.css", "client/worker.js", "client/kernel.wasm"):
        assert asked(name).status_code == 200
    assert asked("client/kernel.wasm").headers["content-type"] == "application/wasm"
    for name in (
        "page/../site.py",
        "..%2f..%2fapp.py",
        "client/package.json",
        "page/index.html",
        "data/x",
        "/etc/passwd",
        "site.py",
    ):
        assert asked(name).status_code == 404
    site = asked("data/site.json").json()
    assert (site["rows"], site["dim"], site["source"], site["text_query"]) == (ROWS, DIM, "server", True)
    assert len(asked("data/map.bin").content) == 4 * site["map"]["points"] == 800
    assert asked("data/map.bin").headers["content-type"] == "application/octet-stream"
    points = np.frombuffer(asked("data/points.bin").content, "<u4")
    assert len(points) == 200 and points[0] == 0 and points[-1] == ROWS - 1
    kinds = np.frombuffer(asked(f"data/{site['fields'][0]['file']}").content, "<u2")
    values = site["fields"][0]["values"]
    assert [values[k] for k in kinds[:5]] == ["abc"[p % 3] for p in points[:5]]


def test_search_is_exact_by_cosine(asked):
    x = vectors() / np.linalg.norm(vectors(), axis=1, keepdims=True)
    hits = asked("api/search?row=8&k=12").json()["hits"]
    expected = np.argsort(-(x @ x[8]), kind="stable")[:12]
    assert [h["row"] for h in hits] == expected.tolist() and abs(hits[0]["score"] - 1) < 1e-5
    filters = json.dumps({"kind": ["b"], "n": ["100..200"], "unknown": ["x"]})
    hits = asked("api/search", params={"row": 8, "k": 9, "filters": filters}).json()["hits"]
    allowed = [i for i in expected_order(x, 8) if i % 3 == 1 and 100 <= i <= 200]
    assert [h["row"] for h in hits] == allowed[:9]
    text = asked("api/search", params={"text": "four", "k": 1}).json()["hits"]
    assert text[0]["row"] == 4


def expected_order(x: np.ndarray, row: int) -> list[int]:
    return np.argsort(-(x @ x[row]), kind="stable").tolist()


def test_names_and_records(asked):
    assert asked("api/names", params={"q": "under", "limit": 3}).json()["names"] == [{"row": 5, "name": "Row 5 Ünder"}]
    found = asked("api/names?q=row 29&limit=12").json()["names"]
    assert [n["row"] for n in found] == [29, *range(290, 300), 129]  # a prefix first, then words
    assert [n["row"] for n in asked("api/names?q=x 299").json()["names"]] == [299]
    assert asked("api/names?q=&limit=3").json()["names"] == []
    assert asked("api/names?rows=7,9").json()["names"] == [{"row": 7, "name": "Row 7 x"}, {"row": 9, "name": "Row 9 x"}]
    assert asked("api/records?rows=7,299").json()["records"] == [sample().records[7], sample().records[299]]


@pytest.mark.parametrize("listed", [300_000, 100])
def test_ids_are_told_searched_and_never_rounded(monkeypatch, listed: int):
    monkeypatch.setattr("polyvec.web.served.MOST_LISTED", listed)
    big = 2**53
    served = ServedCollection(
        Collection.from_arrays(vectors(), ids=[big + i if i else 5 for i in range(ROWS)]), points=60
    )
    web = client(served)

    def asked(path: str) -> Any:
        return web.get(f"/c/{served.id}/api/{path}").json()

    expected = [{"row": 0, "id": 5, "name": "5"}, {"row": 7, "id": str(big + 7), "name": str(big + 7)}]
    assert asked("names?rows=0,7")["names"] == expected
    assert asked(f"names?id={big + 7}")["names"] == expected[1:] and asked("names?id=6")["names"] == []
    assert asked("records?rows=0,7")["records"] == [{"id": 5}, {"id": str(big + 7)}]
    assert asked(f"names?q={big + 299}")["names"][0]["row"] == 299  # the last row is in every sample
    hit = asked("search?row=7&k=1")["hits"][0]
    assert (hit["row"], hit["id"]) == (7, str(big + 7))


def test_rows_without_records_or_ids_answer_with_nothing_made_up():
    served = ServedCollection(Collection.from_arrays(vectors()))
    assert served.named([3]) == [{"row": 3, "name": ""}] and served.records([3]) == [{}]
    assert set(served.search(row=3, k=1)[0]) == {"row", "score"} and served.identified("3") == []


@pytest.mark.parametrize(
    "path",
    [
        "search",
        "search?row=-1",
        "search?row=300",
        "search?row=x",
        "search?row=1&k=x",
        "search?row=1&filters=[]",
        "search?row=1&filters={",
        'search?row=1&filters={"kind":3}',
        "records?rows=1,,2",
        "records?rows=" + ",".join(["1"] * 601),
        "names?rows=999",
    ],
)
def test_bad_questions_get_a_400_and_one_line(asked, path: str):
    answer = asked(f"api/{path}")
    assert answer.status_code == 400 and "\n" not in answer.json()["error"]


def test_only_this_machine_and_this_origin_are_answered(served: ServedCollection):
    web = client(served)
    path = f"/c/{served.id}/data/site.json"
    assert web.get(path).status_code == 200
    assert web.get(path, headers={"host": "localhost:1"}).status_code == 200
    assert web.get(path, headers={"host": "[::1]:1"}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "", "evil.example:8765"):
        assert web.get(path, headers={"host": host}).status_code == 421
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ):
        assert web.get(path, headers=headers).status_code == 403
    assert web.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert web.request(method, path).status_code == 405
    answer = web.get(path, headers={"origin": "http://127.0.0.1:8765"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff" and "server" not in answer.headers
    assert web.get(path + "?" + "x" * 20000).status_code == 414
    assert web.post("/", headers={"content-length": str(1 << 40)}).status_code == 413


def test_a_search_has_a_limit_of_time(served: ServedCollection):
    with pytest.raises(TooSlow):
        served.search(row=1, seconds=-1)


def test_rows_without_direction_are_near_nothing_and_break_nothing():
    x = vectors()
    x[3], x[4] = 0, np.nan
    served = ServedCollection(Collection.from_arrays(x))
    assert served.search(row=0, k=1)[0]["row"] == 0
    for row in (3, 4):
        with pytest.raises(pv.InputError, match="no direction"):
            served.search(row=row, k=5)
    everything = served.search(row=0, k=ROWS)
    assert len(everything) in (ROWS - 1, ROWS) and all(hit["score"] == hit["score"] for hit in everything)
    assert served.named([3]) == [{"row": 3, "name": ""}]


def test_a_server_without_model_says_so_and_one_without_rows_is_refused():
    served = ServedCollection(sample())
    answer = client(served).get(f"/c/{served.id}/api/search?text=hello")
    assert answer.status_code == 400 and "--model" in answer.json()["error"]
    with pytest.raises(pv.InputError, match="rows of numbers"):
        ServedCollection(Collection.from_arrays(np.arange(4)))


def test_large_collections_are_sampled(monkeypatch):
    monkeypatch.setattr("polyvec.web.served.MOST_LISTED", 100)
    served = ServedCollection(sample(), points=50)
    assert len(served.names) == 50 and served.suggest("row 299", 3) == [{"row": 299, "name": "Row 299 x"}]
    assert {hit["row"] % 3 for hit in served.search(row=1, k=9, filters={"kind": ["b"]})} == {1}
    assert served.site()["map"]["note"].endswith("50 of 300 rows shown")
    assert len(served.file("field-0.bin") or b"") == 100


@pytest.fixture
def running(tmp_path: Path) -> Iterator[str]:
    pv.write(tmp_path / "s.fbin", sample())
    command = [sys.executable, "-m", "polyvec", "serve", str(tmp_path / "s.fbin"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        line = process.stdout.readline()
        assert line.startswith("serving s.fbin at http://127.0.0.1:"), line + process.stderr.read()
        yield line.split()[3]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=15)
        assert "Traceback" not in errors


def test_the_command_serves_until_interrupted(running: str):
    import httpx

    answer = httpx.get(running, follow_redirects=True)
    assert answer.status_code == 200 and "<title>s.fbin</title>" in answer.text


@pytest.mark.browser
@pytest.mark.skipif(chromium.missing() is not None, reason=chromium.missing() or "")
def test_the_served_page_works_in_a_browser(running: str):
    with chromium.browser() as chrome:
        tab = chrome.new_page()
        problems: list[str] = []
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.goto(f"{running}")
        tab.wait_for_selector("html[data-state=ready]")
        tab.fill("#find", "under")
        tab.wait_for_selector("#suggestions li")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#results .hit")
        assert tab.inner_text("#subject h2") == "Row 5 Ünder"
        rows = tab.evaluate("[...document.querySelectorAll('#results .hit')].map(h => Number(h.dataset.row))")
        assert {row % 6 for row in rows} == {5}
        tab.click("#legend button:has-text('a')")
        tab.wait_for_selector("#filtered:not([hidden])")
        tab.wait_for_timeout(300)
        rows = tab.evaluate("[...document.querySelectorAll('#results .hit')].map(h => Number(h.dataset.row))")
        assert rows and {row % 3 for row in rows} == {0}
        assert not problems


class StubEmbedder:
    """Stands in for a model: the vector of a text is the row that its length names."""

    embedding_dim = DIM

    def __init__(self, path: str) -> None:
        if path != "stub.weights":
            raise FileNotFoundError(2, "No such file or directory", path)
        self.closed = False

    def embed(self, texts: list[str]) -> np.ndarray:
        return vectors()[[len(text) for text in texts]]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def stub_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def routes(embedder: StubEmbedder) -> list[Route]:
        async def embeddings(request: Any) -> JSONResponse:
            return JSONResponse({"data": embedder.embed([(await request.json())["input"]]).tolist()})

        return [Route("/v1/embeddings", embeddings, methods=["POST"])]

    faces = {"polyvec.embedder": {"Embedder": StubEmbedder}, "polyvec.web.embeddings": {"routes": routes}}
    for name, content in faces.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


def test_a_model_alone_a_file_alone_and_both_are_served(stub_model: None, tmp_path: Path):
    from polyvec.web.run import open_served

    pv.write(tmp_path / "s.fbin", sample())
    with open_served(None, model="stub.weights") as (served, extra):
        web = client(served, extra=extra)
        assert served is None and web.get("/").json()["embeddings"] == "/v1/embeddings"
        assert len(web.post("/v1/embeddings", json={"input": "abc"}).json()["data"][0]) == DIM
        assert (
            web.post("/v1/embeddings", json={"input": "a"}, headers={"origin": "https://e.example"}).status_code == 403
        )
        assert web.post("/v1/embeddings", content=iter([b"x" * (1 << 20)] * 9)).status_code == 413
    with open_served(str(tmp_path / "s.fbin"), model="stub.weights") as (served, extra):
        web = client(served, extra=extra)
        assert web.get(f"/c/{served.id}/api/search?text=12345&k=1").json()["hits"][0]["row"] == 5
        assert web.post("/v1/embeddings", json={"input": "abc"}).status_code == 200
    pv.write(tmp_path / "other.fbin", np.ones((3, DIM + 1), np.float32))
    with (
        pytest.raises(pv.InputError, match="dimensions"),
        open_served(str(tmp_path / "other.fbin"), model="stub.weights"),
    ):
        pass


@pytest.mark.browser
@pytest.mark.skipif(chromium.missing() is not None, reason=chromium.missing() or "")
def test_texts_are_searched_by_meaning_in_the_browser(served: ServedCollection):
    from polyvec.web.run import run_app

    address: queue.Queue[str] = queue.Queue()
    threading.Thread(target=run_app, args=(served,), kwargs={"ready": address.put}, daemon=True).start()
    with chromium.browser() as chrome:
        tab = chrome.new_page()
        tab.goto(address.get(timeout=20))
        tab.wait_for_selector("html[data-state=ready]")
        tab.fill("#find", "seven<b")
        tab.wait_for_selector("#suggestions .meaning")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#results .hit")
        assert tab.inner_text("#subject h2") == "“seven<b”" and "q=seven" in tab.url
        assert tab.get_attribute("#results .hit", "data-row") == "7"
        tab.reload()
        tab.wait_for_selector("#results .hit")
        assert tab.get_attribute("#results .hit", "data-row") == "7"


def test_without_the_extra_the_command_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys):
    from polyvec.cli import run

    pv.write(tmp_path / "s.fbin", vectors())
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", str(tmp_path / "s.fbin"), "--port", "0"]) == 2
    assert "pip install 'polyvec[web]'" in capsys.readouterr().err


def test_a_port_in_use_is_one_line(capsys):
    import socket

    from polyvec.cli import run

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["serve", __file__.replace(".py", ".none"), "--port", "0"]) == 1
        from polyvec.web.run import _listen

        with pytest.raises(pv.InputError, match="choose another --port"):
            _listen("127.0.0.1", taken.getsockname()[1])
    assert run(["serve"]) == 2
    assert "name a file" in capsys.readouterr().err
