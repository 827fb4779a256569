"""The door to sinks: files are written to paths of this machine, and a URL is told from one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import polyvec as pv
from polyvec.core.spools import StandardOutput
from polyvec.core.targets import check_target, open_sink
from polyvec.testing import vectors

URLS = ("s3://bucket/a.fbin", "file:///tmp/a.fbin")


@pytest.mark.parametrize("url", URLS)
def test_no_file_is_written_to_a_url(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / url.rpartition("/")[0]).mkdir(parents=True)  # where a path of that spelling would lead
    source = tmp_path / "in.fbin"
    pv.write(source, vectors(4, 3))
    before = sorted(tmp_path.rglob("*"))
    for write in (
        lambda: pv.write(url, vectors(4, 3)),
        lambda: pv.write(url, vectors(4, 3), dry_run=True),
        lambda: pv.convert(source, url),
        lambda: pv.convert(source, url, resume=True),
        lambda: pv.merge([source], url),
        lambda: pv.sample(source, url, head=1),
        lambda: pv.split(source, url, parts=2),
        lambda: pv.Index.build(source).save(url),
        lambda: open_sink(url),
        lambda: check_target(url),
    ):
        with pytest.raises(
            pv.InputError, match=f"{url}: .* is a URL, and files are written to this machine; name a path"
        ):
            write()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dash_is_standard_output_and_always_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_bytes(b"a file of that name is not meant")
    check_target("-", inputs=["-"], overwrite=False)
    assert isinstance(open_sink("-"), StandardOutput)
    with open_sink(Path("./-x"), durable=False) as sink:
        sink.write(b"a file")
    assert (tmp_path / "-x").read_bytes() == b"a file"


def test_the_question_has_the_answer_of_the_door(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    for target, options in (
        (tmp_path, {}),
        (tmp_path / "no" / "a", {}),
        (tmp_path / "there", {"overwrite": False}),
        (tmp_path / "there", {"inputs": [tmp_path / "there"]}),
    ):
        told = []
        for ask in (check_target, open_sink):
            with pytest.raises(pv.InputError) as caught:
                ask(target, **options)
            told.append(str(caught.value))
        assert told[0] == told[1]
    check_target(tmp_path / "new", inputs=[tmp_path / "there"], overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["there"], "asking leaves no trace"


def test_the_digest_is_that_of_the_file_where_it_was_asked_for(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a", sha256=True, durable=False) as sink:
        sink.write(b"abc")
    assert sink.hexdigest() == hashlib.sha256(b"abc").hexdigest()
