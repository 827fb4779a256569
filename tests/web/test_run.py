"""What is opened to be served, and closed again; ports that cannot be had."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.web.run import _listen, open_served

pytest.importorskip("starlette")
ROWS = vectors(5, 3)


def test_a_file_is_served_by_its_column_and_closed_at_the_end(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.npz", {"x": ROWS, "y": ROWS[:2]}, durable=False)
    with open_served(str(tmp_path / "a.npz"), column="y", title="T") as (served, routes):
        assert served.title == "T" and served.collection.rows == 2 and routes == []
    with (
        pytest.raises(pv.InputError, match="no column 'z'; there are x, y"),
        open_served(str(tmp_path / "a.npz"), column="z"),
    ):
        pass


def test_without_a_file_nothing_is_served() -> None:
    with open_served(None) as (served, routes):
        assert served is None and routes == []


def test_records_come_from_another_file(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.npy", ROWS, durable=False)
    (tmp_path / "r.jsonl").write_text("".join(f'{{"name": "n{i}"}}\n' for i in range(5)))
    with open_served(str(tmp_path / "a.npy"), records=str(tmp_path / "r.jsonl")) as (served, _):
        assert served.names == [f"n{i}" for i in range(5)]


def test_a_port_in_use_is_told_and_zero_takes_a_free_one() -> None:
    with _listen("127.0.0.1", 0) as one:
        one.listen()
        port = one.getsockname()[1]
        assert port > 0
        with pytest.raises(pv.InputError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*--port"):
            _listen("127.0.0.1", port)
    assert isinstance(one, socket.socket)
