"""Deterministic inputs, made slab by slab."""

from __future__ import annotations

import numpy as np
import pytest

from croq.bench.inputs import make_inputs, make_slab, poisoned, written_rows
from croq.bench.workload import AttentionWorkload
from croq.diagnostics import LaunchError

SMALL = AttentionWorkload(batch=2, heads=3, seq=192, dim=16)


def test_a_slab_does_not_depend_on_what_else_is_made():
    full = make_inputs(SMALL)
    part = make_inputs(SMALL, [(1, 2), (0, 1)])
    assert part.slabs == ((0, 1), (1, 2))
    for name in "qkv":
        for b, h in part.slabs:
            np.testing.assert_array_equal(getattr(full, name)[b, :, h], getattr(part, name)[b, :, h])
            np.testing.assert_array_equal(make_slab(SMALL, name, (b, h)), getattr(part, name)[b, :, h])
        assert not getattr(part, name)[0, :, 0].astype(np.float32).any()


def test_slabs_tensors_and_seeds_differ():
    values = [make_slab(SMALL, t, s) for t in "qkv" for s in SMALL.slabs] + [make_slab(SMALL, "q", (0, 0), seed=1)]
    assert len({v.tobytes() for v in values}) == len(values)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_ranges_and_rounding(dtype):
    inputs = make_inputs(AttentionWorkload(1, 2, 512, 64, dtype))
    for name, half in (("q", 2), ("k", 2), ("v", 1)):
        values = getattr(inputs, name)
        assert values.dtype == inputs.workload.numpy_dtype
        wide = values.astype(np.float64)
        assert -half <= wide.min() < -0.99 * half and 0.99 * half < wide.max() <= half
        assert abs(wide.mean()) < 0.02 * half


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_the_output_starts_poisoned_and_written_rows_are_found(dtype):
    inputs = make_inputs(AttentionWorkload(1, 2, 8, 16, dtype), [(0, 1)])
    assert poisoned(inputs.o[0, :, 1]).all() and np.isnan(inputs.o[0, :, 1].astype(np.float32)).all()
    inputs.o[0, 3, 1, :] = 0
    inputs.o[0, 5, 1, 2] = np.nan  # a computed NaN is not the poison
    assert written_rows(inputs.o, (0, 1)) == [3, 5]


@pytest.mark.parametrize("wrong", [dict(batch=0), dict(seq=-1), dict(dtype="f8_e4m3")])
def test_a_wrong_workload_is_a_diagnostic(wrong):
    with pytest.raises(LaunchError, match="E-4150"):
        AttentionWorkload(**wrong)


def test_work_and_throughput_follow_the_published_formula():
    assert AttentionWorkload().tflops(5.3025) == pytest.approx(414.7, abs=0.05)
    assert AttentionWorkload(causal=False).flop == 2 * AttentionWorkload().flop
