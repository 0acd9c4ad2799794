"""Arithmetic is that of exact numbers rounded once, in every type and mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from croq.ptx.units import exact
from croq.ptx.units.float_arithmetic import (
    add,
    div,
    fma,
    maximum,
    minimum,
    mul,
    rcp,
    sqrt,
)
from tests.ptx.units.oracle import FORMATS, ieee, same

MODES = ("rn", "rz", "rm", "rp")
TYPES = ("f16", "bf16", "f32", "f64")
BITS: dict[int, Any] = {16: np.uint16, 32: np.uint32, 64: np.uint64}


@st.composite
def numbers(draw: st.DrawFn, name: str, count: int) -> list[Any]:
    """Finite numbers of a type, often close to one another in size so that cancellation and ties happen."""
    dtype, bits, precision, _, _ = FORMATS[name]
    base = draw(st.integers(0, 2**bits - 1))
    result = []
    for _ in range(count):
        near = draw(st.booleans())
        shift = draw(st.integers(0, bits - precision + 1)) << (precision - 1)
        value = (
            base ^ draw(st.integers(0, 15)) ^ (draw(st.integers(0, 1)) << (bits - 1))
            if near
            else draw(st.integers(0, 2**bits - 1))
        )
        if draw(st.booleans()):
            value = (value + shift) % 2**bits
        if draw(st.integers(0, 3)) == 0:
            value &= ~((1 << draw(st.integers(1, precision - 1))) - 1)  # short numbers make ties
        one = np.array([value], BITS[bits]).view(dtype)
        result.append(one if np.isfinite(one.astype(np.float64))[0] else np.ones(1, dtype))
    return result


def zero_sign(rounding: str, *parts: float) -> int:
    """The sign of a sum that is exactly zero."""
    signs = {bool(np.signbit(p)) for p in parts}
    return (-1 if signs == {True} else 1) if len(signs) == 1 else (-1 if rounding == "rm" else 1)


def fractions(values: list[Any]) -> list[Fraction]:
    return [Fraction(float(v[0])) for v in values]


@settings(max_examples=250, deadline=None)
@given(st.data(), st.sampled_from(TYPES), st.sampled_from(MODES))
def test_fma_add_and_mul_round_once(data: st.DataObject, name: str, rounding: str) -> None:
    a, b, c = values = data.draw(numbers(name, 3))
    x, y, z = fractions(values)
    product_sign = -1.0 if np.signbit(a[0]) != np.signbit(b[0]) else 1.0
    assert same(
        fma(a, b, c, rounding)[0], ieee(x * y + z, name, rounding, zero_sign(rounding, product_sign, float(c[0])))
    )
    assert same(mul(a, b, rounding)[0], ieee(x * y, name, rounding, int(product_sign)))
    assert same(add(a, c, rounding)[0], ieee(x + z, name, rounding, zero_sign(rounding, float(a[0]), float(c[0]))))
    less = add(a, c, rounding, negate_b=True)[0]
    assert same(less, ieee(x - z, name, rounding, zero_sign(rounding, float(a[0]), -float(c[0]))))


@settings(max_examples=150, deadline=None)
@given(numbers("f64", 3), st.sampled_from(MODES))
@example([np.array([v]) for v in (2.0**-25 * (1 + 2.0**-27), 2.0**-25 * (1 - 2.0**-27), 8 + 2.0**-49)], "rn")
@example([np.array([v]) for v in (1 + 2.0**-52, 1 - 2.0**-53, -1.0)], "rn")
@example([np.array([v]) for v in (2.0**-600, 2.0**-600, 2.0**-1074)], "rp")
@example([np.array([v]) for v in (2.0**1000, 2.0**100, -np.finfo(float).max)], "rz")
@example([np.array([v]) for v in (2.0**-537, 2.0**-538, -(2.0**-1074))], "rn")
@example([np.array([v]) for v in (1e300, 1e10, -1e308)], "rm")
def test_fma_of_f64_at_the_edges(values: list[Any], rounding: str) -> None:
    a, b, c = values
    x, y, z = fractions(values)
    product = -1.0 if np.signbit(a[0]) != np.signbit(b[0]) else 1.0
    assert same(fma(a, b, c, rounding)[0], ieee(x * y + z, "f64", rounding, zero_sign(rounding, product, float(c[0]))))


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(["f32", "f64"]), st.sampled_from(MODES))
def test_quotients_and_roots_round_once(data: st.DataObject, name: str, rounding: str) -> None:
    a, b = values = data.draw(numbers(name, 2))
    x, y = fractions(values)
    if y:
        sign = -1 if np.signbit(a[0]) != np.signbit(b[0]) else 1
        assert same(div(a, b, rounding)[0], ieee(x / y, name, rounding, sign))
        assert same(rcp(b, rounding)[0], ieee(1 / y, name, rounding))
    if x > 0:
        got = sqrt(a, rounding)[0]
        assert same(got, rounded_root(x, name, rounding))


def rounded_root(x: Fraction, name: str, rounding: str) -> float:
    """sqrt by an integer root with 150 more bits, which no root of a short number ends within by accident."""
    scale = 4**750
    root = math.isqrt(x.numerator * scale // x.denominator)
    exact_root = root * root * x.denominator == x.numerator * scale
    value = Fraction(root, 2**750)
    return ieee(value if exact_root else value + Fraction(1, 2**900), name, rounding)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_fma_of_f32_where_two_roundings_would_differ() -> None:
    """The exact sum lies just below a tie of f32; float64 rounds it to the tie, which then goes up."""
    a, b, c = f32(2.0**-12 * (1 + 2.0**-20)), f32(2.0**-12 * (1 - 2.0**-20)), f32(1 + 2.0**-23)
    assert fma(a, b, c).tolist() == [1 + 2.0**-23]
    assert (a.astype(float) * b.astype(float) + c.astype(float)).astype(np.float32).tolist() == [1 + 2.0**-22]


def test_special_values() -> None:
    inf, nan = np.inf, np.nan
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        x = np.array([inf, inf, inf, -inf, 1, nan, 2], dtype)
        y = np.array([inf, 0, 1, 1, 0, 1, 3], dtype)
        z = np.array([-inf, 1, -inf, inf, inf, 1, nan], dtype)
        for rounding in MODES:
            got = fma(x, y, z, rounding).astype(float)
            np.testing.assert_array_equal(got, [nan, nan, nan, nan, inf, nan, nan])
    assert (fma(f32(inf, 1), f32(0, nan), f32(0, 0)).view(np.uint32) == 0x7FFFFFFF).all()
    assert fma(np.array([1e200]), np.array([1e200]), np.array([-inf])).tolist() == [-inf]
    assert add(f32(inf), f32(-inf)).view(np.uint32).tolist() == [0x7FFFFFFF]
    assert div(f32(1, -1, 0), f32(0, 0, 0)).tolist()[:2] == [inf, -inf]
    for rounding in MODES:
        assert div(np.array([1.0]), np.array([0.0]), rounding).tolist() == [inf]
        assert div(np.array([1.0]), np.array([-inf]), rounding).tolist() == [0.0]
        assert sqrt(np.array([inf, 0.0]), rounding).tolist() == [inf, 0.0]
        assert np.isnan(sqrt(np.array([-1.0]), rounding)).all()


def test_overflow_follows_the_mode() -> None:
    for name in TYPES:
        dtype, *_, largest = FORMATS[name]
        big = np.array([largest], object).astype(float).astype(dtype)
        results = {rounding: float(add(big, big, rounding)[0]) for rounding in MODES}
        assert results == {"rn": math.inf, "rz": float(largest), "rm": float(largest), "rp": math.inf}
        results = {rounding: float(mul(-big, big, rounding)[0]) for rounding in MODES}
        assert results == {"rn": -math.inf, "rz": -float(largest), "rm": -math.inf, "rp": -float(largest)}


def test_ftz_flushes_operands_and_results() -> None:
    tiny = f32(2.0**-130, -(2.0**-130))
    assert same(add(tiny, f32(0, -0.0), ftz=True)[0], 0.0) and same(add(tiny, f32(0, -0.0), ftz=True)[1], -0.0)
    assert mul(f32(2.0**-100), f32(2.0**-30), ftz=True).tolist() == [0.0]
    assert mul(f32(2.0**-100), f32(2.0**-30)).tolist() == [2.0**-130]
    assert fma(tiny, f32(2.0**20, 2.0**20), f32(0, 0), ftz=True).tolist() == [0.0, 0.0]
    half = np.array([2.0**-20], np.float16)
    assert add(half, half).tolist() == [2.0**-19] and add(half, half, ftz=True).tolist() == [0.0]


def test_saturation_and_relu() -> None:
    got = fma(f32(2, -1, 0.25, np.nan, -0.0), f32(1, 1, 1, 1, 1), f32(0, 0, 0, 0, -0.0), sat=True)
    assert got.tolist() == [1, 0, 0.25, 0, 0] and not np.signbit(got).any()
    got = fma(
        np.array([-2, 2, -0.0], np.float16), np.ones(3, np.float16), np.array([0, 0, -0.0], np.float16), relu=True
    )
    assert got.tolist() == [0, 2, 0] and not np.signbit(got).any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_minimum_and_maximum(dtype: Any) -> None:
    nan = np.nan
    a, b = np.array([1, -0.0, 0.0, nan, 3, nan], dtype), np.array([2, 0.0, -0.0, 5, nan, nan], dtype)
    low, high = minimum(a, b), maximum(a, b)
    for got, want in zip(low.tolist() + high.tolist(), [1, -0.0, -0.0, 5, 3, nan, 2, 0.0, 0.0, 5, 3, nan], strict=True):
        assert same(got, want)
    assert np.isnan(minimum(a, b, nan=True).astype(float)).tolist() == [False, False, False, True, True, True]
    x, y = np.array([-3, 2], dtype), np.array([2, 1], dtype)
    assert maximum(x, y, xorsign_abs=True).tolist() == [-3, 2]
    assert minimum(x, y, xorsign_abs=True).tolist() == [-2, 1]


def test_nan_results_are_canonical() -> None:
    odd_nan = np.array([0xFFC12345], np.uint32).view(np.float32)
    operations: list[Callable[[], np.ndarray]] = [
        lambda: add(odd_nan, f32(1)), lambda: mul(odd_nan, f32(1), "rz"), lambda: fma(odd_nan, f32(1), f32(1)),
        lambda: minimum(odd_nan, odd_nan), lambda: sqrt(f32(-1)), lambda: div(f32(0), f32(0)),
    ]  # fmt: skip
    for operation in operations:
        assert operation().view(np.uint32).tolist() == [0x7FFFFFFF]
    halves_ = [np.array([0xFE01], np.uint16).view(d) for d in (np.float16, ml_dtypes.bfloat16)]
    for nan in (halves_[0], np.array([0xFFC1], np.uint16).view(ml_dtypes.bfloat16)):
        assert add(nan, nan).view(np.uint16).tolist() == [0x7FFF]


def test_packed_words_are_two_elements() -> None:
    a = np.array([0x3C004000, 0xC0003C00], np.uint32).view(np.float16)  # (2, 1), (1, -2)
    assert fma(a, a, a).tolist() == [6.0, 2.0, 2.0, 2.0]
    b = np.array([0x3F804000], np.uint32).view(ml_dtypes.bfloat16)
    assert add(b, b).tolist() == [4.0, 2.0]


@settings(max_examples=200, deadline=None)
@given(numbers("f64", 2))
def test_odd_keeps_what_a_later_rounding_needs(values: list[Any]) -> None:
    high, low = exact.add(*values)
    if not np.isfinite(high).all():
        return
    value = Fraction(float(high[0])) + Fraction(float(low[0]))
    assert value == sum(fractions(values))
    via_odd = Fraction(float(exact.odd(high, low)[0]))
    for rounding in MODES:
        if abs(value) < 2**120:
            assert ieee(via_odd, "f32", rounding) == ieee(value, "f32", rounding)
