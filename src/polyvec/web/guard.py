"""The server's door: which hosts, methods, origins and sizes it lets in, and the headers that go out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from polyvec.web.assets import POLICY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = ("127.0.0.1", "localhost", "::1")
MOST_BODY = 8 << 20
MOST_URL = 16 << 10

HEADERS = {
    "content-security-policy": f"{POLICY}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """ASGI middleware. A page of another origin can neither read from this server nor make it work.

    The Host header must name this machine (so a hostile name that resolves to 127.0.0.1 gets nothing), requests that
    a browser says come from another site are refused, there are no CORS headers, and bodies are bounded.
    """

    def __init__(self, app: App, hosts: Iterable[str] = LOCAL) -> None:
        self.app = app
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        given = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, given)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        taken, answered = 0, False

        async def guarded(message: Message) -> None:
            nonlocal answered
            if taken > MOST_BODY:  # whatever the app makes of its interrupted reading
                if not answered:
                    answered = True
                    await _answer(send, 413, "the request is too large")
                return
            if message["type"] == "http.response.start":
                answered = True
                present = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in present]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BODY:
                raise _TooLarge
            return message

        try:
            await self.app(scope, bounded, guarded)
        except _TooLarge:
            await guarded({"type": "http.response.start"})

    def _refusal(self, scope: Scope, given: dict[str, str]) -> tuple[int, str] | None:
        host = host_name(given.get("host", ""))
        if host not in self.hosts:
            return 421, "this server answers to its own name only"
        site = given.get("sec-fetch-site", "none")
        opened = given.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if site not in ("none", "same-origin") and not opened:
            return 403, "requests of other sites are refused"
        origin = given.get("origin")
        if origin is not None and host_name(origin.partition("://")[2]) not in self.hosts:
            return 403, "requests of other origins are refused"
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > MOST_URL:
            return 414, "the address is too long"
        length = given.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BODY:
            return 413, "the request is too large"
        return None


class _TooLarge(Exception):
    pass


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


async def _answer(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = {**HEADERS, "content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
