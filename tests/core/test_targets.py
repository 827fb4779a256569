"""The door to sinks: files are written to paths of this machine, and a URL is told from one."""

from __future__ import annotations

from pathlib import Path

import pytest

import polyvec as pv
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
