"""Whole programs against NumPy: the shared cases and the shipped kernels, tails included, under several schedules."""

from pathlib import Path

import numpy as np
import pytest

from croq.simulate import run
from croq.simulate.dtypes import DTYPES

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEDULES = ["eager", "lazy", "random:1", "hostile:0"]
CASES = ["saxpy", "gemm", "gemm_two_halves", "attention"]


def _run_case(case, kernel, sizes, schedule):
    generator = np.random.default_rng(1)
    arrays, scalars, inputs = {}, {}, {}
    for name, type_, shape, role in case["args"]:
        if shape is None:
            scalars[name] = inputs[name] = role
            continue
        extents = tuple(sizes.get(extent, extent) for extent in shape)
        arrays[name] = generator.uniform(-1, 1, extents).astype(np.float32).astype(DTYPES[type_])
        if role == "out":
            arrays[name][...] = np.nan
        else:
            inputs[name] = arrays[name].astype(np.float64)
    report = run(kernel, arrays, scalars, schedule=schedule, races=True)
    assert report.complete
    absolute, relative = case["tolerance"]
    for name, want in case["reference"](**inputs).items():
        np.testing.assert_allclose(arrays[name].astype(np.float64), want, atol=absolute, rtol=relative)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", ["small", "tail"])
@pytest.mark.parametrize("name", CASES)
def test_shared_cases(cases, lower, name, size, schedule):
    (case,) = [c for c in cases if c["kernel"] == name]
    if size not in case:
        pytest.skip("the case has no such size")
    path = ROOT / "tests" / "cases" / case["file"]
    for defines in case.get("defines", [{}]):
        _run_case(case, lower(path, defines), case[size], schedule)


def attention(q, k, v):
    """Causal attention of [B, S, H, D] in float64."""
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    length = q.shape[1]
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), v)


def _attention_arrays(length, heads):
    generator = np.random.default_rng(3)
    arrays = {n: generator.standard_normal((1, length, heads, 128)).astype("bfloat16") for n in "QKV"}
    arrays["O"] = np.full((1, length, heads, 128), np.nan, "bfloat16")
    return arrays


def _check_attention(arrays):
    want = attention(*(arrays[n].astype(np.float64) for n in "QKV"))
    np.testing.assert_allclose(arrays["O"].astype(np.float64), want, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["v1", "v2", "v4"])
@pytest.mark.parametrize("tiles", [1, 3])
def test_attention(lower, name, tiles, schedule):
    kernel = lower(ROOT / "kernels" / f"{name}.co")
    arrays = _attention_arrays(128 * tiles, 1)
    run(kernel, arrays, schedule=schedule, races=True)
    _check_attention(arrays)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["v3", "v5"])
def test_persistent_attention_with_device_functions(lower, name, schedule):
    kernel = lower(ROOT / "kernels" / f"{name}.co", {"PERSISTENT_CTAS": 2})
    arrays = _attention_arrays(256, 2)
    tasks = [bm | head << 8 for head in range(2) for bm in range(2)]
    arrays["tasks"] = np.array([tasks[0], tasks[3], tasks[1], tasks[2]], np.int32)
    arrays["offsets"] = np.array([0, 3, 4], np.int32)
    run(kernel, arrays, schedule=schedule, races=True)
    _check_attention(arrays)


def _simulated(lower, name, arrays):
    length = arrays["Q"].shape[1]
    persistent = name in ("v3", "v5")
    defines = {"PERSISTENT_CTAS": 1} if persistent else {}
    if persistent:
        arrays["tasks"] = np.arange(length // 128, dtype=np.int32)
        arrays["offsets"] = np.array([0, length // 128], np.int32)
    run(lower(ROOT / "kernels" / f"{name}.co", defines), arrays)


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
@pytest.mark.parametrize("value", [16256.0, 3e4, 1e9, 1.6e18, 3.3e38])
def test_equal_scores_of_any_size_give_the_mean(lower, name, value):
    """A product that is rounded on one side of a difference only would be off by more than exp2 can hold."""
    arrays = _attention_arrays(256, 1)
    arrays["Q"][...] = value
    arrays["K"][...] = value
    _simulated(lower, name, arrays)
    seen = np.arange(1, 257)[:, None, None]
    want = np.cumsum(arrays["V"].astype(np.float64)[0], axis=0) / seen
    np.testing.assert_allclose(arrays["O"].astype(np.float64)[0], want, atol=1e-2)


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
@pytest.mark.parametrize("scale", [30.0, 3e3, 3e4, 1e6, 1e15])
def test_scores_of_any_size_give_the_softmax(lower, name, scale):
    """Across the score from which the kernels scale by a power of two."""
    arrays = _attention_arrays(256, 1)
    for which in "QK":
        arrays[which] *= arrays[which].dtype.type(scale)
    _simulated(lower, name, arrays)
    _check_attention(arrays)
