"""polyvec publish: what a site holds, what it refuses, and how it replaces an older one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run
from polyvec.core.collection import Collection
from polyvec.web.assets import asset_files, bundle, module_order, single_html, site_html
from polyvec.web.fields import MISSING, Field, survey
from polyvec.web.projection import project, to_points
from polyvec.web.publish import publish, publish_single_file
from polyvec.web.site import Entries, Roles


def rows(count: int = 30, dim: int = 16, *, seed: int = 0) -> np.ndarray:
    return 3 * np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def records(count: int = 30) -> list[dict]:
    more = {"url": "https://e.example"}
    return [
        {"title": f"T{i}\nx", "kind": "ab"[i % 2], "size": i * 1.5, "tags": ["x", i % 3], **more} for i in range(count)
    ]


def test_a_site_holds_what_the_page_reads(tmp_path: Path):
    c = Collection.from_arrays(rows(600), records=records(600))
    done = publish(c, tmp_path / "site", title="A & B")
    data = tmp_path / "site" / "data"
    about = json.loads((data / "site.json").read_bytes())
    assert (about["rows"], about["dim"], about["title"], about["source"]) == (600, 16, "A & B", "static")
    assert about["roles"] == {"name": "title", "link": "url"}
    assert {f["name"]: f["kind"] for f in about["fields"]} == {"kind": "category", "tags": "category", "size": "number"}
    codes = np.frombuffer((data / "embeddings.i8bin").read_bytes(), np.int8).reshape(600, 16)
    unit = rows(600) / np.linalg.norm(rows(600), axis=1, keepdims=True)
    assert np.abs(codes / 127 - unit).max() < 1 / 127
    assert (data / "names.txt").read_text().splitlines() == [f"T{i} x" for i in range(600)]
    shards = [json.loads((data / "records" / f"{i}.json").read_bytes()) for i in range(3)]
    assert [len(s) for s in shards] == [256, 256, 88] and [r for s in shards for r in s] == records(600)
    assert len((data / "map.bin").read_bytes()) == 4 * 600
    assert done.bytes == sum(p.stat().st_size for p in (tmp_path / "site").rglob("*") if p.is_file())
    assert pv.verify(data / "embeddings.i8bin", format="i8bin").findings  # 16 dimensions without a shape beside it
    assert set(asset_files()) < {str(p.relative_to(tmp_path / "site")) for p in (tmp_path / "site").rglob("*")}


def test_the_same_collection_gives_the_same_site(tmp_path: Path):
    c = Collection.from_arrays(rows(), records=records())
    for name in ("one", "two"):
        publish(c, tmp_path / name, title="x")
    for path in (tmp_path / "one").rglob("*.*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_words_ids_and_nothing_are_enough(tmp_path: Path):
    for c, names in (
        (Collection.from_arrays(rows(3), vocab=["a", "b b", "ü"]), ["a", "b b", "ü"]),
        (Collection.from_arrays(rows(3), ids=["x1", "x2", "x3"]), ["x1", "x2", "x3"]),
        (Collection.from_arrays(rows(3)), ["", "", ""]),
    ):
        publish(c, tmp_path / "site", overwrite=True)
        assert (tmp_path / "site" / "data" / "names.txt").read_text().split("\n")[:3] == names


def test_ids_are_the_names_where_records_have_none_and_are_never_dropped(tmp_path: Path):
    told = [{"kind": "a"}, {"name": "Named", "kind": "b"}, {"id": 9, "name": ""}, {"id": "w"}]
    for ids, shown in (
        (["x", "y", "z", "w"], ["x", "y", "z", "w"]),
        ([1, -2, 2**62 + 1, 4], [1, -2, str(2**62 + 1), 4]),
    ):
        c = Collection.from_arrays(rows(4), records=told, ids=ids)
        publish(c, tmp_path / "site", overwrite=True)
        data = tmp_path / "site" / "data"
        about = json.loads((data / "site.json").read_bytes())
        assert json.loads((data / about["ids"]).read_bytes()) == [str(i) for i in ids]  # text: JavaScript rounds none
        names = [str(ids[0]), "Named", str(ids[2]), str(ids[3])]
        assert (data / "names.txt").read_text().splitlines() == names
        held = json.loads((data / "records/0.json").read_bytes())
        last = {"id": "w"} if ids[3] == "w" else {"id": "w", "row id": 4}
        assert held == [{**told[0], "id": shown[0]}, {**told[1], "id": shown[1]}, {**told[2], "row id": shown[2]}, last]
    publish(Collection.from_arrays(rows(2), ids=[7, 8]), tmp_path / "only")
    assert json.loads((tmp_path / "only/data/site.json").read_bytes())["ids"] == "names.txt"
    words = Collection.from_arrays(rows(2), vocab=["a", "b"], ids=[7, 8])
    publish(words, tmp_path / "words")
    assert json.loads((tmp_path / "words/data/records/0.json").read_bytes())[1] == {"word": "b", "id": 8}
    page = publish_single_file(words, tmp_path / "one.html").page
    assert 'data-file="ids.json"' in page.read_text()


def test_whole_numbers_that_javascript_rounds_are_text(tmp_path: Path):
    told = [{"n": 2**53 - 1, "big": 2**53 + 1, "deep": {"x": [-(2**60)]}, "far": float("inf"), "no": float("nan")}]
    publish(Collection.from_arrays(rows(1), records=told), tmp_path / "site")
    (held,) = json.loads((tmp_path / "site/data/records/0.json").read_bytes())
    assert held == {"n": 2**53 - 1, "big": str(2**53 + 1), "deep": {"x": [str(-(2**60))]}, "far": "∞", "no": None}


def test_roles_are_found_where_the_first_record_lacks_them(tmp_path: Path):
    told = [{}, {"title": None}, {"title": "T", "url": "https://e.example"}]
    publish(Collection.from_arrays(rows(3), records=told), tmp_path / "site")
    about = json.loads((tmp_path / "site/data/site.json").read_bytes())
    assert about["roles"] == {"name": "title", "link": "url"}
    assert (tmp_path / "site/data/names.txt").read_text() == "\n\nT\n"


def column_of(folder: Path, name: str) -> tuple[dict, np.ndarray]:
    """A field as the page reads it."""
    about = next(f for f in json.loads((folder / "data/site.json").read_bytes())["fields"] if f["name"] == name)
    return about, np.frombuffer((folder / "data" / about["file"]).read_bytes(), "<f8" if about["wide"] else "<f4")


NUMBERS = {
    "outliers": [*np.arange(100.0), -1e6, 1e6],
    "years": [1900 + i % 100 for i in range(100)] + [3, 2400],
    "tenths": [i / 10 for i in range(-50, 52)],
    "gaps": [None if i % 3 else float("nan") if i % 2 else i * 1.5 for i in range(102)],
    "huge": [(-1) ** i * 1e300 * (i + 1) for i in range(102)],
    "tiny": [1e-300 * i for i in range(102)],
    "seconds": [1_700_000_000 + i for i in range(102)],
    "infinite": [float("inf"), float("-inf"), *range(100)],
    "numpy": [np.float32(i) / np.float32(7) for i in range(102)],
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS.keys())
def test_a_range_reaches_every_row_and_counts_as_a_plain_computation_does(tmp_path: Path, values: list):
    c = Collection.from_arrays(rows(102), records=[{"x": v} for v in values])
    about, column = column_of(publish(c, tmp_path / "site").page.parent, "x")
    known = [float(v) for v in values if v is not None and v == v]
    finite = [v for v in known if np.isfinite(v)]
    assert (about["low"], about["high"]) == (min(finite), max(finite)) and about["low"] <= about["ramp"][0]
    (field,) = survey(Entries(c, Roles(c)))
    for low in (about["low"], *finite[:3]):
        for high in (about["high"], *finite[-3:]):
            plain = sum(low <= v <= high for v in known)
            assert int(((column >= low) & (column <= high)).sum()) == plain  # what the page computes
            assert int(field.chosen([f"{low!r}..{high!r}"]).sum()) == plain  # what the server does
    assert int(field.chosen([f"{about['low']!r}..{about['high']!r}"]).sum()) == len(finite)


def test_years_ids_and_codes_have_no_thousands_separators():
    told = [
        {"year": 1900 + i, "user_id": 10**6 + i, "zipCode": 10000 + i, "born": 1000 + i, "price": 9_990 + i, "m": i / 7}
        for i in range(50)
    ]
    c = Collection.from_arrays(rows(50), records=told)
    told_plain = {f.name: f.about("")["plain"] for f in survey(Entries(c, Roles(c)))}
    assert told_plain == {"year": True, "user_id": True, "zipCode": True, "born": True, "price": False, "m": False}


def test_codes_that_keep_the_rules_are_published_as_they_are(tmp_path: Path):
    unit = rows(5, 512) / np.linalg.norm(rows(5, 512), axis=1, keepdims=True)
    pv.write(tmp_path / "a.i8bin", unit)
    with pv.open(tmp_path / "a.i8bin") as c:
        publish(c, tmp_path / "site")
    assert (tmp_path / "site/data/embeddings.i8bin").read_bytes() == (tmp_path / "a.i8bin").read_bytes()


def test_a_row_without_direction_is_refused_or_dropped(tmp_path: Path):
    x = rows(20)
    x[4], x[9] = 0, np.nan
    c = Collection.from_arrays(x, records=records(20))
    with pytest.raises(
        pv.InputError, match=r"row 4 has no direction: its L2 norm is 0; remove it, or .* --drop-invalid"
    ):
        publish(c, tmp_path / "site")
    assert not list(tmp_path.iterdir())
    done = publish(c, tmp_path / "site", drop_invalid=True)
    assert (done.rows, done.dropped) == (18, 2)
    assert "T4 x" not in (tmp_path / "site/data/names.txt").read_text().splitlines()
    with pytest.raises(pv.InputError, match="no row has a direction"):
        publish(Collection.from_arrays(np.zeros((3, 4), np.float32)), tmp_path / "b", drop_invalid=True)


@pytest.mark.parametrize("scale", [1e-300, 1e-60, 1.0, 1e200])
def test_rows_of_every_scale_have_a_direction(tmp_path: Path, scale: float):
    x = rows(20).astype(np.float64)
    publish(Collection.from_arrays(x), tmp_path / "one")
    x = x * scale
    x[3] = np.inf
    with pytest.raises(pv.InputError, match="row 3 has no direction"):
        publish(Collection.from_arrays(x), tmp_path / "two")
    assert publish(Collection.from_arrays(x), tmp_path / "two", drop_invalid=True).dropped == 1
    one, two = (
        np.fromfile(tmp_path / name / "data/embeddings.i8bin", np.int8).reshape(-1, 16) for name in ("one", "two")
    )
    assert np.abs(np.delete(one, 3, axis=0).astype(int) - two).max() <= 1


def test_a_constant_row_can_be_published(tmp_path: Path):
    assert publish(Collection.from_arrays(np.ones((3, 512), np.float32)), tmp_path / "site").rows == 3


def test_only_a_published_site_is_ever_replaced(tmp_path: Path):
    c = Collection.from_arrays(rows())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(pv.InputError, match="something other than a published site"):
            publish(c, tmp_path / "mine", overwrite=overwrite)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    publish(c, tmp_path / "site", title="old")
    with pytest.raises(pv.InputError, match="--force"):
        publish(c, tmp_path / "site", overwrite=False)
    publish(c, tmp_path / "site", title="new", overwrite=True)
    assert "<title>new</title>" in (tmp_path / "site" / "index.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "site"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(pv.InputError, match="must be a folder"):
        publish(c, tmp_path / "file")


def test_files_of_yours_outlive_a_site_and_errors_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    c = Collection.from_arrays(rows(300))
    publish(c, "site", title="old")
    for name in ("CNAME", "data/notes.txt", "page/mine.js", "records.json"):
        (tmp_path / "site" / name).write_text(name)
    publish(Collection.from_arrays(rows(3)), "site", title="new", overwrite=True)
    for name in ("CNAME", "data/notes.txt", "page/mine.js", "records.json"):
        assert (tmp_path / "site" / name).read_text() == name
    assert [p.name for p in (tmp_path / "site/data/records").iterdir()] == ["0.json"]  # 1.json was ours

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polyvec.web.publish.project", fail)
    for target in ("site", "other"):
        with pytest.raises(OSError) as found:
            publish(c, target, overwrite=True)
        assert found.value.filename == target
    assert [p.name for p in tmp_path.iterdir()] == ["site"]
    assert "<title>new</title>" in (tmp_path / "site/index.html").read_text()


def test_what_a_page_cannot_hold_is_refused(tmp_path: Path):
    with pytest.raises(pv.InputError, match="rows of numbers"):
        publish(Collection.from_arrays(np.arange(5)), tmp_path / "site")
    with pytest.raises(pv.InputError, match="single file"):
        publish_single_file(Collection.from_arrays(np.zeros((70, 1 << 20), np.uint8)), tmp_path / "x.html")
    with pytest.raises(pv.InputError, match="no field 'nope'"):
        publish(Collection.from_arrays(rows(), records=records()), tmp_path / "site", roles={"name": "nope"})
    with pytest.raises(pv.InputError, match="unknown projection"):
        publish(Collection.from_arrays(rows()), tmp_path / "site", projection="umap")


def test_fields_are_categories_numbers_or_left_out():
    values = [
        {
            "few": "abc"[i % 3],
            "n": i / 7,
            "year": 2000 + i % 5,
            "unique": f"u{i}",
            "same": 1,
            "flag": i % 2 == 0,
            "mixed": i if i % 2 else "x",
            "gap": None if i % 4 else "g" * (i % 8 + 1),
            "nan": float("nan"),
        }
        for i in range(100)
    ]
    c = Collection.from_arrays(rows(100), records=values)
    found = {f.name: f for f in survey(Entries(c, Roles(c)))}
    assert set(found) == {"few", "n", "year", "flag", "gap", "mixed"} or set(found) == {
        "few",
        "n",
        "year",
        "flag",
        "gap",
    }
    assert found["n"].kind == "number" and found["year"].kind == "category"
    assert found["few"].values == ("a", "b", "c") and found["few"].counts == (34, 33, 33)
    assert found["flag"].values == ("true", "false")
    assert found["gap"].column[1] == MISSING and (found["few"].column[:4] == [0, 1, 2, 0]).all()
    assert found["n"].chosen(["2..3"]).sum() == 8 and found["n"].chosen(["..1"]).sum() == 8
    assert found["few"].chosen(["b", "zzz"]).sum() == 33
    with pytest.raises(pv.InputError, match=r"low\.\.high"):
        found["n"].chosen(["a..b"])


def test_pca_finds_the_plane_and_is_deterministic():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 500)
    x = np.zeros((500, 40), np.float32)
    x[:, 3], x[:, 17], x[:, 30] = np.cos(angle), 0.6 * np.sin(angle), 0.01 * rng.standard_normal(500)
    c = Collection.from_arrays(x)
    plane = project(c.vectors)
    assert "100%" in plane.note or "99%" in plane.note
    assert (plane.points == project(c.vectors).points).all()
    flat = plane.points.astype(float) - plane.points.astype(float).mean(axis=0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for i, j in ((0, 1), (5, 77), (13, 400)):
        assert abs(np.linalg.norm(flat[i] - flat[j]) / np.linalg.norm(unit[i] - unit[j]) - 65535 / 2.12) < 1500
    assert to_points(np.zeros((3, 2), np.float32)).tolist() == [[32767, 32767]] * 3
    assert project(Collection.from_arrays(rows(1, 1)).vectors).points.shape == (1, 2)


def test_tsne_needs_its_extra(tmp_path: Path):
    c = Collection.from_arrays(np.concatenate([rows(40, 8) * 0.05 + 1, rows(40, 8, seed=1) * 0.05 - 1]))
    try:
        import openTSNE  # noqa: F401
    except ImportError:
        with pytest.raises(pv.MissingExtra, match=r"polyvec\[map\]"):
            project(c.vectors, method="tsne")
    else:
        points = project(c.vectors, method="tsne").points.astype(float)
        inside = np.linalg.norm(points[:40] - points[:40].mean(axis=0), axis=1).mean()
        assert np.linalg.norm(points[:40].mean(axis=0) - points[40:].mean(axis=0)) > inside


def test_modules_can_be_bundled_because_no_two_share_a_top_level_name():
    for entry in ("page/main.js", "client/worker.js"):
        script = bundle(entry)
        names = re.findall(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", script, re.MULTILINE)
        assert len(names) == len(set(names)) > 5
        assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    assert module_order("page/main.js")[-1] == "page/main.js"
    assert "import.meta" not in bundle("client/worker.js")


def test_titles_and_data_cannot_break_out_of_the_page():
    evil = '"><script>alert(1)</script>{{script}}'
    for page in (site_html(evil), single_html(evil, {"site.json": b'{"a": "</script><script>alert(2)</script>"}'})):
        assert "<script>alert" not in page
        assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;{{script}}") == 2
        assert "unsafe-inline" not in page and "'unsafe-eval'" not in page


def test_the_command_publishes_and_says_so(tmp_path: Path, capsys):
    pv.write(tmp_path / "v.fbin", rows())
    (tmp_path / "r.csv").write_text("label,kind\n" + "".join(f"L{i},{'ab'[i % 2]}\n" for i in range(30)))
    site, single = str(tmp_path / "site"), str(tmp_path / "one.html")
    assert run(["publish", str(tmp_path / "v.fbin"), "-o", site, "--records", str(tmp_path / "r.csv")]) == 0
    assert "published" in capsys.readouterr().out
    assert json.loads((tmp_path / "site/data/site.json").read_bytes())["title"] == "v"
    assert run(["publish", str(tmp_path / "v.fbin"), "-o", single, "--single-file", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30
    assert run(["publish", str(tmp_path / "v.fbin"), "-o", site]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["publish", str(tmp_path / "v.fbin"), "-o", site, "-f", "--records", str(tmp_path / "none.csv")]) == 1
    assert run(["publish", str(tmp_path / "v.fbin"), "-o", single, "--single-file"]) == 2


def test_a_filter_by_a_number_finds_that_number_and_null_a_missing_one():
    number = Field("n", "number", np.array([1, 2, 3, np.nan, 2], np.float32))
    assert np.flatnonzero(number.chosen(["2"])).tolist() == [1, 4]
    assert np.flatnonzero(number.chosen(["2.0", ""])).tolist() == [1, 3, 4]
    assert np.flatnonzero(number.chosen(["..1", "3.."])).tolist() == [0, 2]
    kind = Field("kind", "category", np.array([0, MISSING, 1], np.uint16), ("a", "b"), (1, 1))
    assert np.flatnonzero(kind.chosen(["null"])).tolist() == np.flatnonzero(kind.chosen([""])).tolist() == [1]
    assert np.flatnonzero(kind.chosen(["b", ""])).tolist() == [1, 2]
