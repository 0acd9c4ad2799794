"""cvt, against exact numbers and against the special cases that the ISA names."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq.ptx.units.conversion import INTEGERS, convert
from croq.ptx.units.fault import UnitFault
from tests.ptx.units.oracle import FORMATS, ieee, same

FLOATS = ("f16", "bf16", "f32", "f64")
BITS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
RANGES = {name: (int(np.iinfo(d).min), int(np.iinfo(d).max)) for name, d in INTEGERS.items()}


def one(value: float, name: str) -> np.ndarray:
    return np.array([value], FORMATS[name][0])


def any_float(name: str) -> st.SearchStrategy[np.ndarray]:
    dtype, bits, precision, _, _ = FORMATS[name]
    patterns = st.integers(0, 2**bits - 1)
    short = st.builds(lambda p, k: p >> k << k, patterns, st.integers(1, precision))
    return st.one_of(patterns, short).map(lambda p: np.array([p], BITS[bits]).view(dtype))


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(FLOATS), st.sampled_from((*FLOATS, "tf32", "e4m3", "e5m2")))
def test_floats_round_once(data: st.DataObject, source: str, target: str) -> None:
    value = data.draw(any_float(source))
    if not np.isfinite(value.astype(float)).all():
        return
    narrow = target in ("e4m3", "e5m2")
    modes = ["rn"] if narrow else ["rna", "rn", "rz"] if target == "tf32" else ["rn", "rz", "rm", "rp"]
    rounding = data.draw(st.sampled_from(modes))
    got = convert(value, source, target, rounding, satfinite=narrow)
    assert got.dtype == FORMATS[target][0]
    want = ieee(Fraction(float(value[0])), target, rounding, -1 if np.signbit(value[0]) else 1)
    if narrow and np.isinf(want):
        want = float(np.copysign(float(FORMATS[target][4]), want))
    if narrow:
        want = max(-float(FORMATS[target][4]), min(float(FORMATS[target][4]), want))
    assert same(got[0], want)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(sorted(INTEGERS)), st.sampled_from(FLOATS), st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_integers_round_once(data: st.DataObject, source: str, target: str, rounding: str) -> None:
    low, high = RANGES[source]
    edges = [x for k in range(70) for x in (2**k - 1, 2**k, 2**k + 1, -(2**k), 3 * 2**k + 1) if low <= x <= high]
    value = data.draw(st.one_of(st.integers(low, high), st.sampled_from(edges)))
    got = convert(np.array([value], INTEGERS[source]), source, target, rounding)
    assert same(got[0], ieee(Fraction(value), target, rounding))


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(FLOATS), st.sampled_from(sorted(INTEGERS)))
def test_floats_to_integers_clamp(data: st.DataObject, source: str, target: str) -> None:
    value = data.draw(st.one_of(any_float(source), st.floats(-300, 300).map(lambda v: one(v, source))))
    rounding = data.draw(st.sampled_from(["rni", "rzi", "rmi", "rpi"]))
    got = int(convert(value, source, target, rounding)[0])
    low, high = RANGES[target]
    v = float(value[0])
    if np.isnan(v):
        bits = np.dtype(INTEGERS[target]).itemsize * 8
        pattern = 0 if source != "f64" and bits < 64 else 1 << (bits - 1)
        assert got % 2**bits == pattern
        return
    if np.isinf(v):
        assert got == (high if v > 0 else low)
        return
    exact = Fraction(v)
    whole = {"rni": round(exact), "rzi": int(exact), "rmi": exact.__floor__(), "rpi": exact.__ceil__()}[rounding]
    assert got == max(low, min(high, whole))


def test_nan_to_integers_by_hand() -> None:
    assert convert(one(np.nan, "f32"), "f32", "s32", "rzi").tolist() == [0]
    assert convert(one(np.nan, "f32"), "f32", "s64", "rzi").tolist() == [-(2**63)]
    assert convert(one(np.nan, "f64"), "f64", "u32", "rzi").tolist() == [2**31]
    assert convert(one(np.nan, "bf16"), "bf16", "s8", "rzi").tolist() == [0]
    assert convert(one(300.0, "f32"), "f32", "s8", "rzi").tolist() == [127]
    assert convert(one(-1.0, "f32"), "f32", "u8", "rzi").tolist() == [0]
    assert convert(one(2.0**63, "f32"), "f32", "s64", "rzi").tolist() == [2**63 - 1]
    assert convert(one(2.0**64, "f64"), "f64", "u64", "rzi").tolist() == [2**64 - 1]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(sorted(INTEGERS)), st.sampled_from(sorted(INTEGERS)), st.booleans())
def test_integers_wrap_or_saturate(data: st.DataObject, source: str, target: str, sat: bool) -> None:
    value = data.draw(st.one_of(st.integers(*RANGES[source]), st.sampled_from(RANGES[source])))
    got = int(convert(np.array([value], INTEGERS[source]), source, target, sat=sat)[0])
    low, high = RANGES[target]
    assert got == (max(low, min(high, value)) if sat else (value - low) % (high - low + 1) + low)


def test_nan_is_canonical_in_the_target() -> None:
    for source in FLOATS:
        for target, pattern in (("f16", 0x7FFF), ("bf16", 0x7FFF), ("f32", 0x7FFFFFFF), ("tf32", 0x7FFFFFFF)):
            bits = FORMATS[target][1]
            got = convert(-one(np.nan, source), source, target, "rna" if target == "tf32" else "rn")
            assert got.view(BITS[bits]).tolist() == [pattern]
    for target in ("e4m3", "e5m2"):
        assert convert(one(np.nan, "f32"), "f32", target, "rn", satfinite=True).view(np.uint8).tolist() == [0x7F]


def test_saturations() -> None:
    x = np.array([1e30, -1e30, np.inf, -np.inf], np.float32)
    assert convert(x, "f32", "e4m3", "rn", satfinite=True).astype(float).tolist() == [448, -448, 448, -448]
    assert convert(x, "f32", "e5m2", "rn", satfinite=True).astype(float).tolist() == [57344, -57344, 57344, -57344]
    assert convert(x, "f32", "f16", "rn", satfinite=True).tolist() == [65504, -65504, 65504, -65504]
    assert convert(x, "f32", "f16", "rn").tolist() == [np.inf, -np.inf, np.inf, -np.inf]
    assert convert(x, "f32", "f16", "rz").tolist() == [65504, -65504, np.inf, -np.inf]
    assert convert(x, "f32", "bf16", "rn", relu=True).astype(float)[1] == 0.0
    sat = convert(np.array([2, -1, np.nan, 0.5]), "f64", "f32", "rn", sat=True)
    assert sat.tolist() == [1, 0, 0, 0.5]


def test_e4m3_between_its_largest_and_nothing() -> None:
    x = np.array([449, 463, 464, 465, 1000], np.float32)
    assert convert(x, "f32", "e4m3", "rn", satfinite=True).astype(float).tolist() == [448] * 5


def test_ftz_applies_to_f32_operands_and_results() -> None:
    tiny = one(2.0**-130, "f32")
    assert convert(tiny, "f32", "s32", "rpi").tolist() == [1]
    assert convert(tiny, "f32", "s32", "rpi", ftz=True).tolist() == [0]
    assert convert(tiny, "f32", "bf16", "rn", ftz=True).tolist() == [0.0]
    assert convert(np.array([2.0**-130]), "f64", "f32", "rn", ftz=True).tolist() == [0.0]
    assert convert(one(2.0**-130, "bf16"), "bf16", "f32").tolist() == [2.0**-130]


def test_floats_to_whole_floats() -> None:
    x = np.array([2.5, -2.5, 0.4, -0.4], np.float32)
    assert convert(x, "f32", "f32", "rni").tolist() == [2, -2, 0, -0.0]
    assert convert(x, "f32", "f32", "rpi").tolist() == [3, -2, 1, -0.0]
    assert convert(x.astype(ml_dtypes.bfloat16), "bf16", "bf16", "rmi").tolist() == [2, -3, 0, -1]


@pytest.mark.parametrize(
    ("source", "target", "rounding"),
    [("f32", "s32", "rn"), ("f32", "f16", ""), ("bf16", "f16", ""), ("f32", "bf16", "rs"), ("f32", "e2m1", "rn")],
)
def test_conversions_that_are_refused(source: str, target: str, rounding: str) -> None:
    with pytest.raises(UnitFault):
        convert(one(1.0, source), source, target, rounding)
