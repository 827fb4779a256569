"""The server's routes: the page over a collection, and embeddings where there is a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from polyvec.core.errors import MissingExtra, PolyvecError
from polyvec.web.assets import asset_files, read_asset, site_html
from polyvec.web.guard import LOCAL, App, Guard
from polyvec.web.served import METRIC, MOST_K, ServedCollection, TooSlow

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import BaseRoute, Route
except ImportError:
    raise MissingExtra("starlette", extra="web", purpose="polyvec serve and its page") from None

KINDS = {".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json"}
MOST_TEXT = 2000
SEARCH_SECONDS = 30.0


def make_app(
    served: ServedCollection | None = None, *, extra: Sequence[BaseRoute] = (), hosts: Sequence[str] = LOCAL
) -> App:
    """The ASGI app: the page at /c/ID/ (where / leads), further routes beside it, all behind the guard."""
    routes: list[BaseRoute] = list(extra)
    if served is not None:
        routes += _Pages(served).routes()
    elif extra:
        routes.append(Route("/", _about))
    return Guard(Starlette(routes=routes), hosts)


async def _about(request: Request) -> Response:
    return JSONResponse({"service": "polyvec", "embeddings": "/v1/embeddings"})


class _Pages:
    """Handlers over one collection, addressed by an opaque id. One question is answered at a time."""

    def __init__(self, served: ServedCollection) -> None:
        self.served = served
        self.turn = asyncio.Lock()

    def routes(self) -> list[BaseRoute]:
        base = f"/c/{self.served.id}"
        return [
            Route("/", lambda request: RedirectResponse(f"{base}/")),
            Route(f"{base}/", self.page),
            Route(f"{base}/data/{{name}}", self.data),
            Route(f"{base}/api/names", self.names),
            Route(f"{base}/api/records", self.records),
            Route(f"{base}/api/search", self.search),
            Route(f"{base}/{{name:path}}", self.asset),
        ]

    async def page(self, request: Request) -> Response:
        return Response(site_html(self.served.title), media_type="text/html", headers={"cache-control": "no-cache"})

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in asset_files():  # names are looked up, never joined to a path
            return JSONResponse({"error": "there is no such file"}, 404)
        kind = KINDS[name[name.rindex(".") :]]
        return Response(read_asset(name), media_type=kind, headers={"cache-control": "no-cache"})

    async def data(self, request: Request) -> Response:
        content = await self._ask(lambda: self.served.file(request.path_params["name"]))
        if content is None:
            return JSONResponse({"error": "there is no such file"}, 404)
        kind = "application/json" if request.path_params["name"].endswith(".json") else "application/octet-stream"
        return Response(content, media_type=kind, headers={"cache-control": "no-store"})

    async def names(self, request: Request) -> Response:
        given = request.query_params
        if "rows" in given:
            return await self._reply(lambda: {"names": self.served.named(_numbers(given["rows"]))})
        if "id" in given:
            return await self._reply(lambda: {"names": self.served.identified(given["id"][:MOST_TEXT])})
        text = given.get("q", "")[:MOST_TEXT]
        return await self._reply(
            lambda: {"names": self.served.suggest(text, min(_number(given.get("limit", "12")), 50))}
        )

    async def records(self, request: Request) -> Response:
        return await self._reply(
            lambda: {"records": self.served.records(_numbers(request.query_params.get("rows", "")))}
        )

    async def search(self, request: Request) -> Response:
        given = request.query_params

        def answer() -> dict[str, Any]:
            row = _number(given["row"]) if "row" in given else None
            text = given["text"][:MOST_TEXT] if "text" in given else None
            k = min(_number(given.get("k", "20")), MOST_K)
            filters = _filters(given.get("filters", "{}"))
            hits = self.served.search(row=row, text=text, k=k, filters=filters, seconds=SEARCH_SECONDS)
            return {"metric": METRIC, "hits": hits}

        return await self._reply(answer)

    async def _reply(self, answer: Callable[[], dict[str, Any]]) -> Response:
        try:
            return JSONResponse(await self._ask(answer), headers={"cache-control": "no-store"})
        except TooSlow as error:
            return JSONResponse({"error": str(error)}, 503)
        except (PolyvecError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)

    async def _ask(self, answer: Callable[[], Any]) -> Any:
        async with self.turn:  # files are read by one thread at a time: not every format's library allows more
            return await run_in_threadpool(answer)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ValueError(f"expected a whole number, found {text[:20]!r}")
    return int(text)


def _numbers(text: str) -> list[int]:
    return [_number(part) for part in text.split(",")] if text else []


def _filters(text: str) -> dict[str, list[str]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("filters must be a JSON object") from None
    if not isinstance(value, dict) or not all(isinstance(v, list) for v in value.values()):
        raise ValueError("filters must be a JSON object of lists")
    return {str(name): [str(v) for v in values] for name, values in value.items()}
