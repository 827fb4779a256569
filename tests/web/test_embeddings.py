"""The OpenAI-compatible embeddings service, with the real client and with bad ones."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from polyvec.embedder import Embedder
from polyvec.testing.models import write_tiny_model
from polyvec.web.embeddings import Limits, Service, routes

TEXTS = ["hello world", "how do i read a zip file", "é中文"]
LIMITS = Limits(max_body=20_000, max_texts=20, max_waiting=40)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    with Embedder(write_tiny_model(tmp_path_factory.mktemp("m") / "tiny.weights"), engine="numpy") as made:
        yield made


@pytest.fixture
def client(embedder: Embedder) -> Iterator[TestClient]:
    with TestClient(Starlette(routes=list(routes(embedder, limits=LIMITS)))) as made:
        yield made


def post(client: TestClient, **body: Any) -> Any:
    return client.post("/v1/embeddings", json=body)


def test_floats_and_base64_are_the_embedders_vectors(client: TestClient, embedder: Embedder) -> None:
    wanted = embedder.embed(TEXTS)
    plain = post(client, input=TEXTS, model="tiny").json()
    assert plain["object"] == "list" and plain["model"] == "tiny" and [d["index"] for d in plain["data"]] == [0, 1, 2]
    assert np.allclose([d["embedding"] for d in plain["data"]], wanted, atol=1e-6)
    assert plain["usage"]["prompt_tokens"] == plain["usage"]["total_tokens"] == embedder.count_tokens(TEXTS)
    coded = post(client, input=TEXTS, model="tiny", encoding_format="base64").json()
    found = [np.frombuffer(base64.b64decode(d["embedding"]), "<f4") for d in coded["data"]]
    assert np.allclose(found, wanted, atol=1e-6)
    cut = post(client, input=TEXTS[0], dimensions=8).json()["data"][0]["embedding"]
    assert np.allclose(cut, embedder.embed(TEXTS[:1], truncate_dim=8)[0], atol=1e-6)


def test_token_ids_are_taken_as_they_are(client: TestClient, embedder: Embedder) -> None:
    ids = embedder.tokenizer.encode(TEXTS[0])
    for given in (ids, [ids]):
        found = post(client, input=given).json()["data"]
        assert len(found) == 1 and np.allclose(found[0]["embedding"], embedder.embed(TEXTS[:1])[0], atol=1e-6)


BAD = [
    ({"input": ""}, "empty text"),
    ({"input": []}, "empty list"),
    ({}, "input is missing"),
    ({"input": ["a", ""]}, "input 1 is an empty"),
    ({"input": 3.5}, "float"),
    ({"input": ["a", 3]}, "not text"),
    ({"input": [[10**6]]}, "token id"),
    ({"input": [[]]}, "empty list"),
    ({"input": [["a"]]}, "token id"),
    ({"input": {"a": 1}}, "dict"),
    ({"input": "a", "encoding_format": "hex"}, "hex"),
    ({"input": "a", "dimensions": 33}, "1..32"),
    ({"input": "a", "dimensions": True}, "1..32"),
    ({"input": ["a"] * 21}, "21 texts"),
    ({"input": "a", "model": 3}, "model"),
    ({"input": [[5] * 65]}, "65 tokens"),
]


@pytest.mark.parametrize(("body", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_embedded_is_answered_400_with_the_reason(
    client: TestClient, body: dict[str, Any], message: str
) -> None:
    answer = post(client, **body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert message in error["message"] and error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1]", b"\xff", b'{"input": NaN}', b'{"input":"a","input":"b"}', b"[" * 9000]
)
def test_what_is_no_request_is_answered_400(client: TestClient, raw: bytes) -> None:
    assert client.post("/v1/embeddings", content=raw).status_code == 400


def test_a_lone_surrogate_is_answered_400(client: TestClient) -> None:
    answer = client.post("/v1/embeddings", content=b'{"input": "\\ud800"}')
    assert answer.status_code == 400 and "surrogate" in answer.json()["error"]["message"]


def test_a_large_request_is_answered_413(client: TestClient) -> None:
    assert post(client, input="x" * 30_000).status_code == 413
    assert client.get("/v1/embeddings").status_code == 405


def test_health_models_and_metrics(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "model": "tiny", "dim": 32, "engine": "numpy"}
    assert client.get("/v1/models").json()["data"][0]["id"] == "tiny"
    post(client, input=[*TEXTS, "the a of " * 40])
    post(client, input="")
    lines = dict(line.split() for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    wanted = {
        "requests_total": "2",
        "refused_total": "1",
        "texts_total": "4",
        "truncated_total": "1",
        "batches_total": "1",
        "waiting_texts": "0",
    }
    assert {name: lines[f"polyvec_embed_{name}"] for name in wanted} == wanted


def test_requests_that_wait_are_run_together_and_too_many_are_answered_429(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, hold, runs = threading.Event(), threading.Event(), []

    def slow(ids: Any) -> Any:
        runs.append(len(ids))
        begun.set()
        hold.wait(60)
        return Embedder.embed_ids(embedder, ids)

    monkeypatch.setattr(embedder, "embed_ids", slow)
    answers: list[int] = []
    with TestClient(Starlette(routes=list(routes(embedder, limits=LIMITS)))) as client:
        threads = [
            threading.Thread(target=lambda: answers.append(post(client, input=["a"] * 10).status_code))
            for _ in range(5)
        ]
        threads[0].start()
        assert begun.wait(60)  # the first runs alone; the others come while it does
        for thread in threads[1:]:
            thread.start()
        while len(answers) < 1:  # four fill the queue, the fifth is turned away at once
            threading.Event().wait(0.01)
        assert answers == [429]
        hold.set()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200] * 4 + [429] and runs[0] == 10 and sum(runs) == 40 and len(runs) < 4


def test_the_real_openai_client_works(embedder: Embedder) -> None:
    openai = pytest.importorskip("openai")
    uvicorn = pytest.importorskip("uvicorn")
    import socket
    import time

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    from polyvec.web.app import make_app

    app = make_app(extra=routes(embedder))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        answer = client.embeddings.create(model="tiny", input=TEXTS)
        assert np.allclose([d.embedding for d in answer.data], embedder.embed(TEXTS), atol=1e-6)
        one = client.embeddings.create(model="tiny", input=TEXTS[0], encoding_format="float", dimensions=8)
        assert len(one.data[0].embedding) == 8 and one.usage.total_tokens > 2
        assert [m.id for m in client.models.list()] == ["tiny"]
        with pytest.raises(openai.BadRequestError, match="empty text"):
            client.embeddings.create(model="tiny", input="")
        client.close()
    finally:
        server.should_exit = True
        thread.join(10)


def test_routes_can_be_mounted_beside_others(embedder: Embedder) -> None:
    app = Starlette(routes=[*routes(embedder, model_name="mine")])
    with TestClient(app) as client:
        body = json.loads(post(client, input="a").text)
    assert body["model"] == "mine"


def test_no_request_is_left_waiting_between_runs() -> None:
    class Quick:
        def embed_ids(self, ids: list[list[int]]) -> np.ndarray:
            return np.array([[float(row[0])] for row in ids], np.float32)

    async def ask() -> None:
        service = Service(Quick(), Limits(batch_texts=2))  # type: ignore[arg-type]

        async def client(number: int) -> None:
            for turn in range(20):
                found = await service.embed([[number * 100 + turn]])
                assert found.tolist() == [[number * 100 + turn]]

        await asyncio.wait_for(asyncio.gather(*(client(number) for number in range(9))), 30)
        assert service.waiting == 0 and not service._running and service.metrics.batches >= 90

    asyncio.run(ask())
