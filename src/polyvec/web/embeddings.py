"""An OpenAI-compatible embeddings service: routes over an `Embedder`, to be mounted in any starlette application.

    POST /v1/embeddings   {"input": text(s) or token ids, "model", "encoding_format": float|base64, "dimensions"}
    GET  /v1/models       the one model there is
    GET  /health          {"status": "ok"}
    GET  /metrics         counters for Prometheus

Requests that arrive while a batch runs are put together into the next one: many small clients get the throughput of
one large one. What cannot be embedded is answered 4xx with the reason.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import Corrupt, InputError, MissingExtra
from polyvec.core.strict_json import parse_json
from polyvec.kernels.threads import Crew

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from polyvec.model.encoder import Embedder


RUNS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and all waiting ones together, may ask for."""

    max_body: int = 8 << 20
    max_texts: int = 2048
    max_waiting: int = 32_768  # texts; more are answered 429
    batch_texts: int = 256  # texts put together into one run


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, *, code: str = "invalid_request_error", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(slots=True)
class Metrics:
    """Counters since the start."""

    requests: int = 0
    refused: int = 0
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    batches: int = 0
    seconds: float = 0.0

    def render(self, waiting: int) -> str:
        """The counters in Prometheus' text format."""
        lines = []
        for name, kind, value, text in (
            ("requests_total", "counter", self.requests, "Requests for embeddings."),
            ("refused_total", "counter", self.refused, "Requests answered with an error."),
            ("texts_total", "counter", self.texts, "Texts embedded."),
            ("tokens_total", "counter", self.tokens, "Tokens read."),
            ("truncated_total", "counter", self.truncated, "Texts that were cut."),
            ("batches_total", "counter", self.batches, "Runs of the model."),
            ("busy_seconds_total", "counter", round(self.seconds, 6), "Seconds spent in the model."),
            ("waiting_texts", "gauge", waiting, "Texts waiting for the model."),
        ):
            lines += [
                f"# HELP polyvec_embed_{name} {text}",
                f"# TYPE polyvec_embed_{name} {kind}",
                f"polyvec_embed_{name} {value}",
            ]
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Job:
    ids: list[list[int]]
    done: asyncio.Future[NDArray[np.float32]]


@dataclass(slots=True)
class Service:
    """Collects waiting requests and runs them together, off the event loop.

    Two runs at a time where a whole one waits: while one ends, or is answered, the other keeps the engine's threads busy.
    """

    embedder: Embedder
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    waiting: int = 0
    _queue: list[_Job] = field(default_factory=list)
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _threads: Crew = field(default_factory=lambda: Crew(RUNS + 1, "polyvec-serve"))

    async def embed(self, ids: list[list[int]]) -> NDArray[np.float32]:
        """Vectors of token ids, batched with those of other requests."""
        if self.waiting + len(ids) > self.limits.max_waiting:
            raise Refused(429, f"{self.waiting} texts are waiting already; try again later", code="rate_limit_exceeded")
        job = _Job(ids, asyncio.get_running_loop().create_future())
        self._queue.append(job)
        self.waiting += len(ids)
        full = sum(len(job.ids) for job in self._queue) >= self.limits.batch_texts
        if not self._running or (full and len(self._running) < RUNS):
            self._running.add(asyncio.create_task(self._drain()))
        try:
            return await job.done
        finally:
            self.waiting -= len(ids)

    async def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Token ids, and how many texts were cut; a few texts at once, many on a thread."""
        encode = self.embedder.tokenizer.encode_batch
        if sum(map(len, texts)) < 20_000:
            found = encode(texts)
        else:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, encode, texts)
        return found.ids, found.truncated

    async def _drain(self) -> None:
        try:
            while self._queue:
                await self._run_some()
        finally:  # at once, not in a callback: what is queued from now on needs another
            task = asyncio.current_task()
            assert task is not None
            self._running.discard(task)

    async def _run_some(self) -> None:
        """Run the jobs that have waited longest, as many as make one run."""
        jobs: list[_Job] = []
        count = 0
        while self._queue and (not jobs or count + len(self._queue[0].ids) <= self.limits.batch_texts):
            job = self._queue.pop(0)
            if not job.done.cancelled():  # its client went away
                jobs.append(job)
                count += len(job.ids)
        if not jobs:
            return
        ids = [row for job in jobs for row in job.ids]
        started = time.perf_counter()
        try:
            vectors = await asyncio.get_running_loop().run_in_executor(self._threads, self.embedder.embed_ids, ids)
        except Exception as error:
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
            return
        self.metrics.seconds += time.perf_counter() - started
        self.metrics.batches += 1
        at = 0
        for job in jobs:
            if not job.done.done():
                job.done.set_result(vectors[at : at + len(job.ids)])
            at += len(job.ids)


def routes(embedder: Embedder, *, limits: Limits | None = None, model_name: str | None = None) -> list[Route]:
    """The service's routes. The embedder stays the caller's to close."""
    try:
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.routing import Route
    except ImportError:
        raise MissingExtra("starlette", extra="web", purpose="web services") from None
    service = Service(embedder, limits or Limits())
    name = model_name or embedder.metadata.get("model_name", "polyvec")

    async def embeddings(request: Request) -> Response:
        service.metrics.requests += 1
        try:
            return await _answer(service, request, name)
        except Refused as refused:
            service.metrics.refused += 1
            body = {"message": str(refused), "type": refused.code, "param": refused.param, "code": None}
            return JSONResponse({"error": body}, status_code=refused.status)

    async def models(request: Request) -> Response:
        entry = {"id": name, "object": "model", "created": 0, "owned_by": "local"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "model": name, "dim": embedder.embedding_dim, "engine": embedder.engine})

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(service.metrics.render(service.waiting), media_type="text/plain; version=0.0.4")

    return [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/models", models, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]


async def _answer(service: Service, request: Request, name: str) -> Response:
    from starlette.responses import Response

    asked = await _read(service.limits, request)
    texts, ids = _inputs(asked.get("input"), service)
    form = asked.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise Refused(400, f"encoding_format is {form!r}; there are float and base64", param="encoding_format")
    width = asked.get("dimensions")
    if width is not None and (type(width) is not int or not 1 <= width <= service.embedder.embedding_dim):
        raise Refused(400, f"dimensions must lie in 1..{service.embedder.embedding_dim}", param="dimensions")
    if not isinstance(asked.get("model", name), str):
        raise Refused(400, "model must be text", param="model")
    if texts is not None:
        try:
            ids, cut = await service.tokenize(texts)
        except InputError as error:
            raise Refused(400, str(error), param="input") from None
        service.metrics.truncated += cut
    pooled = await service.embed(ids)
    vectors = service.embedder.finish(pooled, truncate_dim=width)
    tokens = sum(map(len, ids))
    service.metrics.texts += len(ids)
    service.metrics.tokens += tokens
    return Response(_render(vectors, form, name, tokens), media_type="application/json")


async def _read(limits: Limits, request: Request) -> dict[str, Any]:
    body = bytearray()
    stream: AsyncIterator[bytes] = request.stream()
    async for piece in stream:
        body += piece
        if len(body) > limits.max_body:
            raise Refused(413, f"the request is larger than {limits.max_body} bytes; send fewer texts at a time")
    try:
        asked = parse_json(bytes(body), field="request body")
    except Corrupt as error:
        raise Refused(400, str(error)) from None
    if not isinstance(asked, dict):
        raise Refused(400, "the request must be a JSON object with an input")
    return asked


def _inputs(given: Any, service: Service) -> tuple[list[str] | None, list[list[int]]]:
    """Texts, or token ids where the client sent those; `Refused` for anything else."""
    if given is None:
        raise Refused(400, "input is missing: send a text, a list of texts, or token ids", param="input")
    rows = given if isinstance(given, list) else [given]
    if rows and all(type(row) is int for row in rows):
        rows = [rows]
    if not rows:
        raise Refused(400, "input is an empty list", param="input")
    if len(rows) > service.limits.max_texts:
        raise Refused(
            400, f"input has {len(rows)} texts; at most {service.limits.max_texts} fit a request", param="input"
        )
    if all(isinstance(row, str) for row in rows):
        empty = next((number for number, row in enumerate(rows) if not row), None)
        if empty is not None:
            raise Refused(400, f"input {empty} is an empty text", param="input")
        return rows, []
    tokenizer = service.embedder.tokenizer
    for number, row in enumerate(rows):
        if not isinstance(row, list) or not row:
            kind = "an empty list" if row == [] else type(row).__name__
            raise Refused(400, f"input {number} is {kind}, not text or a list of token ids", param="input")
        if not all(type(token) is int and 0 <= token < tokenizer.vocab_size for token in row):
            raise Refused(400, f"input {number} holds what is no token id below {tokenizer.vocab_size}", param="input")
        if len(row) > tokenizer.max_length:
            raise Refused(
                400, f"input {number} has {len(row)} tokens; the model reads {tokenizer.max_length}", param="input"
            )
    return None, rows


def _render(vectors: NDArray[np.float32], form: str, name: str, tokens: int) -> bytes:
    """The answer as JSON."""
    import msgspec

    rows: list[Any]
    if form == "base64":
        rows = [base64.b64encode(np.ascontiguousarray(row, "<f4").tobytes()).decode() for row in vectors]
    else:
        rows = vectors.astype(np.float64).tolist()
    data = [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(rows)]
    answer = {"object": "list", "data": data, "model": name, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return msgspec.json.encode(answer)
