"""Element types as NumPy knows them, integer wrap-around, and value conversion with the chip's rounding.

A scalar of the simulation is either *uniform* (one Python int, bool, or NumPy floating scalar for the whole warp) or a
vector with one entry a lane. Every function here takes both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from croq.ir.types import FLOATS

Scalar = Any  # int | bool | np.floating | NDArray: uniform or a vector over lanes
Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "s32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "s16": np.dtype(np.int16),
    "u16": np.dtype(np.uint16),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
WIDTH = {"s64": 64, "u64": 64, "s32": 32, "u32": 32, "s16": 16, "u16": 16, "s8": 8, "u8": 8}
F8_MAX = {"f8_e4m3": 448.0, "f8_e5m2": 57344.0}  # conversions saturate. PTX ISA, cvt .satfinite


def bounds(type_: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    bits = WIDTH[type_]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_.startswith("s") else (0, (1 << bits) - 1)


def wrapper(type_: str) -> Callable[[int], int]:
    """Reduces a Python int to the two's complement of an integer type's width."""
    lo, hi = bounds(type_)
    mask = (1 << WIDTH[type_]) - 1
    if lo == 0:
        return lambda x: x & mask
    return lambda x: x if lo <= x <= hi else ((x - lo) & mask) + lo


def uniform(type_: str, value: Any) -> Scalar:
    """A constant as a uniform value of `type_`."""
    if type_ == "bool":
        return bool(value)
    if type_ in WIDTH:
        return wrapper(type_)(int(value))
    return DTYPES[type_].type(value)


def is_vector(value: Scalar) -> bool:
    return type(value) is np.ndarray


def poison(type_: str) -> Any:
    """What memory that nobody wrote holds: NaN, or all bits set."""
    if type_ in FLOATS:
        return DTYPES[type_].type(np.nan)
    return False if type_ == "bool" else wrapper(type_)(-1)


def to_f32(values: Array, type_: str) -> NDArray[np.float32]:
    """Operand values of a tensor core as f32, exactly; tf32 reads only the upper 19 bits of its 32."""
    if type_ == "tf32":
        bits = np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)
        return bits.view(np.float32)
    return values.astype(np.float32, copy=False)


def _to_tf32(value: Scalar) -> Scalar:
    """Round to nearest, ties away. PTX ISA, cvt.rna.tf32.f32."""
    bits = np.asarray(value, dtype=np.float32).view(np.uint32)
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    rounded = np.where(finite, (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits).view(np.float32)
    return rounded if is_vector(value) else rounded[()]


def _float_to_int(type_: str) -> Callable[[Scalar], Scalar]:
    """Towards zero, saturating, NaN to 0. PTX ISA, cvt.rzi."""
    lo, hi = bounds(type_)
    dtype = DTYPES[type_]
    top = float(np.nextafter(2.0**64, 0) if hi == 2**64 - 1 else np.nextafter(2.0**63, 0) if hi == 2**63 - 1 else hi)

    def convert(value: Scalar) -> Scalar:
        if is_vector(value):
            wide = np.nan_to_num(np.trunc(value.astype(np.float64)), nan=0.0, posinf=top, neginf=float(lo))
            return np.clip(wide, float(lo), top).astype(dtype)
        number = float(value)
        if number != number:
            return 0
        if number in (float("inf"), float("-inf")):
            return hi if number > 0 else lo
        return max(lo, min(hi, int(number)))

    return convert


def _to_float(source: str, target: str) -> Callable[[Scalar], Scalar]:
    dtype = DTYPES[target]
    limit = F8_MAX.get(target)

    def convert(value: Scalar) -> Scalar:
        if limit is not None and source in FLOATS:
            value = np.clip(value, -limit, limit)
        if is_vector(value):
            return value.astype(dtype)
        return dtype.type(value)

    return convert


def _to_int(type_: str) -> Callable[[Scalar], Scalar]:
    wrap, dtype = wrapper(type_), DTYPES[type_]
    return lambda x: x.astype(dtype) if is_vector(x) else wrap(int(x))


def _to_bool(value: Scalar) -> Scalar:
    return value != 0 if is_vector(value) else bool(value != 0)


def converter(source: str, target: str) -> Callable[[Scalar], Scalar]:
    """The conversion of values of one type to another: to narrower floats round to nearest even, else as C's."""
    if source == target:
        return lambda x: x
    if target == "bool":
        return _to_bool
    if target == "tf32":
        widen = converter(source, "f32")
        return lambda x: _to_tf32(widen(x))
    if target in WIDTH:
        return _float_to_int(target) if source in FLOATS else _to_int(target)
    return _to_float(source, target)
