"""Collections as Arrow tables and columns as DLPack tensors: what other libraries take without files between.

A table has one row a row of the main column. Vectors are fixed-size lists; ids, words and record fields are columns of
their own. What the names mean is in the schema's metadata under ``polyvec``, so that a reader restores the
collection exactly. pyarrow is loaded on first use.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from polyvec.core.errors import InputError, LossyConversion, MissingExtra
from polyvec.core.plain import json_default
from polyvec.core.vocab import Strings

if TYPE_CHECKING:
    from polyvec.core.blocks import Array
    from polyvec.core.collection import Collection
    from polyvec.core.columns import Column

KEY = b"polyvec"  # of the schema's metadata
KINDS_AT_ONCE = 1024  # records looked at together
BATCH_BYTES = 8 << 20  # of vectors in a batch
CPU = (1, 0)  # DLPack's device
BFLOAT = 4  # DLPack's type code


def arrow(purpose: str = "Arrow tables") -> Any:
    """pyarrow, or `MissingExtra`."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtra("pyarrow", extra="arrow", purpose=purpose) from None
    return pyarrow


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a collection becomes a table: names of the table -> what they are of the collection."""

    columns: dict[str, str] = field(default_factory=dict)
    main: str = ""
    ids: str | None = None
    vocab: str | None = None
    records: dict[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = ()  # fields of records that are JSON, because their values differ in kind
    kinds: dict[str, str] = field(default_factory=dict)  # field -> Arrow type
    lists: bool = False  # vectors as lists without a fixed size
    halves: bool = False  # the main column as float16

    def note(self, collection: Collection) -> bytes:
        """The plan as the schema's metadata keeps it."""
        said = {
            "columns": self.columns,
            "main": self.main,
            "ids": self.ids,
            "vocab": self.vocab,
            "records": self.records,
            "texts": list(self.texts),
            "has_records": collection.records is not None,
            "metadata": collection.metadata,
        }
        try:
            return json.dumps(said, ensure_ascii=False, default=json_default).encode("utf-8")
        except (TypeError, ValueError) as error:
            raise InputError(f"the metadata cannot be written: {error}") from None


def plan_table(collection: Collection, *, strict: bool = True, lists: bool = False, halves: bool = False) -> TablePlan:
    """How to lay out a collection as a table. Columns of another length do not fit: `LossyConversion`, or left out."""
    others = [name for name, column in collection.columns.items() if column.rows != collection.rows]
    if others and strict:
        raise LossyConversion(
            f"a table has one number of rows, and {', '.join(others)} differ from {collection.main} "
            f"({collection.rows} rows); "
            f"choose one with --column (column=), for example --column {collection.main}"
        )
    columns = {name: name for name, column in collection.columns.items() if name not in others}
    taken = set(columns)

    def free(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    ids = free("id") if collection.ids is not None else None
    vocab = free("word") if collection.vocab is not None else None
    kinds, texts = _record_kinds(collection)
    records = {free(key): key for key in kinds}
    by_key = {key: name for name, key in records.items()}
    return TablePlan(
        columns,
        collection.main,
        ids,
        vocab,
        records,
        tuple(by_key[key] for key in texts),
        {by_key[key]: kind for key, kind in kinds.items()},
        lists,
        halves,
    )


def _record_kinds(collection: Collection) -> tuple[dict[str, str], list[str]]:
    """The Arrow type of every record field, after a pass over the records; and which fields must be kept as JSON."""
    found: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    records = iter(collection.records if collection.records is not None else ())
    while batch := list(islice(records, KINDS_AT_ONCE)):
        for keys in set(map(tuple, batch)):  # nearly always one: records of one kind
            alike = [tuple(record.values()) for record in batch if tuple(record) == keys]
            for key, values in zip(keys, zip(*alike)):
                found.setdefault(key, set()).update(_kinds(values))
                counts[key] = counts.get(key, 0) + len(values)
    kinds: dict[str, str] = {}
    texts = []
    for key, seen in found.items():
        plain = seen - {"null"}
        # A missing field and a field that is None are two things, and a null can mean but one of them.
        if len(plain) == 1 and plain <= {"bool", "int64", "double", "string"} and counts[key] == collection.rows:
            kinds[key] = plain.pop()
        else:
            kinds[key] = "string"
            texts.append(key)
    return kinds, texts


def _kinds(values: tuple[Any, ...]) -> set[str]:
    """The kinds of one field's values: one look a type, and for whole numbers the ends."""
    kinds: set[str] = set()
    for kind in set(map(type, values)):
        alike: list[Any] = [value for value in values if type(value) is kind]
        whole = issubclass(kind, int)
        kinds.update(_kind(value) for value in ((min(alike), max(alike)) if whole else alike[:1]))
    return kinds


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -(2**63) <= value < 2**63 else "json"
    if isinstance(value, float):
        return "double"
    return "string" if isinstance(value, str) else "json"


def schema_of(collection: Collection, plan: TablePlan) -> Any:
    """The Arrow schema of a plan."""
    pa = arrow()
    fields = []
    if plan.ids is not None:
        kind = pa.string() if isinstance(collection.ids, Strings) else pa.int64()
        fields.append(pa.field(plan.ids, kind, nullable=False))
    if plan.vocab is not None:
        fields.append(pa.field(plan.vocab, pa.string(), nullable=False))
    for name, column in plan.columns.items():
        source = collection[column]
        kind = pa.from_numpy_dtype(table_dtype(source, plan.halves and name == plan.main))
        for size in reversed(source.row_shape):
            inner = pa.field("element", kind, nullable=False)
            kind = pa.list_(inner) if plan.lists else pa.list_(inner, size)
        fields.append(pa.field(name, kind, nullable=False))
    fields.extend(pa.field(name, pa.type_for_alias(kind)) for name, kind in plan.kinds.items())
    return pa.schema(fields, metadata={KEY: plan.note(collection)})


def batch_rows(collection: Collection, plan: TablePlan) -> int:
    """Rows of a batch, so that its vectors are about 8 MB."""
    width = sum(collection[c].dtype.itemsize * prod(collection[c].row_shape) for c in plan.columns.values())
    return max(1, min(1 << 16, BATCH_BYTES // max(1, width)))


def record_batches(
    collection: Collection, plan: TablePlan, schema: Any, *, first: int = 0, last: int | None = None
) -> Iterator[Any]:
    """Rows ``first`` to ``last`` as Arrow record batches of equal size, read as they are asked for."""
    pa = arrow()
    rows = batch_rows(collection, plan)
    last = collection.rows if last is None else min(last, collection.rows)
    for start in range(first, last, rows):
        stop = min(start + rows, last)
        arrays = []
        if plan.ids is not None:
            ids = collection.ids
            arrays.append(_strings(ids, start, stop) if isinstance(ids, Strings) else pa.array(ids[start:stop]))  # type: ignore[index]
        if plan.vocab is not None:
            assert collection.vocab is not None
            arrays.append(_strings(collection.vocab.words, start, stop))
        for name, column in plan.columns.items():
            values = collection[column][start:stop]
            arrays.append(
                _lists(
                    values, schema.field(name).type, table_dtype(collection[column], plan.halves and name == plan.main)
                )
            )
        if plan.records:
            arrays.extend(_fields(collection, plan, schema, start, stop))
        yield pa.record_batch(arrays, schema=schema)


def table_dtype(column: Column, half: bool = False) -> np.dtype[Any]:
    """The dtype a column has in a table, in this machine's byte order.

    Of what Arrow does not have, small floats (bfloat16) are held by float32 exactly; wider ones are rounded to float64.
    """
    if half and column.dtype.kind == "f":
        return np.dtype(np.float16)
    if column.dtype.kind not in "fiub":
        return np.dtype(np.float32)
    return column.dtype.newbyteorder("=") if column.dtype.itemsize <= 8 else np.dtype(np.float64)


def _lists(values: Array, kind: Any, dtype: np.dtype[Any]) -> Any:
    pa = arrow()
    if values.dtype != dtype:
        from polyvec.core.blocks import cast

        values = cast(values, dtype)
    shape = values.shape
    result = pa.array(np.ascontiguousarray(values).reshape(-1))
    kinds = []
    while pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        kinds.append(kind)
        kind = kind.value_type
    for depth in range(len(kinds), 0, -1):
        size = shape[depth]
        if pa.types.is_fixed_size_list(kinds[depth - 1]):
            result = pa.FixedSizeListArray.from_arrays(result, type=kinds[depth - 1])
        else:
            offsets = np.arange(prod(shape[:depth]) + 1, dtype=np.int32) * np.int32(size)
            result = pa.ListArray.from_arrays(pa.array(offsets), result, type=kinds[depth - 1])
    return result


def _strings(strings: Strings, start: int, stop: int) -> Any:
    return arrow().array(strings[start:stop], "string")


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=json_default)


def _fields(collection: Collection, plan: TablePlan, schema: Any, start: int, stop: int) -> list[Any]:
    pa = arrow()
    assert collection.records is not None
    records = list(collection.records.iterate(start, stop))
    arrays = []
    for name, key in plan.records.items():
        if name in plan.texts:
            try:
                values: list[Any] = [_ENCODER.encode(r[key]) if key in r else None for r in records]
            except (TypeError, ValueError) as error:
                raise InputError(f"the record field {key!r} cannot be written: {error}") from None
        else:
            values = [r[key] for r in records]
        arrays.append(pa.array(values, schema.field(name).type))
    return arrays


def export_stream(collection: Collection, requested_schema: Any = None) -> Any:
    """A collection as an Arrow C stream capsule. Columns of another length than the main one are left out."""
    pa = arrow()
    plan = plan_table(collection, strict=False)
    schema = schema_of(collection, plan)
    reader = pa.RecordBatchReader.from_batches(schema, record_batches(collection, plan, schema))
    return reader.__arrow_c_stream__(requested_schema)


def export_tensor(
    column: Column,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A column as a DLPack capsule: rows of its own in memory, which their taker may change.

    ``copy=False`` asks for the file's own bytes. Those may never be written to, which only a versioned capsule can
    say, so a taker that knows none (``max_version`` below 1.0) is refused.
    """
    if stream is not None:
        raise BufferError("a column is in the computer's memory, which has no streams")
    if dl_device is not None and tuple(dl_device) != CPU:
        raise BufferError(f"a column is in the computer's memory (device {CPU}), not on device {tuple(dl_device)}")
    versioned = max_version is not None and max_version[0] >= 1
    if copy is False:
        # torch takes read-only memory and writes to it all the same: into pages of its own, then.
        view = getattr(column, "view", lambda **_: None)(private=True)
        if view is None:
            raise BufferError(
                f"the column {column.name!r} is not stored as it is ({column.encoding}); ask without copy=False"
            )
        if not versioned:
            raise BufferError("a file's own bytes are read-only, and only DLPack 1.0 (max_version=(1, 0)) can say so")
        array = view
    else:
        array = column.to_numpy()
    odd = array.dtype == ml_dtypes.bfloat16
    if array.dtype.kind == "V" and not odd:
        raise BufferError(f"DLPack has no {array.dtype}")
    plain = array.view(np.uint16) if odd else array
    try:
        capsule = plain.__dlpack__(max_version=max_version) if versioned else plain.__dlpack__()
    except TypeError:  # NumPy before 2.1 knows no versions
        if copy is False:
            raise BufferError("this NumPy cannot export read-only memory; ask without copy=False") from None
        capsule, versioned = plain.__dlpack__(), False
    if odd:
        _retype(capsule, versioned)
    return capsule


def _retype(capsule: Any, versioned: bool) -> None:
    """Say bfloat16 in a capsule of 16-bit integers: NumPy, which made it, has no such type."""
    name = b"dltensor_versioned" if versioned else b"dltensor"
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, name)
    # Before the tensor a versioned capsule has: version (8), manager_ctx (8), deleter (8), flags (8).
    # In the tensor, before its type: data (8), device (8), ndim (4).
    tensor = address + (32 if versioned else 0)
    ctypes.c_uint8.from_address(tensor + 20).value = BFLOAT


def list_type(kind: Any) -> tuple[tuple[int | None, ...], np.dtype[Any]] | None:
    """Sizes (None where they are told by the data alone) and dtype of a list type of numbers; None for other types."""
    pa = arrow()
    sizes: list[int | None] = []
    while True:
        if pa.types.is_fixed_size_list(kind):
            sizes.append(kind.list_size)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            sizes.append(None)
        else:
            break
        kind = kind.value_type
    dtype = number_type(kind)
    # Of a list of lists only the outer one may have to be counted.
    return None if not sizes or dtype is None or None in sizes[1:] else (tuple(sizes), dtype)


def number_type(kind: Any) -> np.dtype[Any] | None:
    """The NumPy dtype of an Arrow type of plain numbers; None for other types."""
    pa = arrow()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype


def text_type(kind: Any) -> bool:
    """Whether an Arrow type is text, however it is laid out."""
    types = arrow().types
    view = getattr(types, "is_string_view", lambda _: False)  # not in older pyarrow
    return bool(types.is_string(kind) or types.is_large_string(kind) or view(kind))
