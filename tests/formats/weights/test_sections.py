"""The sections of a file: each wrong field is told by its name, and both checksums by theirs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import polyvec as pv
from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.formats.weights.sections import check_checksums, read_contents, read_header
from polyvec.testing import MemorySource

sys.path.insert(0, str(Path(__file__).parent))
from embd import model_bytes, opened, patched, seal

FIELDS = [
    ("magic", 0, "4s", b"EMBE", Corrupt),
    ("version_major", 4, "H", 2, Unsupported),
    ("COMPRESSED", 8, "I", 0b1111, Unsupported),
    ("reserved", 60, "I", 1, Corrupt),
    ("metadata_offset", 12, "I", 2**32 - 1, Corrupt),
    ("metadata_size", 16, "I", 9, FormatError),
    ("vocab_offset", 20, "I", 70, Corrupt),
    ("vocab_size", 24, "I", 13, FormatError),
    ("tensor_index_count", 32, "I", 2**32 - 1, Corrupt),
    ("tensor_data_offset", 36, "I", 0, Corrupt),
    ("tensor_data_size", 40, "Q", 2**64 - 1, Corrupt),
    ("total_file_size", 48, "Q", 10**9, Truncated),
    ("total_file_size", 48, "Q", 80, Corrupt),
]


@pytest.mark.parametrize(("field", "offset", "code", "value", "kind"), FIELDS, ids=[f"{f[0]}={f[3]}" for f in FIELDS])
def test_a_wrong_header_field_is_named(
    tmp_path: Path, field: str, offset: int, code: str, value: Any, kind: type[FormatError]
) -> None:
    with pytest.raises(kind) as told:
        opened(patched(model_bytes(tmp_path), offset, code, value))
    assert field.split("_")[0].lower() in str(told.value).lower()


def test_wrong_checksums_are_told_apart(tmp_path: Path) -> None:
    data = bytearray(model_bytes(tmp_path))
    start = int.from_bytes(data[36:40], "little")
    data[start] ^= 1
    (tmp_path / "flipped.weights").write_bytes(data)
    fields = {
        finding.field for finding in pv.verify(tmp_path / "flipped.weights").findings if finding.severity == "error"
    }
    assert fields == {"data_checksum", "file_checksum"}
    data[start] ^= 1
    data[70] ^= 1
    (tmp_path / "flipped.weights").write_bytes(data)
    assert not pv.verify(tmp_path / "flipped.weights").ok
    data[70] ^= 1
    with pytest.raises(Corrupt, match="header fails its checksum"):
        opened(patched(bytes(data), 56, "I", 1, sealed=False))
    with pytest.raises(Corrupt, match="end magic"):
        opened(bytes(data[:-8]) + b"DBMF" + bytes(4))


def test_checksums_switched_off_are_not_checked(tmp_path: Path) -> None:
    data = bytearray(model_bytes(tmp_path))
    data[8] = 0b011
    data[56:60] = data[-16:-12] = data[-12:-8] = bytes(4)
    with opened(bytes(data)) as c:
        assert c.rows == 4
    (tmp_path / "off.weights").write_bytes(data)
    assert pv.verify(tmp_path / "off.weights").ok


def test_a_newer_minor_version_and_unknown_flags_are_read_and_said(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    with opened(patched(patched(data, 6, "H", 3), 8, "I", 0b10111)) as c:
        assert any("1.3" in note for note in c.notes) and any("0x10" in note for note in c.notes)


def test_a_missing_required_key_is_named(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    with pytest.raises(Corrupt, match="'hidden_size' is missing"):
        opened(seal(data.replace(b"hidden_size", b"hidden_sise", 1)))
    with pytest.raises(Corrupt, match="twice"):
        opened(
            seal(
                data.replace(b"model_version", b"model_name\x00\x00\x00", 1).replace(
                    b"\x0d\x00\x01\x00model_name\x00\x00\x00", b"\x0a\x00\x04\x00model_name\x00\x00\x00", 1
                )
            )
        )


@pytest.mark.parametrize(
    ("offset", "code", "value", "field"),
    [
        (4, "H", 2, "version_major"),
        (8, "I", 0b1111, "flags"),
        (60, "I", 1, "reserved"),
        (48, "Q", 80, "total_file_size"),
    ],
)
def test_a_wrong_header_field_is_told_with_its_byte(
    tmp_path: Path, offset: int, code: str, value: int, field: str
) -> None:
    with pytest.raises(FormatError) as caught:
        opened(patched(model_bytes(tmp_path), offset, code, value))
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_a_file_cut_off_is_told_with_where_it_ends(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    with pytest.raises(Truncated, match=f"expected {len(data)} bytes, found {len(data) - 7} bytes") as caught:
        read_header(MemorySource(data[:-7], "m.weights"))
    assert (caught.value.field, caught.value.offset) == ("total_file_size", len(data) - 7)


def test_a_vocabulary_that_the_flags_deny_is_refused(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    with pytest.raises(Corrupt, match="must be empty when VOCAB_EMBEDDED is off") as caught:
        opened(patched(data, 8, "I", 0b110))
    assert (caught.value.field, caught.value.offset) == ("vocab_size", 24)


def test_a_reserved_field_of_a_newer_version_is_its_own_affair(tmp_path: Path) -> None:
    data = patched(patched(model_bytes(tmp_path), 6, "H", 1), 60, "I", 7)
    with opened(patched(data, len(data) - 4, "I", 9)) as c:
        assert c.rows == 4
    with pytest.raises(Corrupt, match="reserved") as caught:
        opened(patched(patched(patched(data, 6, "H", 0), 60, "I", 0), len(data) - 4, "I", 9))
    assert caught.value.offset == len(data) - 4


def test_metadata_entries_fill_their_section_to_the_byte(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    start, size = (int.from_bytes(data[at : at + 4], "little") for at in (12, 16))
    entries = int.from_bytes(data[start : start + 4], "little")
    with pytest.raises(Corrupt, match="sizes disagree") as caught:
        opened(patched(data, start + 4, "I", size))
    assert (caught.value.field, caught.value.offset) == ("metadata.total_size", start + 4)
    with pytest.raises(Corrupt, match="after the last metadata entry"):
        opened(patched(data, start, "I", entries - 1))
    with pytest.raises(FormatError, match=r"metadata\.entry_count"):
        opened(patched(data, start, "I", 2**32 - 1))


def test_each_checksum_is_found_in_the_footer(tmp_path: Path) -> None:
    data = model_bytes(tmp_path)
    for at, field in ((16, "data_checksum"), (12, "file_checksum")):
        source = MemorySource(patched(data, len(data) - at, "I", 1, sealed=False), "m.weights")
        [error] = check_checksums(source, read_contents(source))
        assert (error.field, error.offset) == (field, len(data) - at)
    source = MemorySource(data, "m.weights")
    assert not list(check_checksums(source, read_contents(source)))
