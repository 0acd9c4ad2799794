"""The registers of all threads of a CTA, and the values that instructions read as if they were registers.

Each is an array of one element a thread. A constant is one too, without memory behind it, so that no instruction has to
tell registers from constants. PTX ISA, "Operands", "Special Registers".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from croq.ptx.syntax import WIDTHS
from croq.target.cuda import WARP

Array = np.ndarray[Any, Any]
Dim3 = tuple[int, int, int]

DTYPES: Mapping[str, Any] = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16,
    "s16": np.int16, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "b32": np.uint32, "u32": np.uint32,
    "s32": np.int32, "f32": np.float32, "f16x2": np.uint32, "bf16x2": np.uint32, "tf32": np.float32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
}  # fmt: skip
_STORAGE = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
CLOCKS = {"%clock": "u32", "%clock_hi": "u32", "%clock64": "u64", "%globaltimer": "u64", "%globaltimer_lo": "u32",
          "%globaltimer_hi": "u32"}  # fmt: skip


def signed(kind: str) -> bool:
    return kind[0] == "s"


def is_float(kind: str) -> bool:
    return kind[0] == "f" or kind in ("bf16", "tf32", "bf16x2")


def width(kind: str) -> int:
    return WIDTHS[kind]


def storage(kind: str, threads: int) -> Array:
    """An array for a register of a type. Its contents mean nothing until they are written."""
    return np.zeros(threads, _STORAGE[WIDTHS[kind]])


def constant(value: Any, kind: str, threads: int) -> Array:
    """`value` in every thread; an integer wraps at the type's width."""
    dtype = np.dtype(DTYPES[kind])
    if kind == "pred":
        one = np.array(bool(value))
    elif isinstance(value, int) and not is_float(kind):
        one = np.array(value & (2 ** WIDTHS[kind] - 1), _STORAGE[WIDTHS[kind]]).view(dtype)
    else:
        one = np.array(value, dtype)
    return np.broadcast_to(one, (threads,))


def narrowed(row: Array, bits: int) -> Array:
    """The low `bits` of a wider register, in place."""
    parts = row.dtype.itemsize * 8 // bits
    if parts == 1 or bits == 1:
        return row
    return np.ascontiguousarray(row).view(_STORAGE[bits]).reshape(len(row), parts)[:, 0]


class Specials:
    """`%tid.x` and the like; those of the block change with `enter`."""

    def __init__(self, block: Dim3, grid: Dim3, shared_bytes: tuple[int, int]) -> None:
        self.threads = block[0] * block[1] * block[2]
        self.rows: dict[str, Array] = {}
        linear = np.arange(self.threads, dtype=np.uint32)
        lane = linear % WARP
        bit = np.uint32(1) << lane
        one = {
            "%laneid": lane,
            "%warpid": linear // WARP,
            "%nwarpid": -(-self.threads // WARP),
            "%lanemask_eq": bit,
            "%lanemask_lt": bit - np.uint32(1),
            "%lanemask_le": bit | (bit - np.uint32(1)),
            "%lanemask_gt": ~(bit | (bit - np.uint32(1))),
            "%lanemask_ge": ~(bit - np.uint32(1)),
            "%smid": 0,
            "%nsmid": 1,
            "%gridid": 0,
            "%cluster_ctarank": 0,
            "%cluster_nctarank": 1,
            "%dynamic_smem_size": shared_bytes[0],
            "%total_smem_size": sum(shared_bytes),
        }
        for name, value in one.items():
            self._set(name, value)
        self._triple("%tid", (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1])))
        self._triple("%ntid", block)
        self._triple("%nctaid", grid)
        self._triple("%nclusterid", grid)
        self._triple("%cluster_ctaid", (0, 0, 0))
        self._triple("%cluster_nctaid", (1, 1, 1))
        self.enter((0, 0, 0))

    def enter(self, block: Dim3) -> None:
        """From here on the block is `block`."""
        self._triple("%ctaid", block)
        self._triple("%clusterid", block)

    def _triple(self, name: str, values: Any) -> None:
        for axis, value in zip("xyz", values, strict=True):
            self._set(f"{name}.{axis}", value)

    def _set(self, name: str, value: Any) -> None:
        row = self.rows.setdefault(name, np.zeros(self.threads, np.uint32))
        row[:] = value
