"""The CUDA program as the host sees it: its sizes are the plan's, its kernels are named, pointers are handed on."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from polyvec.gpu import cuda_kernels, plan


def test_the_program_has_the_tiles_of_the_plan_and_a_kernel_for_each_output():
    source = cuda_kernels.source()
    assert source.startswith(f"#define TILE {plan.TILE}\n#define THREADS {cuda_kernels.THREADS}\n")
    found = re.findall(r'extern "C" __global__ void (\w+)\(', source)
    assert found == list(cuda_kernels.NAMES.values())
    assert list(cuda_kernels.NAMES) == ["float32", "float16", "bfloat16"]


def test_a_whole_tile_is_just_what_its_threads_read():
    counts = re.findall(r"const int N = (\d+);  // TILE / \(THREADS \* (\d+)\)", cuda_kernels.SOURCE)
    assert len(counts) == 2
    for steps, values in counts:
        assert int(steps) * int(values) * cuda_kernels.THREADS == plan.TILE


def test_each_kind_is_decoded_with_its_width():
    cases = re.findall(r"(?:case (\d)|default): return tile<OUT, (\d), (\d)>", cuda_kernels.SOURCE)
    assert [(int(kind), int(width)) for _, kind, width in cases] == [
        (plan.COPY32, 4),
        (plan.HALF, 2),
        (plan.BRAIN, 2),
        (plan.AFFINE, 1),
        (plan.SYMMETRIC, 1),
        (plan.SCALED, 1),
    ]
    assert all(label in ("", kind) for label, kind, _ in cases)
    fields = {"SOURCE": 0, "TARGET": 1, "COUNT": 2, "KIND": 3, "A": 4, "B": 5, "WIDTH": 6, "EXTRA": 7}
    assert {name: getattr(plan, name) for name in fields} == fields  # the program counts them out


@pytest.fixture
def fake(monkeypatch):
    """A cupy that notes what is compiled and launched."""
    events = []

    def module(code, options):
        events.append(("compile", len(code), options))
        return SimpleNamespace(get_function=lambda name: lambda *launch: events.append((name, *launch)))

    @contextmanager
    def entered(stream):
        events.append(("stream", *stream.__cuda_stream__()))
        yield

    cupy = SimpleNamespace(RawModule=module, cuda=SimpleNamespace(Stream=SimpleNamespace(from_external=entered)))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    cuda_kernels.compiled.cache_clear()
    yield SimpleNamespace(events=events)
    cuda_kernels.compiled.cache_clear()


def test_a_kernel_is_compiled_once_and_launched_on_the_stream_given(fake, monkeypatch):
    monkeypatch.setattr(cuda_kernels, "external", cuda_kernels.external.__wrapped__)
    for stream in (11, 12):
        cuda_kernels.compiled("decode_f16")(5, 100, 200, 300, stream)
    assert [event[0] for event in fake.events] == ["compile", "stream", "decode_f16", "stream", "decode_f16"]
    assert fake.events[1] == ("stream", 0, 11) and fake.events[3] == ("stream", 0, 12)
    grid, block, pointers = fake.events[2][1:]
    assert (grid, block) == ((5,), (cuda_kernels.THREADS,)) and pointers == (100, 200, 300)
    assert all(isinstance(pointer, np.uintp) for pointer in pointers)


def test_an_older_cupy_takes_the_pointer_itself():
    made = cuda_kernels.external.__wrapped__(
        SimpleNamespace(cuda=SimpleNamespace(Stream=object(), ExternalStream=lambda pointer: ("old", pointer))), 7
    )
    assert made == ("old", 7)
