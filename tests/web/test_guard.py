"""The door: who may ask, how much, and the headers that go out with every answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyvec.web import guard
from polyvec.web.guard import HEADERS, Guard, host_name


def ask(
    headers: dict[str, str], *, method: str = "GET", query: bytes = b"", body: tuple[bytes, ...] = ()
) -> tuple[int, dict[str, str], int]:
    """Status, headers and how many bytes the app was given."""
    sent: list[Any] = []
    taken = 0
    pieces = [{"type": "http.request", "body": piece, "more_body": True} for piece in body] + [{"type": "http.request"}]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal taken
        while (message := await receive()).get("more_body"):
            taken += len(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"OWN")]})
        await send({"type": "http.response.body", "body": b"fine"})

    async def receive() -> Any:
        return pieces.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    given = [(k.encode(), v.encode()) for k, v in headers.items()]
    scope = {"type": "http", "method": method, "headers": given, "raw_path": b"/", "query_string": query}
    asyncio.run(Guard(app)(scope, receive, send))
    told = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], told, taken


LOCAL = {"host": "localhost:8000"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (LOCAL, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "[::1]:80"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({}, 421),
        ({**LOCAL, "origin": "http://localhost:9"}, 200),
        ({**LOCAL, "origin": "http://evil.example"}, 403),
        ({**LOCAL, "origin": "null"}, 403),
        ({**LOCAL, "sec-fetch-site": "same-origin"}, 200),
        ({**LOCAL, "sec-fetch-site": "cross-site"}, 403),
        ({**LOCAL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({**LOCAL, "content-length": "99999999999"}, 413),
        ({**LOCAL, "content-length": "-1"}, 413),
    ],
)
def test_only_this_machine_and_its_own_pages_are_let_in(headers: dict[str, str], status: int) -> None:
    found, told, _ = ask(headers)
    assert found == status and all(name in told for name in HEADERS)


def test_an_answer_keeps_the_headers_it_has() -> None:
    assert ask(LOCAL)[1]["x-frame-options"] == "OWN"


def test_a_navigation_from_elsewhere_may_only_look() -> None:
    given = {**LOCAL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert ask(given, method="POST")[0] == 403


def test_a_long_address_is_refused() -> None:
    assert ask(LOCAL, query=b"q" * guard.MOST_URL)[0] == 414


def test_a_body_is_cut_off_where_it_grows_too_large_whatever_it_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_BODY", 10)
    assert ask(LOCAL, method="POST", body=(b"12345", b"12345"))[::2] == (200, 10)
    status, _, taken = ask(LOCAL, method="POST", body=(b"12345", b"12345", b"1"))
    assert status == 413 and taken == 10


@pytest.mark.parametrize(
    ("host", "name"), [("A:80", "a"), ("[::1]:80", "::1"), ("a", "a"), ("", ""), ("a:b:80", "a:b")]
)
def test_the_name_is_what_stands_before_the_port(host: str, name: str) -> None:
    assert host_name(host) == name
