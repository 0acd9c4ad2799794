"""What the catalogue is made of.

A program is one kernel; a variant is one set of macros, with sizes to simulate (small: a second or two) and facts of
the plan. `large` sizes are for a GPU. Extents are integers or expressions over the sizes, macros and `constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np

from tests.programs.references import Array, Outputs

NUMPY_TYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32, "u32": np.uint32,
    "s16": np.int16, "s8": np.int8, "u8": np.uint8, "tf32": np.float32, "f8_e4m3": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
Role = Literal["in", "out", "inout", "scalar"]
Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class Argument:
    """`shape`: extents; `make(rng, names)` draws it where uniform [-1, 1] (integers: the whole range) will not do."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    role: Role
    value: Any = None
    make: Callable[[np.random.Generator, Mapping[str, Any]], Array] | None = None


@dataclass(frozen=True)
class Variant:
    """`plan`: facts as tests/cases has them: events, wait_depths, registers, swizzles, layouts, loads."""

    name: str = ""
    defines: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[Sizes, ...] = ()
    large: Sizes | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """`reference` takes inputs and scalars by name and gives the outputs; NaN where an output must stay as it was."""

    file: str
    args: tuple[Argument, ...]
    reference: Callable[..., Outputs]
    tolerance: tuple[float, float]  # absolute, relative
    variants: tuple[Variant, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    kernel: str = ""

    @property
    def name(self) -> str:
        return self.kernel or self.file.removesuffix(".co")


def given(name: str, dtype: str, *shape: int | str, **more: Any) -> Argument:
    return Argument(name, dtype, shape, "in", **more)


def result(name: str, dtype: str, *shape: int | str) -> Argument:
    return Argument(name, dtype, shape, "out")


def scalar(name: str, dtype: str, value: Any) -> Argument:
    """A string is looked up among the sizes."""
    return Argument(name, dtype, None, "scalar", value)


def operands(dtype: str, out: str = "") -> tuple[Argument, ...]:
    return given("a", dtype, "M", "K"), given("b", dtype, "N", "K"), result("c", out or dtype, "M", "N")


def mnk(m: int, n: int, k: int, **more: Any) -> Sizes:
    return {"M": m, "N": n, "K": k, **more}


BF16, F16, F32 = (1e-2, 1e-2), (4e-3, 4e-3), (2e-3, 1e-3)
EXACT = (0.0, 0.0)
LARGE = mnk(2048, 1536, 1024)


def ring(slots: int, tx: int) -> dict[str, Any]:
    return dict(lowering="mbarrier", slots=slots, arrivals=1, tx_bytes=tx)
