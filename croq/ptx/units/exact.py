"""Sums and products in float64 without loss: the parts of correctly rounded arithmetic.

A result comes as (high, low): `high` is the float64 nearest to the exact value and `low` what is missing, or something
of its sign and below half a unit of `high` in the last place. That decides every rounding: to float64 in any mode
(`directed`), and through `odd` to every narrower format.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]

_SPLIT = 134217729.0  # 2^27 + 1. Dekker, "A floating-point technique for extending the available precision", 1971
# Where `_product` and the sums of `_fma` neither overflow nor lose bits to subnormals.
_FACTOR_RANGE = (2.0**-440, 2.0**440)
_ADDEND_RANGE = (2.0**-880, 2.0**960)


def add(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a + b. Knuth, "The Art of Computer Programming" 2, 4.2.2: exact."""
    with np.errstate(all="ignore"):
        high = a + b
        shadow = high - a
        low = (a - (high - shadow)) + (b - shadow)
    return high, np.where(np.isfinite(high), low, _beyond(high, np.isfinite(a) & np.isfinite(b)))


def fma(a: Doubles, b: Doubles, c: Doubles) -> tuple[Doubles, Doubles]:
    """a * b + c. Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008, where ranges allow.

    Elsewhere whole numbers decide, one element at a time.
    """
    with np.errstate(all="ignore"):
        plain = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
        # With a zero or infinite factor a * b has no rounding; with an infinite addend and finite factors c is it.
        native = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, a * b + c)
        fast = ~plain & _within(a, _FACTOR_RANGE) & _within(b, _FACTOR_RANGE)
        fast &= (c == 0) | _within(c, _ADDEND_RANGE)
        high, low = _fma(a, b, c)
    high, low = np.where(fast, high, native), np.where(fast, low, 0.0)
    for at in np.flatnonzero(~plain & ~fast).tolist():
        high[at], low[at] = _fraction(Fraction(a[at]) * Fraction(b[at]) + Fraction(c[at]), native[at])
    return high, low


def quotient(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a / b. `low` is exact in sign only."""
    with np.errstate(all="ignore"):
        high = a / b
        low = _residual(high, b, a) * np.sign(b)
    return high, np.where(np.isfinite(high), low, _beyond(high, np.isfinite(a) & (b != 0)))


def root(a: Doubles) -> tuple[Doubles, Doubles]:
    """sqrt(a). `low` is exact in sign only."""
    with np.errstate(all="ignore"):
        high = np.sqrt(a)
        low = _residual(high, high, a)
    return high, low


def odd(high: Doubles, low: Doubles) -> Doubles:
    """The exact value rounded to odd: of the two neighbours of an inexact value, the one whose last bit is set.

    Any later rounding to two or more bits fewer is then that of the exact value. Boldo and Melquiond, as above.
    """
    bits = high.view(np.int64)
    even = (bits & 1 == 0) & (low != 0) & np.isfinite(high)
    if not even.any():
        return high
    with np.errstate(all="ignore"):
        return np.where(even, np.nextafter(high, np.where(low > 0, np.inf, -np.inf)), high)


def directed(high: Doubles, low: Doubles, rounding: str) -> Doubles:
    """The exact value rounded to float64 by `rounding`: rn, rz, rm, rp.

    An overflow comes as an infinite `high` whose `low` points back to the finite numbers.
    """
    if rounding == "rn":
        return high
    with np.errstate(all="ignore"):
        down, up = np.nextafter(high, -np.inf), np.nextafter(high, np.inf)
    below, above = low < 0, low > 0  # the exact value lies below, above `high`
    if rounding == "rm":
        return np.where(below, down, high)
    if rounding == "rp":
        return np.where(above, up, high)
    negative = np.signbit(high)
    return np.where(below & ~negative, down, np.where(above & negative, up, high))


def _beyond(high: Doubles, finite: Mask) -> Doubles:
    """`low` of an infinite `high`: it points back where finite operands made it by overflow."""
    return np.where(finite & np.isinf(high), -np.sign(high), 0.0)


def _within(x: Doubles, bounds: tuple[float, float]) -> Mask:
    magnitude = np.abs(x)
    return (magnitude >= bounds[0]) & (magnitude <= bounds[1])


def _product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    a_high, b_high = _top(a), _top(b)
    a_low, b_low = a - a_high, b - b_high
    high = a * b
    return high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low


def _top(x: Doubles) -> Doubles:
    scaled = _SPLIT * x
    return scaled - (scaled - x)


def _fma(a: Doubles, b: Doubles, c: Doubles) -> tuple[Doubles, Doubles]:
    product, product_low = _product(a, b)
    sum_, sum_low = add(c, product_low)
    high, high_low = add(product, sum_)
    tail = odd(*add(sum_low, high_low))
    return add(high, tail)


def _residual(x: Doubles, y: Doubles, a: Doubles) -> Doubles:
    """The sign of a - x * y, 0 where that is no number."""
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(a)
    high, low = fma(np.where(finite, -x, 0.0), np.where(finite, y, 0.0), np.where(finite, a, 0.0))
    return np.where(high != 0, np.sign(high), np.sign(low))


def _fraction(exact: Fraction, zero: float) -> tuple[float, float]:
    """(high, low) of any rational number; `zero` has the sign of a zero."""
    if exact == 0:
        return zero, 0.0
    try:
        high = float(exact)  # CPython rounds the quotient of two integers correctly, subnormals too
    except OverflowError:
        return (np.inf, -1.0) if exact > 0 else (-np.inf, 1.0)
    missing = exact - Fraction(high)
    sign = (missing > 0) - (missing < 0)
    return (high if high else float(np.copysign(0.0, exact.numerator))), float(sign) * 2.0**-1074
