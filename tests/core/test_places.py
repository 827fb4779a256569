"""Places: paths and URLs, their parts, siblings and identity."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run as run_command
from polyvec.core import places
from polyvec.core.errors import InputError, Replaced
from polyvec.core.places import Identity, Place
from polyvec.core.shards import arrange, expand
from polyvec.core.sources import Source, open_source, reopen
from polyvec.neighbors.truth import write_truth
from polyvec.testing.distant import DistantSource

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


class Bucket:
    """A store in a dictionary: what a scheme needs to be opened."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.versions: dict[str, int] = {}

    def put(self, url: str, data: bytes) -> None:
        self.objects[url] = data
        self.versions[url] = self.versions.get(url, 0) + 1

    def open(self, place: Place) -> Source:
        if place.text not in self.objects:
            raise FileNotFoundError(2, "no such object", place.text)
        return Stored(self.objects[place.text], place, self.identity(place))

    def identity(self, place: Place) -> Identity | None:
        data = self.objects.get(place.text)
        return None if data is None else Identity(len(data), f"v{self.versions.get(place.text, 0)}")

    def glob(self, place: Place) -> list[Place]:
        start, _, end = place.text.partition("*")
        return [Place.of(url) for url in self.objects if url.startswith(start) and url.endswith(end)]


class Stored(DistantSource):
    def __init__(self, data: bytes, place: Place, identity: Identity | None) -> None:
        super().__init__(data, place.name)
        self.place, self.label, self._identity = place, str(place), identity

    def identity(self) -> Identity | None:
        return self._identity

    def sibling(self, name: str) -> Source | None:
        return Source.sibling(self, name)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A store for s3:// URLs, and a pathlib that refuses them."""
    found, plain = Bucket({}), Path.__new__

    def made(cls: type[Path], *parts: str, **options: object) -> Path:
        assert not any("s3:" in os.fspath(part) for part in parts), f"pathlib was given {parts}"
        return plain(cls, *parts, **options)

    monkeypatch.setitem(places.STORES, "s3", found)
    monkeypatch.setattr(Path, "__new__", made)
    return found


def test_a_url_keeps_its_slashes_and_has_siblings() -> None:
    place = Place.of("s3://b/x.fbin")
    assert str(place) == "s3://b/x.fbin" and not place.local and place.scheme == "s3"
    assert (place.name, place.suffix, place.stem, place.folder) == ("x.fbin", ".fbin", "x", "s3://b/")
    assert str(place.sibling("x.fbin.words.txt")) == "s3://b/x.fbin.words.txt"
    with pytest.raises(InputError, match="needs a local file"):
        _ = place.path


def test_a_scheme_that_nobody_answers_for_is_one_line_that_says_what_is_there(tmp_path: Path) -> None:
    said = r"^s3://b/x.fbin: s3:// is not supported here; name a local path, or one of file://$"
    for ask in (
        lambda: pv.open("s3://b/x.fbin"),
        lambda: pv.open_source("s3://b/x.fbin"),
        lambda: pv.verify("s3://b/x.fbin"),
        lambda: pv.describe("s3://b/x.fbin"),
        lambda: pv.convert("s3://b/x.fbin", tmp_path / "x.npy"),
        lambda: pv.merge(["s3://b/x.fbin"], tmp_path / "x.npy"),
        lambda: pv.search("s3://b/x.fbin", ROWS),
        lambda: Place.of("s3://b/x.fbin").exists(),
    ):
        with pytest.raises(InputError, match=said):
            ask()
    with pytest.raises(InputError, match=r"^gs://b/\*.fbin: gs:// is not supported here"):
        pv.open("gs://b/*.fbin")


def test_a_file_url_is_a_local_file(tmp_path: Path) -> None:
    path = tmp_path / "a b#%.fbin"
    pv.write(path, ROWS)
    url = f"file://{quote(str(path))}"
    with pv.open(url) as found, pv.open(url.replace("file:///", "file://localhost/")) as again:
        assert np.array_equal(found.vectors[:], ROWS) and found.path == str(path) == again.path
        assert found.place == Place.of(path)
    for bad in ("file://elsewhere/a.fbin", "file://a.fbin"):
        with pytest.raises(InputError, match="of this machine"):
            pv.open(bad)


def test_names_come_apart_as_paths_do(tmp_path: Path) -> None:
    for text in ("a.fbin", "x/y.tar.gz", "./x//y", "/a/.hidden", "a.", "x/", "..", "a.b/c"):
        place, path = Place.of(text), Path(text)
        assert str(place) == str(path) and place.name in (path.name, "..") and place.stem == (path.stem or "..")
        assert place.path == path
    assert Place.of("a.fbin.crop_nb_1000").suffix == ".fbin"
    assert Place.of(tmp_path / "a").sibling("b").path == tmp_path / "b"
    assert Place.of("a").sibling("b") == Place.of("b")


def test_an_identity_tells_what_was_written_and_keeps_the_form_of_marks_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    place = Place.of(path)
    assert place.identity() is None and not place.exists() and not place.is_file()
    path.write_bytes(b"one")
    before = place.identity()
    found = path.stat()
    assert before is not None and before.size == 3
    assert before.to_json() == [3, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
    with open_source(path) as source:
        assert source.identity() == before
    os.link(path, tmp_path / "b")  # the same bytes, though the time of change moves
    assert before.same(place.identity())
    path.unlink()
    path.write_bytes(b"two")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert not before.same(place.identity()) and before != place.identity()
    assert Identity(3, "etag").to_json() == [3, "etag"]


def test_a_place_that_holds_other_bytes_is_not_opened_for_those_that_were_meant(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    place = Place.of(path)
    meant = place.identity()
    with reopen(place, meant) as source:
        assert source.read_at(0, 3) == b"one"
    path.write_bytes(b"more")
    with pytest.raises(Replaced, match="replaced or changed"):
        reopen(place, meant)


def test_a_scheme_is_one_class_and_one_line(bucket: Bucket, tmp_path: Path) -> None:
    pv.write(tmp_path / "x.fbin", ROWS, records=[{"n": n} for n in range(4)], vocab=list("abcd"))
    for path in tmp_path.iterdir():
        bucket.put(f"s3://b/{path.name}", path.read_bytes())
    with pv.open("s3://b/x.fbin") as found:
        assert np.array_equal(found.vectors[:], ROWS) and found.path == "s3://b/x.fbin"
        assert list(found.vocab) == list("abcd") and [r["n"] for r in found.records] == [0, 1, 2, 3]
        assert found.place is not None and found.place.identity() == Identity(56, "v1")
    assert pv.verify("s3://b/x.fbin").ok and pv.describe("s3://b/x.fbin").rows == 4
    receipt = pv.convert("s3://b/x.fbin", tmp_path / "y.npy")
    assert receipt.rows == 4
    assert pv.convert("s3://b/x.fbin", tmp_path / "z.npy", resume=True).rows == 4
    assert pv.convert("s3://b/x.fbin", tmp_path / "r.npy", records="s3://b/x.fbin.records.jsonl").rows == 4
    assert pv.search("s3://b/x.fbin", ROWS[:2], k=1).ids.shape == (2, 1)
    assert pv.stats("s3://b/x.fbin").rows == 4
    assert [receipt.rows for receipt in pv.split("s3://b/x.fbin", tmp_path / "s.fbin", parts=2)] == [2, 2]
    assert pv.Index.build("s3://b/x.fbin").rows == 4
    write_truth("s3://b/x.fbin", "s3://b/x.fbin", tmp_path / "t.ibin", k=2, metric="l2")
    for command in ("info", "verify"):
        assert run_command([command, "s3://b/x.fbin"]) == 0
    with pytest.raises(FileNotFoundError):
        pv.open("s3://b/none.fbin")


def test_shards_in_a_store_are_put_in_order(bucket: Bucket, tmp_path: Path) -> None:
    pv.write(tmp_path / "x.fbin", ROWS)
    for number in (10, 9, 8):
        bucket.put(f"s3://b/x_{number}.fbin", (tmp_path / "x.fbin").read_bytes())
    found = arrange(expand("s3://b/x_*.fbin"))
    assert [place.name for place in found.places] == ["x_8.fbin", "x_9.fbin", "x_10.fbin"] and not found.problems
    with pv.open("s3://b/x_*.fbin") as whole:
        assert whole.rows == 12 and whole.places == found.places and whole.place == found.places[0]
    assert pv.merge("s3://b/x_*.fbin", tmp_path / "all.fbin").rows == 12


def test_an_object_that_changed_is_told(bucket: Bucket) -> None:
    bucket.put("s3://b/x", b"one")
    with open_source("s3://b/x") as source:
        assert source.current() and not source.replaced()
        bucket.put("s3://b/x", b"two")
        assert not source.current() and source.replaced()


def test_a_collection_in_memory_has_no_place_and_a_part_has_that_of_the_whole(tmp_path: Path) -> None:
    assert pv.Collection.from_arrays(ROWS).place is None and pv.Collection.from_arrays(ROWS).places == ()
    with pv.open(pv.open_source(b"".join([b"\x01\0\0\0\x01\0\0\0", bytes(4)]), name="a.fbin")) as found:
        assert found.place is None and found.path == "a.fbin"
    pv.write(tmp_path / "a.fbin", ROWS)
    with pv.open(tmp_path / "a.fbin") as found:
        assert found[:2].places == found.places == (Place.of(tmp_path / "a.fbin"),)
