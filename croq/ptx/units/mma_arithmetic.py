"""The arithmetic of tensor cores: elements as bytes, and one multiply-and-accumulate of an instruction.

PTX ISA, "mma" and "wgmma.mma_async", precision and rounding: products are exact to the stated precision, the sum is
kept "with at least single precision" and its order, its rounding and subnormal inputs are *unspecified*. The model is
the mathematically plain member of what the ISA allows: products exact, the sum of an instruction (accumulator
included) in float64, rounded once, to nearest even, to the accumulator's type; subnormals are kept. The chip aligns the
products of an instruction to the largest of them and truncates, so its sum differs from the model's in the last bits
unless every partial sum is exact (small integers, powers of two); FP8 products are aligned to fewer bits yet.
Integers are exact: they wrap, or saturate with `.satfinite`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from croq.ptx.units.fault import require

Values = NDArray[Any]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
FLOATS = ("f16", "bf16", "tf32", "e4m3", "e5m2")
FP8 = ("e4m3", "e5m2")
INTEGERS = ("s8", "u8")
CANONICAL_NAN = np.uint32(0x7FFFFFFF)
CANONICAL_NAN_F16 = np.uint16(0x7FFF)

_TF32_MASK = np.uint32(0xFFFFE000)  # PTX ISA, wgmma.mma_async: the low 13 bits of a tf32 operand are cut off
_FP8_VALUES: dict[str, NDArray[np.float64]] = {
    "e4m3": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64),
    "e5m2": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float64),
}


def decode(dtype: str, data: Bytes) -> NDArray[np.float64]:
    """[.., bytes] of packed elements to [.., elements], each exactly its value. b1 gives 0 and 1, low bit first."""
    if dtype in _FP8_VALUES:
        return np.take(_FP8_VALUES[dtype], data)
    if dtype == "b1":
        return np.unpackbits(data, axis=-1, bitorder="little").astype(np.float64)
    data = np.ascontiguousarray(data)
    if dtype == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "tf32":
        return (data.view(np.uint32) & _TF32_MASK).view(np.float32).astype(np.float64)
    plain = {"f16": np.float16, "s8": np.int8, "u8": np.uint8}[dtype]
    return data.view(plain).astype(np.float64)


def check_types(a: str, b: str, accumulator: str) -> None:
    """The combinations that `mma.sync` and `wgmma.mma_async` share on sm_90a. Faults: `mma-type`."""
    both_of = {name: group for group in (FP8, INTEGERS, ("f16",), ("bf16",), ("tf32",), ("b1",)) for name in group}
    group = both_of.get(a, ())
    sums = ("s32",) if a in INTEGERS or a == "b1" else ("f32",) if a in ("bf16", "tf32") else ("f16", "f32")
    require(b in group and accumulator in sums, "mma-type", f"no MMA of {a} and {b} into {accumulator}")


def accumulated(dtype: str, a: Values, b: Values, c: Values | None, satfinite: bool = False) -> Values:
    """a[m, k] @ b[k, n] (+ c[m, n]) as an accumulator of `dtype`: int32, float32 or float16 [m, n]."""
    with np.errstate(all="ignore"):
        total = a @ b  # integer sums are below 2^53, and so exact
        if c is not None:
            total += c
        if dtype == "s32":
            whole = total.astype(np.int64)
            return np.clip(whole, -(2**31), 2**31 - 1).astype(np.int32) if satfinite else whole.astype(np.int32)
        if dtype == "f16":
            half = total.astype(np.float16)
            half.view(np.uint16)[np.isnan(half)] = CANONICAL_NAN_F16
            return half
        single = total.astype(np.float32)
        single.view(np.uint32)[np.isnan(single)] = CANONICAL_NAN
        return single
