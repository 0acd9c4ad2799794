"""`cp.async.bulk` without a tensor map, and the reductions of bulk copies.

PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from croq.ptx.units import float_arithmetic
from croq.ptx.units.fault import require

ALIGNMENT = 16

_DTYPES: dict[str, Any] = {
    "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32, "b64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_EXTREMA = {"u32", "s32", "u64", "s64", "f16", "bf16"}
_BITS = {"b32", "b64", "u32", "s32", "u64", "s64"}  # a tensor map says u32 where the bulk copy says b32
# PTX ISA, cp.reduce.async.bulk: the types of each operation towards global memory.
REDUCTION_TYPES: dict[str, set[str]] = {
    "add": {"u32", "s32", "u64", "f16", "bf16", "f32", "f64"},
    "min": _EXTREMA,
    "max": _EXTREMA,
    "inc": {"u32"},
    "dec": {"u32"},
    "and": _BITS,
    "or": _BITS,
    "xor": _BITS,
}


def check_bulk(destination: int, source: int, size: int) -> None:
    """Both addresses and the size in bytes are multiples of 16. Faults: `bulk-alignment`, `bulk-size`."""
    for name, address in (("destination", destination), ("source", source)):
        require(
            address % ALIGNMENT == 0,
            "bulk-alignment",
            f"the {name} of a bulk copy is {address:#x}, which is not {ALIGNMENT}-byte aligned",
        )
    require(
        size >= 0 and size % ALIGNMENT == 0, "bulk-size", f"a bulk copy of {size} bytes, not a multiple of {ALIGNMENT}"
    )


def _wrapping_inc(old: NDArray[Any], bound: NDArray[Any]) -> NDArray[Any]:
    return np.where(old >= bound, 0, old + 1).astype(old.dtype)


def _wrapping_dec(old: NDArray[Any], bound: NDArray[Any]) -> NDArray[Any]:
    return np.where((old == 0) | (old > bound), bound, old - 1).astype(old.dtype)


def _sum(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    if old.dtype.kind in "iu":
        wrapped: NDArray[Any] = old + new
        return wrapped
    return float_arithmetic.add(old, new, ftz=old.dtype == np.float32)


def _least(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    return np.minimum(old, new) if old.dtype.kind in "iu" else float_arithmetic.minimum(old, new)


def _greatest(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    return np.maximum(old, new) if old.dtype.kind in "iu" else float_arithmetic.maximum(old, new)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": _sum,
    "min": _least,
    "max": _greatest,
    "inc": _wrapping_inc,
    "dec": _wrapping_dec,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduced(operation: str, dtype: str, old: NDArray[np.uint8], new: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Element by element `old operation new`, both [n, element bytes]. Faults: `reduction-type`.

    Additions of f32 flush subnormals, those of f16 and bf16 (`.noftz`) do not; inc and dec wrap at the bound `new`.
    """
    require(
        dtype in REDUCTION_TYPES.get(operation, set()), "reduction-type", f"no bulk reduction `{operation}` of {dtype}"
    )
    kind = np.dtype(_DTYPES[dtype])
    a, b = (np.ascontiguousarray(x).view(kind) for x in (old, new))
    result: NDArray[np.uint8] = np.ascontiguousarray(_OPERATIONS[operation](a, b)).view(np.uint8)
    return result
