"""Rounding of exact numbers, by whole-number arithmetic only."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

# name: dtype, bits, precision, smallest normal exponent, largest value
FORMATS: dict[str, tuple[Any, int, int, int, Fraction]] = {
    "f16": (np.float16, 16, 11, -14, Fraction(65504)),
    "bf16": (ml_dtypes.bfloat16, 16, 8, -126, Fraction(255) * 2**120),
    "f32": (np.float32, 32, 24, -126, Fraction(2**24 - 1) * 2**104),
    "tf32": (np.float32, 32, 11, -126, Fraction(2047) * 2**117),
    "f64": (np.float64, 64, 53, -1022, Fraction(2**53 - 1) * 2**971),
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 4, -6, Fraction(448)),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 3, -14, Fraction(57344)),
}


def ieee(exact: Fraction, name: str, rounding: str, zero_sign: int = 1) -> float:
    """The value of `exact` in a format; `zero_sign` is that of an exact zero."""
    _, _, precision, exponent_min, largest = FORMATS[name]
    if exact == 0:
        return float(np.copysign(0.0, zero_sign))
    sign, magnitude = (1, exact) if exact > 0 else (-1, -exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, exponent_min) - precision + 1)
    steps, rest = divmod(magnitude, unit)
    up = {
        "rn": 2 * rest > unit or (2 * rest == unit and steps % 2 == 1),
        "rna": 2 * rest >= unit,
        "rz": False,
        "rp": rest > 0 and sign > 0,
        "rm": rest > 0 and sign < 0,
    }[rounding]
    value = (steps + up) * unit
    if value > largest:
        infinite = rounding in ("rn", "rna") or ((rounding == "rp") == (sign > 0) and rounding != "rz")
        return sign * float("inf") if infinite else sign * float(largest)
    return sign * float(value)


def same(got: Any, want: float) -> bool:
    """Equal, signs of zero included; any NaN is a NaN."""
    got = float(got)
    return (got == want and np.signbit(got) == np.signbit(want)) or (got != got and want != want)
