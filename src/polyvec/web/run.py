"""Running the server: opens what is to be served, listens, and stops cleanly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.core.errors import InputError, MissingExtra
from polyvec.core.folders import recover
from polyvec.verbs.records import attach_records
from polyvec.web.guard import LOCAL
from polyvec.web.served import ServedCollection

KEEP_ALIVE_S = 5
MOST_CONNECTIONS = 100
MOST_HEADER = 32 << 10


@contextmanager
def open_served(
    file: str | None,
    *,
    model: str | None = None,
    title: str | None = None,
    records: str | None = None,
    column: str | None = None,
    format: str | None = None,
) -> Iterator[tuple[ServedCollection | None, list[Any]]]:
    """The collection to serve (None without a file) and the model's routes; the file is closed at the end."""
    with ExitStack() as stack:
        embedder = _open_model(model, stack) if model else None
        served = None
        if file is not None:
            recover(Path(file).parent)
            collection = stack.enter_context(formats.open(file, format=format))
            if column:
                if column not in collection.columns:
                    raise InputError(f"{file}: no column {column!r}; there are {', '.join(collection.columns)}")
                collection = collection.select(column)
            if records:
                collection = attach_records(collection, records)
            embed = _embed_with(embedder) if embedder is not None else None
            dim = embedder.embedding_dim if embedder is not None else None
            served = ServedCollection(collection, title=title, embed=embed, model_dim=dim)
        yield served, _model_routes(embedder) if embedder is not None else []


def _open_model(path: str, stack: ExitStack) -> Any:
    opened = import_module("polyvec.embedder").Embedder(path)
    if hasattr(opened, "close"):
        stack.callback(opened.close)
    return opened


def _embed_with(embedder: Any) -> Callable[[str], NDArray[np.float32]]:
    def embed(text: str) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = np.asarray(embedder.embed([text]), np.float32).reshape(1, -1)
        return rows.reshape(-1)

    return embed


def _model_routes(embedder: Any) -> list[Any]:
    try:
        embeddings = import_module("polyvec.web.embeddings")
    except ModuleNotFoundError:
        return []
    return list(embeddings.routes(embedder))


def run_app(
    served: ServedCollection | None,
    *,
    extra: Sequence[Any] = (),
    host: str = "127.0.0.1",
    port: int = 0,
    hosts: Sequence[str] = LOCAL,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until interrupted; ``ready`` is told the address once the server listens."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("uvicorn", extra="web", purpose="polyvec serve and its page") from None
    from polyvec.web.app import make_app

    listening = _listen(host, port)
    with listening:
        shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        config = uvicorn.Config(
            make_app(served, extra=extra, hosts=hosts),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=MOST_HEADER,
            lifespan="off",
        )
        server = uvicorn.Server(config)

        async def run() -> None:
            task = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started and not task.done():
                await asyncio.sleep(0.01)
            if server.started and ready is not None:
                ready(address)
            await task

        try:
            asyncio.run(run())
        except KeyboardInterrupt:
            pass


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port (0 takes a free one)"
        ) from None
    return listening
