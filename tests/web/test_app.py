"""The routes: each question gets its answer, its kind and its cache; a bad one gets one line and no stack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.web.served import MOST_K, ServedCollection, TooSlow

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from polyvec.web import app as app_module
from polyvec.web.app import make_app

ROWS = 40


@pytest.fixture
def served() -> ServedCollection:
    rows = np.random.default_rng(0).standard_normal((ROWS, 6)).astype(np.float32)
    records = [{"name": f"Row {i}", "kind": "ab"[i % 2]} for i in range(ROWS)]
    return ServedCollection(Collection.from_arrays(rows, records=records), title="<Rows>", points=20)


@pytest.fixture
def asked(served: ServedCollection) -> Any:
    web = client(served)
    return lambda path, **given: web.get(f"/c/{served.id}/{path}", **given)


def client(served: ServedCollection | None, **options: Any) -> TestClient:
    return TestClient(make_app(served, **options), base_url="http://127.0.0.1:8765", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("path", "kind", "cache"),
    [
        ("", "text/html; charset=utf-8", "no-cache"),
        ("page/main.js", "text/javascript; charset=utf-8", "no-cache"),
        ("page/page.css", "text/css; charset=utf-8", "no-cache"),
        ("client/kernel.wasm", "application/wasm", "no-cache"),
        ("data/site.json", "application/json", "no-store"),
        ("data/map.bin", "application/octet-stream", "no-store"),
        ("api/names?q=row", "application/json", "no-store"),
        ("api/search?row=1", "application/json", "no-store"),
    ],
)
def test_every_answer_has_its_kind_and_what_holds_rows_is_never_kept(asked, path: str, kind: str, cache: str):
    answer = asked(path)
    assert answer.status_code == 200
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == (kind, cache)


@pytest.mark.parametrize(
    "path",
    [
        "names?q=row&limit=x",
        "names?q=row&limit=-1",
        "names?q=row&limit=²",
        "names?rows=1,x",
        "records?rows=1;2",
        "search?row=1&k=1.5",
        "search?row=" + "1" * 16,
        "search?row=1&filters=" + "[" * 2000,
        'search?row=1&filters={"kind":"a"}',
    ],
)
def test_a_question_that_is_none_is_one_line_with_a_400(asked, path: str):
    answer = asked(f"api/{path}")
    assert answer.status_code == 400
    assert answer.json()["error"] and "\n" not in answer.json()["error"]


def test_counts_have_a_limit(asked, served: ServedCollection, monkeypatch: pytest.MonkeyPatch):
    taken: list[int] = []
    monkeypatch.setattr(served, "suggest", lambda text, limit: taken.append(limit) or [])
    monkeypatch.setattr(served, "search", lambda **given: taken.append(given["k"]) or [])
    asked("api/names?q=a")
    asked("api/names?q=a&limit=9999")
    asked("api/search?row=1")
    asked("api/search?row=1&k=999999")
    assert taken == [12, 50, 20, MOST_K]


def test_long_texts_are_cut_before_anything_is_done_with_them(asked, served, monkeypatch: pytest.MonkeyPatch):
    taken: list[int] = []
    monkeypatch.setattr(served, "suggest", lambda text, limit: taken.append(len(text)) or [])
    monkeypatch.setattr(served, "identified", lambda text: taken.append(len(text)) or [])
    monkeypatch.setattr(served, "search", lambda **given: taken.append(len(given["text"])) or [])
    for path in ("names?q=", "names?id=", "search?text="):
        assert asked(f"api/{path}{'a' * 3000}").status_code == 200
    assert taken == [app_module.MOST_TEXT] * 3


def test_a_search_that_takes_too_long_is_told_as_that(asked, served, monkeypatch: pytest.MonkeyPatch):
    def slow(**given: Any) -> None:
        assert given["seconds"] == app_module.SEARCH_SECONDS
        raise TooSlow("it took too long")

    monkeypatch.setattr(served, "search", slow)
    answer = asked("api/search?row=1")
    assert (answer.status_code, answer.json()) == (503, {"error": "it took too long"})


def test_filters_are_texts_by_field(asked, served, monkeypatch: pytest.MonkeyPatch):
    taken: list[Any] = []
    monkeypatch.setattr(served, "search", lambda **given: taken.append(given["filters"]) or [])
    for text in ("", '?row=1&filters={"kind":["a",3]}'):
        asked(f"api/search{text}")
    assert taken == [{}, {"kind": ["a", "3"]}]


def test_without_a_collection_only_the_routes_given_are_there():
    extra = [Route("/v1/hello", lambda request: PlainTextResponse("hello"))]
    web = client(None, extra=extra)
    assert web.get("/").json() == {"service": "polyvec", "embeddings": "/v1/embeddings"}
    assert web.get("/v1/hello").text == "hello"
    assert client(None).get("/").status_code == 404


def test_further_routes_stand_beside_the_page(served: ServedCollection):
    web = client(served, extra=[Route("/v1/hello", lambda request: PlainTextResponse("hello"))])
    assert web.get("/v1/hello").text == "hello"
    assert web.get("/", follow_redirects=False).headers["location"] == f"/c/{served.id}/"
    assert web.get("/c/000000000000000000/").status_code == 404


def test_only_the_hosts_named_are_answered(served: ServedCollection):
    web = client(served, hosts=("example.org",))
    assert web.get("/", headers={"host": "example.org"}, follow_redirects=False).status_code == 307
    assert web.get("/").status_code == 421
