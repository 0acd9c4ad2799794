"""cvt between every pair of types. PTX ISA, "cvt".

Values are arrays of the type's dtype; e4m3 and e5m2 are ml_dtypes.float8_e4m3fn and float8_e5m2, tf32 is float32.
Packed forms (`.f16x2.f32`, `.e4m3x2.f32` and the like) are this function on each operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from croq.ptx.units.fault import UnitFault, require
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

INTEGERS: Mapping[str, Any] = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
    "u64": np.uint64, "s64": np.int64,
}  # fmt: skip
_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(
    values: Array,
    source: str,
    target: str,
    rounding: str = "",
    *,
    ftz: bool = False,
    sat: bool = False,
    satfinite: bool = False,
    relu: bool = False,
) -> Array:
    """cvt{.rounding}{.ftz}{.sat}{.satfinite}{.relu}.target.source. Faults: `rounding`, `cvt-type`.

    Where the ISA wants no rounding modifier the conversion is exact and `rounding` is empty.
    """
    for name in (source, target):
        require(name in INTEGERS or name in FORMATS, "cvt-type", f"cvt of `{name}` is not modelled")
    if source in INTEGERS and target in INTEGERS:
        return _integer_to_integer(values, target, sat)
    if source in INTEGERS:
        return saturated(_integer_to_float(values, target, rounding or "rn"), sat)
    if source == "f32":
        values = flushed(values, ftz)
    if target in INTEGERS:
        return _float_to_integer(values, source, target, rounding)
    result = _float_to_float(values, source, target, rounding, satfinite)
    if target == "f32":
        result = flushed(result, ftz)
    return rectified(saturated(result, sat), relu)


def _integer_to_integer(values: Array, target: str, sat: bool) -> Array:
    dtype = INTEGERS[target]
    if not sat:
        return values.astype(dtype)  # NumPy wraps, and extends by the sign of the source
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    source = np.iinfo(values.dtype)
    return np.clip(values, max(low, source.min), min(high, source.max)).astype(dtype)


def _float_to_integer(values: Array, source: str, target: str, rounding: str) -> Array:
    """Clamped to the target's range. NaN gives 0, or, from f64 or to 64 bits, the bit of the sign alone."""
    require(rounding in _WHOLE, "rounding", f"cvt.{target}.{source} with `.{rounding}`, no integer rounding")
    dtype = np.dtype(INTEGERS[target])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    bits = dtype.itemsize * 8
    with np.errstate(all="ignore"):
        whole = _WHOLE[rounding](widened(values))
        inside = (whole > low) & (whole < high)  # the ends themselves are the clamped values
        result: Array = np.where(inside, whole, 0.0).astype(dtype)
        result[whole >= high] = high
        result[whole <= low] = low
    none = source != "f64" and bits < 64
    result.view(f"u{bits // 8}")[np.isnan(whole)] = 0 if none else 1 << (bits - 1)
    return result


def _integer_to_float(values: Array, target: str, rounding: str) -> Array:
    if target == "f64":
        return _integer_to_double(values, rounding)
    return rounded(_odd_double(values), target, rounding)


def _odd_double(values: Array) -> Doubles:
    """An integer as float64, rounded to odd where it has more than 53 bits."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    negative = values < 0
    magnitude = values.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    sticky = (magnitude & np.uint64(0x7FF)) != 0
    cut = ((magnitude >> np.uint64(11)) | sticky.astype(np.uint64)).astype(np.float64) * 2048.0
    size = np.where(magnitude < np.uint64(1 << 53), magnitude.astype(np.float64), cut)
    return np.where(negative, -size, size)


def _integer_to_double(values: Array, rounding: str) -> Doubles:
    nearest = values.astype(np.float64)
    if rounding == "rn" or values.dtype.itemsize < 8:
        return nearest
    if rounding not in ("rz", "rm", "rp"):
        raise UnitFault("rounding", f"cvt.f64 with `.{rounding}`")
    exact, got = values.astype(object), np.array([int(x) for x in nearest], object)
    low, high = np.nextafter(nearest, -np.inf), np.nextafter(nearest, np.inf)
    above, below = (got > exact).astype(bool), (got < exact).astype(bool)
    if rounding == "rm":
        return np.where(above, low, nearest)
    if rounding == "rp":
        return np.where(below, high, nearest)
    positive = values > 0
    return np.where(above & positive, low, np.where(below & ~positive, high, nearest))


def _float_to_float(values: Array, source: str, target: str, rounding: str, satfinite: bool) -> Array:
    if rounding in _WHOLE:
        with np.errstate(all="ignore"):
            return canonical(_WHOLE[rounding](widened(values)).astype(FORMATS[target].dtype), target)
    exact = FORMATS[source].precision <= FORMATS[target].precision
    exact = exact and FORMATS[source].exponent_min >= FORMATS[target].exponent_min
    require(bool(rounding) or exact, "rounding", f"cvt.{target}.{source} has no rounding")
    if (source, target, rounding, satfinite) == ("f32", "bf16", "rn", False):  # the one that kernels are full of
        with np.errstate(all="ignore"):
            return canonical(values.astype(FORMATS["bf16"].dtype), "bf16")
    return rounded(widened(values), target, rounding or "rn", satfinite=satfinite)
