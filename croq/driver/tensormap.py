"""Tensor maps: the 128-byte objects that tell TMA how a global array lies and which box to move.

Every limit that the driver documents is checked here first, so that the message names the array and the rule; the
driver itself answers all of them with one `CUDA_ERROR_INVALID_VALUE`.

Dimensions are listed innermost first, as TMA counts its coordinates.

Source: CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from croq.diagnostics import Diagnostic, LaunchError, make
from croq.driver.arrays import ELEMENT_BYTES
from croq.driver.bindings import driver
from croq.driver.errors import check
from croq.target import cuda

L2Promotion = Literal[0, 64, 128, 256]

_DATA_TYPES = {
    "bf16": "BFLOAT16",
    "f16": "FLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "tf32": "TFLOAT32",
    "f8_e4m3": "UINT8",  # TMA moves bytes; it has no 8-bit float
    "f8_e5m2": "UINT8",
    "bool": "UINT8",
    "u8": "UINT8",
    "s8": "UINT8",
    "u16": "UINT16",
    "s16": "UINT16",
    "u32": "UINT32",
    "s32": "INT32",
    "u64": "UINT64",
    "s64": "INT64",
}
_BYTES = {**ELEMENT_BYTES, "tf32": 4}


@dataclass(frozen=True)
class TensorMapSpec:
    """What is known at compile time about a tensor map; hashable.

    `box`: extents of the box in elements, innermost first, one for each dimension. `swizzle`: 0, 32, 64 or 128 bytes.
    `element_strides`: None means all 1. Elements out of range read as zero, or as NaN with `fill_nan`.
    """

    dtype: str
    box: tuple[int, ...]
    swizzle: int = 0
    l2_promotion: L2Promotion = 128
    element_strides: tuple[int, ...] | None = None
    fill_nan: bool = False

    @property
    def rank(self) -> int:
        return len(self.box)

    @property
    def elem_bytes(self) -> int:
        return _BYTES[self.dtype]


def spec_faults(spec: TensorMapSpec, name: str, axes: Sequence[str] = ()) -> Iterator[Diagnostic]:
    """What is wrong with a spec whatever the array: rank, box, swizzle, element strides (E-4010, E-4011).

    `axes`: what the array's owner calls the map's dimensions, innermost first.
    """
    if not 1 <= spec.rank <= cuda.TMA_MAX_RANK:
        yield _fault("E-4010", name, f"has {spec.rank} dimensions; TMA takes 1 to {cuda.TMA_MAX_RANK}")
        return
    for i, extent in enumerate(spec.box):
        if not 1 <= extent <= cuda.TMA_MAX_BOX:
            yield _fault("E-4011", name, f"has a box extent of {extent} in {_axis(axes, i)}; TMA takes 1 to 256")
    inner = spec.box[0] * spec.elem_bytes
    if inner % cuda.TMA_INNER_MULTIPLE:
        yield _fault("E-4011", name, f"has a box {inner} bytes wide, which is no multiple of 16")
    if spec.swizzle and spec.swizzle not in cuda.TMA_SWIZZLES:
        yield _fault("E-4011", name, f"asks for a swizzle of {spec.swizzle} bytes; there are 32, 64 and 128")
    elif spec.swizzle and inner > spec.swizzle:
        yield _fault("E-4011", name, f"has a box {inner} bytes wide, which exceeds its {spec.swizzle}-byte swizzle")
    strides = spec.element_strides
    if strides is not None and len(strides) != spec.rank:
        yield _fault("E-4011", name, f"has {len(strides)} element strides for {spec.rank} dimensions")
    for i, stride in enumerate(strides or ()):
        if not 1 <= stride <= cuda.TMA_MAX_ELEMENT_STRIDE:
            yield _fault("E-4011", name, f"has an element stride of {stride} in {_axis(axes, i)}; TMA takes 1 to 8")


def array_faults(
    spec: TensorMapSpec,
    pointer: int,
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    name: str,
    axes: Sequence[str] = (),
) -> Iterator[Diagnostic]:
    """What is wrong with an array for a spec: address, extents, strides (E-4012 to E-4014).

    `dims` in elements, innermost first; `strides` in bytes, of all dimensions but the innermost; `axes` as above.
    """
    if len(dims) != spec.rank or len(strides) != spec.rank - 1:
        what = f"has {len(dims)} extents and {len(strides)} strides for a map of {spec.rank} dimensions"
        yield _fault("E-4010", name, what)
        return
    if pointer % cuda.TMA_GLOBAL_ALIGNMENT:
        hint = "TMA needs 16-byte aligned arrays: pass a copy, or a view that starts elsewhere"
        yield _fault("E-4012", name, f"starts at address {pointer:#x}, which is not 16-byte aligned", hint)
    for i, extent in enumerate(dims):
        if not 1 <= extent <= cuda.TMA_MAX_EXTENT:
            yield _fault("E-4013", name, f"has an extent of {extent} in {_axis(axes, i)}; TMA takes 1 to 2^32")
    for i, stride in enumerate(strides, start=1):
        what = f"has a stride of {stride} bytes in {_axis(axes, i)}"
        if not 0 < stride < cuda.TMA_MAX_STRIDE:
            yield _fault("E-4014", name, f"{what}; TMA takes 16 to 2^40 - 16", "pass a contiguous copy")
        elif stride % cuda.TMA_STRIDE_MULTIPLE:
            hint = "pad the rows to a multiple of 16 bytes, or copy the array"
            yield _fault("E-4014", name, f"{what}, no multiple of 16", hint)


def _axis(axes: Sequence[str], number: int) -> str:
    return axes[number] if number < len(axes) else f"dimension {number} of the map, innermost first"


def encode(
    spec: TensorMapSpec, pointer: int, dims: tuple[int, ...], strides: tuple[int, ...], name: str = "array"
) -> bytes:
    """The 128 bytes of the tensor map of an array, checked. Needs a current context of
    the device (`device.ensure_context`).

    `pointer`: device address. `dims`: extents in elements, innermost first. `strides`: bytes, of all dimensions but the
    innermost, whose stride is one element. Equal arguments give a remembered result.
    Raises LaunchError E-4010..E-4014, EnvironmentFault when there is no driver.
    """
    faults = (*spec_faults(spec, name), *array_faults(spec, pointer, dims, strides, name))
    if faults:
        raise LaunchError(faults)
    return _encode(spec, pointer, dims, strides)


_NO_STRIDES = (16,)  # of a map of one dimension: the driver reads none, but refuses a null pointer


@lru_cache(maxsize=1024)
def _encode(spec: TensorMapSpec, pointer: int, dims: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    cu = driver()
    result = cu.cuTensorMapEncodeTiled(
        getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_DATA_TYPES[spec.dtype]}"),
        spec.rank,
        pointer,
        [cu.cuuint64_t(n) for n in dims],
        [cu.cuuint64_t(n) for n in strides or _NO_STRIDES],
        [cu.cuuint32_t(n) for n in spec.box],
        [cu.cuuint32_t(n) for n in (spec.element_strides or (1,) * spec.rank)],
        cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        _named(cu.CUtensorMapSwizzle, "CU_TENSOR_MAP_SWIZZLE", spec.swizzle),
        _named(cu.CUtensorMapL2promotion, "CU_TENSOR_MAP_L2_PROMOTION", spec.l2_promotion, "L2_"),
        _fill(cu, spec.fill_nan),
    )
    tensor_map = check(result, "cuTensorMapEncodeTiled")
    return b"".join(int(word).to_bytes(8, "little") for word in tensor_map.opaque)


def _named(enum: Any, prefix: str, width: int, infix: str = "") -> Any:
    return getattr(enum, f"{prefix}_{infix}{width}B" if width else f"{prefix}_NONE")


def _fill(cu: Any, fill_nan: bool) -> Any:
    kind = "NAN_REQUEST_ZERO_FMA" if fill_nan else "NONE"
    return getattr(cu.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{kind}")


def _fault(code: str, name: str, what: str, hint: str | None = None) -> Diagnostic:
    return make(code, None, f"argument `{name}` {what}", hint=hint)
