"""Providers: called once, when first asked for, and those they bring in too."""

from __future__ import annotations

import pytest

from polyvec.core import providers


def test_each_is_called_once_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_waiting", [])
    called: list[str] = []

    def first() -> None:
        called.append("first")
        providers.provide(lambda: called.append("second"))

    providers.provide(first)
    assert called == []
    providers.summon()
    providers.summon()
    assert called == ["first", "second"]
