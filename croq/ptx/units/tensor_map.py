"""Tensor maps and the boxes that `cp.async.bulk.tensor` moves by them, tile mode.

CUDA driver API, cuTensorMapEncodeTiled (the fields and their limits); PTX ISA, "Tensors" (boxes, strides, out-of-range
fill, swizzle) and "cp.async.bulk.tensor". Dimension 0 is the innermost and contiguous. Not modelled, and refused:
interleaved layouts, im2col, and the element types that convert while they move (TFLOAT32, FLOAT32_FTZ).

Strides need not grow from dimension to dimension: the chip takes any multiple of 16 bytes (measured with a
five-dimensional view whose strides are not monotone), though the documentation writes them as products.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from croq.ptx.units.fault import require
from croq.ptx.units.swizzle import Addresses, pattern_bits, pattern_bytes, swizzled

Bytes = NDArray[np.uint8]
# Reads the elements at byte addresses: (addresses[n], element bytes) -> [n, element bytes].
Gather = Callable[[Addresses, int], Bytes]
# Writes the elements at byte addresses: (addresses[n], [n, element bytes]).
Scatter = Callable[[Addresses, Bytes], None]

ELEMENT_BYTES = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
}  # fmt: skip
# CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA fills floats with a NaN of their type. Which one is not written
# down; the model takes the quiet NaN of all ones after the sign.
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}

RANK_MAX = 5
BOX_MAX = 256
ELEMENT_STRIDE_MAX = 8
DIM_MAX = 2**32
STRIDE_LIMIT = 2**40
# PTX ISA, cp.async.bulk.tensor: the shared address of a box is 128-byte aligned in tile mode.
SHARED_ALIGNMENT = 128
GLOBAL_ALIGNMENT = 16


class Box(NamedTuple):
    """The elements of a box, innermost dimension fastest."""

    addresses: Addresses  # global byte address of each element; meaningless where out of range
    in_range: NDArray[np.bool_] | None  # None: every element is in range


@dataclass(frozen=True)
class TensorMap:
    """An encoded tensor map. Faults of the construction: `tensor-map`.

    `dims` in elements, `strides` in bytes of dimensions 1 and up, `box` in elements before `element_strides` thins
    them out, `swizzle` in bytes (0, 32, 64, 128).
    """

    dtype: str
    base: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0
    fill_nan: bool = False

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.dims))
        _check_tensor(self)
        _check_box(self)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    @functools.cached_property
    def counts(self) -> tuple[int, ...]:
        """The elements that a box holds in each dimension. Dimension 0 takes no element stride (driver API)."""
        thinned = (-(-b // s) for b, s in zip(self.box[1:], self.element_strides[1:], strict=True))
        return (self.box[0], *thinned)

    @functools.cached_property
    def bytes(self) -> int:
        """The bytes of a box in shared memory, which is what one load adds to a transaction count, fill included."""
        size = self.element_bytes
        for count in self.counts:
            size *= count
        return size

    @functools.cached_property
    def _steps(self) -> list[Addresses]:
        """For each dimension, outermost first, the coordinates of a box relative to its corner."""
        strides = (1, *self.element_strides[1:])
        return [np.arange(n, dtype=np.int64) * s for n, s in zip(self.counts[::-1], strides[::-1], strict=True)]

    @functools.cached_property
    def _relative(self) -> Addresses:
        """Byte offset of each element of a box from its corner in global memory, shape `counts` reversed."""
        byte_strides = (self.element_bytes, *self.strides)[::-1]
        return _outer_sum([steps * stride for steps, stride in zip(self._steps, byte_strides, strict=True)])

    @functools.cached_property
    def _linear(self) -> Addresses:
        return np.arange(0, self.bytes, self.element_bytes, dtype=np.int64)

    def elements(self, coordinates: Sequence[int]) -> Box:
        """The elements of the box whose corner is at `coordinates` (dimension 0 first, may be negative).

        Faults: `tensor-coordinates`.
        """
        require(
            len(coordinates) == self.rank,
            "tensor-coordinates",
            f"{len(coordinates)} coordinates for a tensor map of rank {self.rank}",
        )
        byte_strides = (self.element_bytes, *self.strides)
        corner = self.base + sum(c * s for c, s in zip(coordinates, byte_strides, strict=True))
        inside = [
            (steps + c >= 0) & (steps + c < dim)
            for steps, c, dim in zip(self._steps, coordinates[::-1], self.dims[::-1], strict=True)
        ]
        addresses = (self._relative + corner).reshape(-1)
        if all(i.all() for i in inside):
            return Box(addresses, None)
        return Box(addresses, _outer_and(inside).reshape(-1))

    def shared_addresses(self, start: int) -> Addresses:
        """The shared byte address of each element of a box that begins at `start`, swizzled.

        The box is dense in linear addresses; the swizzle permutes chunks by address bits, so a start that is not a
        multiple of the pattern shifts the pattern against the box, as on the chip. Faults: `tensor-alignment`.
        """
        require(
            start % SHARED_ALIGNMENT == 0,
            "tensor-alignment",
            f"a box at shared address {start:#x}, which is not {SHARED_ALIGNMENT}-byte aligned",
        )
        phase = start % max(pattern_bytes(self.swizzle), SHARED_ALIGNMENT)
        return self._placed(phase) + (start - phase)

    @functools.cached_property
    def _placements(self) -> dict[int, Addresses]:
        return {}

    def _placed(self, phase: int) -> Addresses:
        placed = self._placements.get(phase)
        if placed is None:
            placed = self._placements[phase] = swizzled(self._linear + phase, self.swizzle)
        return placed

    @functools.cached_property
    def fill(self) -> Bytes:
        """The bytes of one element that lies outside the tensor."""
        pattern = _NAN[self.dtype] if self.fill_nan else 0
        return np.frombuffer(pattern.to_bytes(self.element_bytes, "little"), np.uint8)

    def load(self, coordinates: Sequence[int], gather: Gather) -> Bytes:
        """The elements of a box, [n, element bytes], fill where it leaves the tensor.

        `gather` is asked for addresses inside the tensor only. They belong to `shared_addresses(start)`, in order.
        """
        addresses, inside = self.elements(coordinates)
        if inside is None:
            return gather(addresses, self.element_bytes)
        data = np.empty((len(addresses), self.element_bytes), np.uint8)
        data[:] = self.fill
        data[inside] = gather(addresses[inside], self.element_bytes)
        return data

    def store(self, coordinates: Sequence[int], data: Bytes, scatter: Scatter) -> None:
        """Writes [n, element bytes] in box order; elements outside the tensor are dropped."""
        addresses, inside = self.elements(coordinates)
        if inside is None:
            scatter(addresses, data)
        else:
            scatter(addresses[inside], data[inside])


def _outer_sum(parts: list[Addresses]) -> Addresses:
    return functools.reduce(lambda a, b: a[..., None] + b, parts)


def _outer_and(parts: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return functools.reduce(lambda a, b: a[..., None] & b, parts)


def _check_tensor(map_: TensorMap) -> None:
    """CUDA driver API, cuTensorMapEncodeTiled: rank, address, dimensions, strides."""
    require(map_.dtype in ELEMENT_BYTES, "tensor-map", f"elements of {map_.dtype} are not modelled")
    rank = len(map_.dims)
    require(1 <= rank <= RANK_MAX, "tensor-map", f"a rank of {rank}, not 1..{RANK_MAX}")
    lengths = (len(map_.strides) + 1, len(map_.box), len(map_.element_strides))
    require(
        lengths == (rank,) * 3, "tensor-map", f"strides, box and element strides do not all have the rank of {rank}"
    )
    require(
        map_.base % GLOBAL_ALIGNMENT == 0,
        "tensor-map",
        f"the tensor begins at {map_.base:#x}, which is not {GLOBAL_ALIGNMENT}-byte aligned",
    )
    for axis, dim in enumerate(map_.dims):
        require(1 <= dim <= DIM_MAX, "tensor-map", f"dimension {axis} is {dim}, not 1..2^32")
    for axis, stride in enumerate(map_.strides, 1):
        require(
            stride % GLOBAL_ALIGNMENT == 0 and 0 <= stride < STRIDE_LIMIT,
            "tensor-map",
            f"the stride of dimension {axis} is {stride} bytes, not a multiple of {GLOBAL_ALIGNMENT} below 2^40",
        )
    require(
        not map_.fill_nan or map_.dtype in _NAN, "tensor-map", f"a fill of NaN for {map_.dtype}, which is no float type"
    )


def _check_box(map_: TensorMap) -> None:
    """CUDA driver API, cuTensorMapEncodeTiled: box, element strides, swizzle."""
    for axis, extent in enumerate(map_.box):
        require(1 <= extent <= BOX_MAX, "tensor-map", f"the box has {extent} elements in dimension {axis}, not 1..256")
    for axis, step in enumerate(map_.element_strides):
        require(
            1 <= step <= ELEMENT_STRIDE_MAX, "tensor-map", f"the element stride of dimension {axis} is {step}, not 1..8"
        )
    inner = map_.box[0] * map_.element_bytes
    require(
        inner % GLOBAL_ALIGNMENT == 0,
        "tensor-map",
        f"the box is {inner} bytes wide, not a multiple of {GLOBAL_ALIGNMENT}",
    )
    if pattern_bits(map_.swizzle):
        require(
            inner <= map_.swizzle,
            "tensor-map",
            f"the box is {inner} bytes wide, more than the {map_.swizzle} bytes of its swizzle",
        )
