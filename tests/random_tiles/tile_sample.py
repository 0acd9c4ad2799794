"""What the generators of this folder draw: a program, its arguments, and what must be in its outputs.

Inputs are small integers, so that every product and sum is exact in every type used: the program's lowered form, the
PTX made of it and the chip must agree in every bit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TYPES: dict[str, Any] = {
    "f32": np.float32, "tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32,
    "s16": np.int16, "u8": np.uint8, "f8_e4m3": ml_dtypes.float8_e4m3fn, "f8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
BYTES = {name: np.dtype(dtype).itemsize for name, dtype in TYPES.items()}
POISON = 77  # of integer outputs; floating ones are NaN


@dataclass(frozen=True)
class Sample:
    """`arrays`: arguments by name in the order of parameters, outputs poisoned; `want`: the outputs' values."""

    seed: int
    family: str
    text: str
    arrays: Mapping[str, Array]
    want: Mapping[str, Array]

    def fresh(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self.arrays.items()}

    def wrong(self, arrays: Mapping[str, Array], who: str) -> str | None:
        """The first output that differs in a bit from what it must be (a zero's sign apart), in words."""
        for name, want in self.want.items():
            got = np.asarray(arrays[name].astype(np.float64))
            expected = np.asarray(want.astype(np.float64))
            bad = np.argwhere(~((got == expected) | (np.isnan(got) & np.isnan(expected))))
            if len(bad):
                first = tuple(int(i) for i in bad[0])
                what = f"{len(bad)} of {want.size} elements of `{name}`"
                return f"{who}: {what} are wrong, first {list(first)}: {got[first]!r}, not {expected[first]!r}"
        return None


def integers(rng: random.Random, shape: tuple[int, ...], element: str, low: int = -2, high: int = 3) -> Array:
    drawn = np.random.default_rng(rng.getrandbits(32)).integers(low, high, shape)
    return np.abs(drawn).astype(TYPES[element]) if element.startswith("u") else drawn.astype(TYPES[element])


def poisoned(shape: tuple[int, ...], element: str) -> Array:
    dtype = np.dtype(TYPES[element])
    return np.full(shape, POISON if dtype.kind in "iu" else np.nan).astype(dtype)


def shape_text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def swizzle_text(rng: random.Random, row_bytes: int, widths: tuple[int, ...] = (32, 64, 128)) -> str:
    """`.swiz<N>` of a width that rows allow, or nothing."""
    fitting = [width for width in widths if row_bytes % width == 0]
    return f".swiz<{rng.choice(fitting)}>" if fitting and rng.random() < 0.75 else ""
