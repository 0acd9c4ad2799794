"""Floating-point formats, and rounding to them in every mode.

A value is held in float64, exactly or rounded to odd with 53 bits (see `exact`): either way one more rounding to a
format of at most 24 bits, in any mode, is the rounding of the exact value. PTX ISA, "cvt", "Floating-Point
Instructions" (rounding modifiers, `.ftz`, NaN).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from croq.ptx.units.fault import UnitFault

Array = NDArray[Any]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """`precision` in bits with the implicit one, `exponent_min` of the smallest normal number, `largest` finite value.

    `nan` is the canonical NaN as bits of `bits_dtype`; `infinite` says whether the format has infinities.
    """

    dtype: Any
    bits_dtype: Any
    precision: int
    exponent_min: int
    largest: float
    nan: int
    infinite: bool = True


# PTX ISA, "Floating-Point Instructions": a NaN result of f32 is 0x7fffffff; of f16 and bf16, 0x7fff. Narrow formats:
# PTX ISA, "Alternate Floating-Point Data Formats". tf32 lives in an f32 whose low 13 bits are zero.
FORMATS: Mapping[str, Format] = {
    "f64": Format(np.float64, np.uint64, 53, -1022, float(np.finfo(np.float64).max), 0x7FFFFFFFFFFFFFFF),
    "f32": Format(np.float32, np.uint32, 24, -126, float(np.finfo(np.float32).max), 0x7FFFFFFF),
    "tf32": Format(np.float32, np.uint32, 11, -126, (2 - 2.0**-10) * 2.0**127, 0x7FFFFFFF),
    "bf16": Format(ml_dtypes.bfloat16, np.uint16, 8, -126, (2 - 2.0**-7) * 2.0**127, 0x7FFF),
    "f16": Format(np.float16, np.uint16, 11, -14, 65504.0, 0x7FFF),
    "e5m2": Format(ml_dtypes.float8_e5m2, np.uint8, 3, -14, 57344.0, 0x7F),
    "e4m3": Format(ml_dtypes.float8_e4m3fn, np.uint8, 4, -6, 448.0, 0x7F, infinite=False),
}
ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")


def widened(values: Array) -> Doubles:
    """Any float array as float64, exactly; a signalling NaN becomes a quiet one without a warning."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def rounded(values: Doubles, name: str, rounding: str = "rn", *, satfinite: bool = False) -> Array:
    """`values` in the dtype of format `name`, rounded once, NaN canonical.

    Overflow gives an infinity or the largest value as the mode says, with `satfinite` always the largest value.
    Faults: `rounding`.
    """
    form = FORMATS[name]
    if rounding not in ROUNDINGS:
        raise UnitFault("rounding", f"no rounding `.{rounding}`")
    if name == "f64":
        return values
    with np.errstate(all="ignore"):
        if rounding == "rn" and not satfinite and name in ("f32", "f16"):
            result = values.astype(form.dtype)  # the hardware's own rounding, once
        else:
            result = _limited(_on_grid(values, form, rounding), values, form, rounding, satfinite).astype(form.dtype)
    return canonical(result, name)


def canonical(values: Array, name: str) -> Array:
    """`values` with the canonical NaN of format `name` for every NaN, in place."""
    form = FORMATS[name]
    with np.errstate(invalid="ignore"):
        nan = np.isnan(values)
    if nan.any():
        values.view(form.bits_dtype)[nan] = form.nan
    return values


def flushed(values: Array, ftz: bool) -> Array:
    """With `.ftz`, zero of the same sign for every subnormal f32 or f16."""
    if not ftz:
        return values
    tiny = np.float32(2.0**-126) if values.dtype == np.float32 else np.float16(2.0**-14)
    with np.errstate(all="ignore"):
        result: Array = np.where(np.abs(values) < tiny, np.copysign(values.dtype.type(0), values), values)
    return result


def saturated(values: Array, sat: bool) -> Array:
    """With `.sat`, into [+0.0, 1.0]; NaN becomes +0.0."""
    if not sat:
        return values
    zero, one = values.dtype.type(0), values.dtype.type(1)
    with np.errstate(all="ignore"):
        return np.where(values > zero, np.where(values < one, values, one), zero)


def rectified(values: Array, relu: bool) -> Array:
    """With `.relu`, +0.0 for everything below zero and for -0.0; NaN stays."""
    if not relu:
        return values
    zero = values.dtype.type(0)
    with np.errstate(all="ignore"):
        return np.where(values <= zero, zero, values)


def _on_grid(values: Doubles, form: Format, rounding: str) -> Doubles:
    """Rounded to the format's precision, as if its exponents had no upper end."""
    _, exponent = np.frexp(values)
    quantum = np.maximum(exponent - form.precision, form.exponent_min - form.precision + 1)
    scaled = np.ldexp(np.abs(values), -quantum)
    negative = np.signbit(values)
    grid: Doubles = np.copysign(np.ldexp(_whole(scaled, negative, rounding), quantum), values)
    return grid


def _whole(scaled: Doubles, negative: NDArray[np.bool_], rounding: str) -> Doubles:
    if rounding == "rn":
        return np.rint(scaled)
    if rounding == "rna":
        return np.floor(scaled + 0.5)
    if rounding == "rz":
        return np.floor(scaled)
    away = negative if rounding == "rm" else ~negative
    whole: Doubles = np.where(away, np.ceil(scaled), np.floor(scaled))
    return whole


def _limited(grid: Doubles, values: Doubles, form: Format, rounding: str, satfinite: bool) -> Doubles:
    over = np.abs(grid) > form.largest
    if not over.any():
        return grid
    if satfinite:
        return np.where(over, np.copysign(form.largest, values), grid)
    negative = np.signbit(values)
    to_infinity = {
        "rn": np.ones_like(negative),
        "rna": np.ones_like(negative),
        "rz": np.zeros_like(negative),
        "rm": negative,
        "rp": ~negative,
    }[rounding] | np.isinf(values)
    beyond = np.inf if form.infinite else np.nan
    return np.where(over, np.copysign(np.where(to_infinity, beyond, form.largest), values), grid)
