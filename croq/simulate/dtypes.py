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

import croq.numbers as numbers
from croq.functions import rounded_to_odd
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
WIDTH = numbers.WIDTHS


def wrapper(type_: str) -> Callable[[int], int]:
    """Reduces a Python int to the two's complement of an integer type's width."""
    lo, hi = numbers.limits(type_)
    mask = (1 << WIDTH[type_]) - 1
    if lo == 0:
        return lambda x: x & mask
    return lambda x: x if lo <= x <= hi else ((x - lo) & mask) + lo


def uniform(type_: str, value: Any) -> Scalar:
    """A constant as a uniform value of `type_`."""
    found = numbers.convert(value, type_)
    return found if type_ == "bool" or type_ in WIDTH else DTYPES[type_].type(found)


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
    lo, hi = numbers.limits(type_)
    dtype = DTYPES[type_]

    def convert(value: Scalar) -> Scalar:
        if not is_vector(value):
            return numbers.to_integer(float(value), type_)
        wide = np.trunc(value.astype(np.float64))
        inside = (wide >= float(lo)) & (wide < float(hi + 1))  # both ends are powers of two, or 0
        found = np.where(inside, wide, 0.0).astype(dtype)
        return np.where(wide >= float(hi + 1), dtype.type(hi), np.where(wide < float(lo), dtype.type(lo), found))

    return convert


def _odd_f32(value: Array) -> Array:
    """f64 values as f32, rounded to odd."""
    near = value.astype(np.float32)
    bits = near.view(np.uint32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(value)  # rounded away from zero: one step back
    cut = bits - beyond
    inexact = (near.astype(np.float64) != value) & ~np.isnan(value)
    return np.where(inexact, cut | 1, bits).astype(np.uint32).view(np.float32)


def _to_float(source: str, target: str) -> Callable[[Scalar], Scalar]:
    """To nearest, ties to even, rounded once; the 8-bit types saturate."""
    dtype = DTYPES[target]
    limit = numbers.LARGEST.get(target)
    narrow = target not in ("f64", "f32")

    def convert(value: Scalar) -> Scalar:
        if not is_vector(value):
            exact = value if source in WIDTH or source == "bool" else float(value)
            return dtype.type(numbers.convert(exact, target))
        if target == "f64":
            return value.astype(np.float64)
        if source in ("s64", "u64"):
            high, low = value >> value.dtype.type(32), value & value.dtype.type(0xFFFFFFFF)
            value = rounded_to_odd(high.astype(np.float64) * 2.0**32, low.astype(np.float64))
        else:
            value = value.astype(np.float64 if source in WIDTH or source == "f64" else np.float32)
        if limit is not None:
            value = np.clip(value, -limit, limit)
        return (_odd_f32(value) if narrow and value.dtype == np.float64 else value).astype(dtype)

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
