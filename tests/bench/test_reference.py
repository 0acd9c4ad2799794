"""The float64 reference, against the definition written out."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from croq.bench import reference
from croq.bench.reference import attention_reference, attention_rows, widen


def _plain(q, k, v, causal, scale):
    scores = (q @ k.T) * scale
    if causal:
        scores = np.where(np.arange(len(k)) > np.arange(len(q))[:, None], -np.inf, scores)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("keys", [96, 33])
def test_rows_agree_with_the_definition(causal, keys, monkeypatch):
    monkeypatch.setattr(reference, "_MAX_SCORES", 2 * keys)  # several blocks of rows
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(96, 8)), rng.normal(size=(keys, 8)), rng.normal(size=(keys, 8))
    rows = [95, 0, 1, 63, 64, 40]
    expected = _plain(q, k, v, causal, 8**-0.5)[rows]
    np.testing.assert_allclose(attention_rows(q, k, v, rows, causal=causal), expected, rtol=1e-12)


def test_a_given_scale_is_used_and_large_scores_stay_finite():
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(16, 4)) * 100 for _ in range(3))
    got = attention_rows(q, k, v, range(16), causal=True, scale=3.0)
    np.testing.assert_allclose(got, _plain(q, k, v, True, 3.0), rtol=1e-12)
    np.testing.assert_allclose(got[0], v[0])


def test_only_the_chosen_slabs_are_computed():
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(2, 32, 3, 4)).astype(bfloat16) for _ in range(3))
    k[0, :, 0] = np.nan  # a slab that nobody asks for
    where = {(1, 2): [0, 31], (0, 1): [5]}
    parts = list(attention_reference(q, k, v, where, causal=True))
    assert [(part.slab, part.rows) for part in parts] == [((1, 2), (0, 31)), ((0, 1), (5,))]
    wide_q, wide_k, wide_v = (widen(a[1, :, 2]) for a in (q, k, v))
    np.testing.assert_allclose(parts[0].values, _plain(wide_q, wide_k, wide_v, True, 0.5)[[0, 31]], rtol=1e-12)


def test_no_rows_give_no_values():
    empty = attention_rows(np.ones((4, 2)), np.ones((4, 2)), np.ones((4, 2)), [], causal=True)
    assert empty.shape == (0, 2)


def test_bf16_widens_exactly():
    values = np.arange(1 << 16, dtype=np.uint16).view(bfloat16)
    with np.errstate(invalid="ignore"):
        expected = values.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(widen(values), expected)
