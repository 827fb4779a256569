"""Probes: no row is ever excluded that its score would keep, and whole numbers are encoded without error."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.neighbors import reference
from polyvec.neighbors.metric import NAMES, Metric
from polyvec.neighbors.probe import make_probe
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.shadow import MOST, Frame, cast_shadow, choose_frame

from .datasets import CASES


def probe_of(queries, metric, frame, *, narrow):
    queries = np.asarray(queries, np.float64)
    return make_probe(queries, np.linalg.norm(queries, axis=1), metric, frame, narrow=narrow)


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("name", CASES)
def test_the_bound_of_every_row_reaches_the_threshold_of_its_own_score(name, metric, narrow):
    rows, queries = CASES[name](np.random.default_rng(11), 80, 24, 6)
    rows, queries = scorable(rows), np.asarray(queries, np.float64)
    if metric is Metric.COSINE:
        queries = queries[queries.any(axis=1)]
    floats = rows if rows.dtype.kind == "f" else rows.astype(np.float32)
    keys, _ = reference.score_all(floats, queries, metric)
    for frame in (Frame(None, 1.0), choose_frame(floats)):
        shadow = cast_shadow(floats, frame, narrow=narrow)
        row, probe = shadow.terms(metric), probe_of(queries, metric, frame, narrow=narrow)
        scale, error, length, exact = (term.astype(np.float64) for term in row.arrays())
        reach, missing, share = (term.astype(np.float64)[:, None] for term in probe.terms.arrays())
        with np.errstate(all="ignore"):
            product = probe.codes.astype(np.float64) @ shadow.codes.astype(np.float64).T
            bound = product * scale + reach * error + missing * length + share * exact
            threshold = probe.alpha[:, None] * keys + (probe.beta - probe.slack)[:, None]
        below = (bound < threshold) & np.isfinite(keys)
        assert not below.any(), f"query and row {np.argwhere(below)[0]}"


def test_whole_numbers_of_a_byte_are_their_own_codes():
    queries = np.array([[0, 1, -127, 127], [3, 0, 0, 0]])
    probe = probe_of(queries, Metric.IP, Frame(None, 1.0), narrow=True)
    np.testing.assert_array_equal(probe.codes, queries)
    assert probe.codes.dtype == np.int8 and probe.alpha.tolist() == [1, 1]
    assert (probe.terms.error < 1e-4 * probe.terms.length).all()
    beyond = probe_of([[0.5, 128, 0, 1]], Metric.IP, Frame(None, 1.0), narrow=True)
    assert beyond.codes.tolist() == [[0, 127, 0, 1]] and beyond.terms.error[0] > 0.1


def test_distances_do_not_change_when_both_sides_move():
    rng = np.random.default_rng(0)
    center = rng.standard_normal(8).astype(np.float32)
    queries = rng.standard_normal((3, 8))
    moved = probe_of(queries + center, Metric.L2, Frame(center, 1.0), narrow=False)
    plain = probe_of(queries, Metric.L2, Frame(None, 1.0), narrow=False)
    np.testing.assert_allclose(moved.codes, plain.codes, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved.beta, plain.beta, rtol=1e-6)


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("value", [MOST * 4, 1e-300])
def test_a_query_that_cannot_be_bounded_keeps_every_row(value, metric, narrow):
    probe = probe_of([[value, 0], [1, 2]], NAMES[metric], Frame(None, 1.0), narrow=narrow)
    assert not probe.codes[0].any() and probe.terms.length.tolist()[0] == np.inf
    assert (probe.alpha[0], probe.beta[0]) == (0, -np.inf)
    assert np.isfinite(probe.beta[1]) and probe.alpha[1] > 0 and probe.codes[1].any()


@pytest.mark.parametrize("metric", NAMES)
def test_a_row_that_lies_along_what_the_codes_leave_out_is_kept(metric):
    rng = np.random.default_rng(2)
    queries = rng.standard_normal((5, 64))
    frame = Frame(None, 1.0)
    probe = probe_of(queries, NAMES[metric], frame, narrow=True)
    step = np.abs(queries).max(axis=1, keepdims=True) / 127
    rows = np.sign(queries - probe.codes * step).astype(np.float32)
    shadow = cast_shadow(rows, frame, narrow=True)
    scale, error, length, exact = (term.astype(np.float64) for term in shadow.terms(NAMES[metric]).arrays())
    product = (probe.codes.astype(np.float64) * shadow.codes).sum(axis=1)
    reach, missing, share = (term.astype(np.float64) for term in probe.terms.arrays())
    bound = product * scale + reach * error + missing * length + share * exact
    keys = np.diag(reference.score_all(rows, queries, NAMES[metric])[0])
    assert (bound >= probe.alpha * keys + probe.beta - probe.slack).all()
