"""Arithmetic of f16, bf16, f32 and f64, correctly rounded in every mode.

PTX ISA, "Floating-Point Instructions", "Half Precision Floating-Point Instructions": add, sub, mul, fma, div, rcp,
sqrt, min, max. Functions take and give arrays of the type's dtype (float16, ml_dtypes.bfloat16, float32, float64);
packed instructions are the same functions on the halves of the words. `.ftz` flushes subnormal inputs and results of
f16 and f32 to zeros of their sign; bf16 and f64 have no `.ftz`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ptx.units import exact
from croq.ptx.units.formats import (
    FORMATS,
    Array,
    Doubles,
    canonical,
    flushed,
    rectified,
    rounded,
    saturated,
    widened,
)

_NAMES = {
    np.dtype(FORMATS[name].dtype): name for name in ("f16", "bf16", "f32", "f64")
}  # the dtype of an operand is its type


def add(
    a: Array, b: Array, rounding: str = "rn", *, ftz: bool = False, sat: bool = False, negate_b: bool = False
) -> Array:
    """add, and sub with `negate_b`."""
    a, b = flushed(a, ftz), flushed(b, ftz)
    b = -b if negate_b else b
    if rounding == "rn" and a.dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            return _finished(a + b, ftz, sat)
    high, low = exact.add(widened(a), widened(b))
    high = _zero_down(high, low, rounding, np.signbit(a) != np.signbit(b))
    return _finished(_closed(high, low, a.dtype, rounding), ftz, sat)


def mul(a: Array, b: Array, rounding: str = "rn", *, ftz: bool = False, sat: bool = False) -> Array:
    a, b = flushed(a, ftz), flushed(b, ftz)
    with np.errstate(all="ignore"):
        if rounding == "rn" and a.dtype in (np.float32, np.float64):
            return _finished(a * b, ftz, sat)
        if a.dtype != np.float64:  # at most 48 bits: exact
            return _finished(rounded(widened(a) * widened(b), _NAMES[a.dtype], rounding), ftz, sat)
        zero = np.copysign(0.0, a * b)
    high, low = exact.fma(a, b, zero)
    return _finished(_closed(high, low, a.dtype, rounding), ftz, sat)


def fma(
    a: Array, b: Array, c: Array, rounding: str = "rn", *, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Array:
    """fma: one rounding."""
    a, b, c = flushed(a, ftz), flushed(b, ftz), flushed(c, ftz)
    if a.dtype == np.float64:
        high, low = exact.fma(a, b, c)
    else:
        with np.errstate(all="ignore"):
            high, low = exact.add(widened(a) * widened(b), widened(c))  # the product is exact
    opposite = (np.signbit(a) != np.signbit(b)) != np.signbit(c)
    high = _zero_down(high, low, rounding, opposite)
    result = _finished(_closed(high, low, a.dtype, rounding), ftz, sat)
    return rectified(result, relu)


def div(a: Array, b: Array, rounding: str = "rn", *, ftz: bool = False) -> Array:
    """div.rnd of f32 and f64."""
    a, b = flushed(a, ftz), flushed(b, ftz)
    with np.errstate(all="ignore"):
        if rounding == "rn":
            return _finished(a / b, ftz, False)
        if a.dtype == np.float32:
            # A quotient of two numbers of 24 bits is on the grid of f32 or off it by more than float64 loses.
            return _finished(rounded(widened(a) / widened(b), "f32", rounding), ftz, False)
    return _finished(_closed(*exact.quotient(a, b), a.dtype, rounding), ftz, False)


def rcp(a: Array, rounding: str = "rn", *, ftz: bool = False) -> Array:
    """rcp.rnd of f32 and f64."""
    return div(np.ones_like(a), a, rounding, ftz=ftz)


def sqrt(a: Array, rounding: str = "rn", *, ftz: bool = False) -> Array:
    """sqrt.rnd of f32 and f64."""
    a = flushed(a, ftz)
    with np.errstate(all="ignore"):
        if rounding == "rn":
            return _finished(np.sqrt(a), ftz, False)
        if a.dtype == np.float32:
            return _finished(rounded(np.sqrt(widened(a)), "f32", rounding), ftz, False)
    return _finished(_closed(*exact.root(a), a.dtype, rounding), ftz, False)


def minimum(a: Array, b: Array, *, nan: bool = False, ftz: bool = False, xorsign_abs: bool = False) -> Array:
    """min. Of a NaN and a number the number, with `.NaN` the canonical NaN; -0.0 is less than +0.0."""
    return _extreme(a, b, True, nan, ftz, xorsign_abs)


def maximum(a: Array, b: Array, *, nan: bool = False, ftz: bool = False, xorsign_abs: bool = False) -> Array:
    """max, as `minimum`."""
    return _extreme(a, b, False, nan, ftz, xorsign_abs)


def _extreme(a: Array, b: Array, least: bool, nan: bool, ftz: bool, xorsign_abs: bool) -> Array:
    a, b = flushed(a, ftz), flushed(b, ftz)
    sign = np.signbit(a) != np.signbit(b)
    if xorsign_abs:
        a, b = np.abs(a), np.abs(b)
    with np.errstate(all="ignore"):
        no_a, no_b = np.isnan(a), np.isnan(b)
        first = (a < b) | ((a == b) & np.signbit(a)) if least else (a > b) | ((a == b) & ~np.signbit(a))
    picked = np.where(no_a, b, np.where(first | no_b, a, b))
    if xorsign_abs:
        picked = np.where(sign, -picked, picked)
    if nan:
        picked = np.where(no_a | no_b, a.dtype.type(np.nan), picked)
    return canonical(picked, _NAMES[a.dtype])


def _closed(high: Doubles, low: Doubles, dtype: Any, rounding: str) -> Array:
    if dtype == np.float64:
        return exact.directed(high, low, rounding)
    return rounded(exact.odd(high, low), _NAMES[dtype], rounding)


def _zero_down(high: Doubles, low: Doubles, rounding: str, opposite: NDArray[np.bool_]) -> Doubles:
    """IEEE 754, 6.3: an exact zero sum of opposite signs is -0 where rounding goes down, else +0."""
    if rounding != "rm":
        return high
    return np.where((high == 0) & (low == 0) & opposite, -0.0, high)


def _finished(result: Array, ftz: bool, sat: bool) -> Array:
    """Flushed, saturated, and NaN canonical; f64 NaNs keep their bits."""
    result = saturated(flushed(result, ftz), sat)
    return result if result.dtype == np.float64 else canonical(result, _NAMES[result.dtype])
