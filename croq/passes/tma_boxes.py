"""Which TMA instructions move a tile, and the tensor maps behind them. The rules are in `moves` (T1 to T3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from croq.diagnostics import Sink
from croq.ir.core import Op, Value
from croq.ir.objects import Buffer, Kernel, Param, TensorMap, View
from croq.ir.rewrite import Builder
from croq.ir.types import BYTES
from croq.passes.values import divides, multiple_of
from croq.sema.symbolic import Dim
from croq.target.sm90.limits import TMA_INNER_BOX_MULTIPLE, TMA_MAX_BOX_DIM, TMA_MAX_RANK

SHARED_ALIGNMENT = 128  # bytes, of what an instruction reads or writes in shared memory
MAX_INSTRUCTIONS = 64  # a tile


@dataclass
class Part:
    """One TMA instruction: its box in the parameter and the part of the tile that it moves."""

    map: TensorMap
    coords: tuple[Value, ...]
    tile: View


class Boxes:
    """Of one kernel: tiles of one shape share a tensor map."""

    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.maps: dict[tuple[object, ...], TensorMap] = {}

    def parts(self, outer: View, tile: View, op: Op, build: Builder) -> list[Part]:
        """The instructions for one tile: `outer` in a parameter, `tile` in a buffer. None of them after an error."""
        cutter = _Cutter(outer, tile)
        problem = cutter.undescribable() or cutter.cut()
        if problem is not None:
            code, message, hint = problem
            self.sink.error(code, op.span, message, hint=hint)
            return []
        shape = _by_outer_dim(outer, cutter.steps)
        tensor_map = self._map(outer, shape, cutter)
        made = [self._part(outer, tile, tensor_map, cutter, at, build) for at in cutter.origins()]
        tensor_map.loads_per_tile = max(tensor_map.loads_per_tile, len(made))
        return made

    def _part(
        self, outer: View, tile: View, tensor_map: TensorMap, cutter: _Cutter, at: tuple[int, ...], build: Builder
    ) -> Part:
        coords = _coords(build, outer, tensor_map, _by_outer_dim(outer, at, missing=0))
        offsets, extents = list(tile.offsets), list(tile.extents)
        for dim, start, step in zip(tile.kept, at, cutter.steps, strict=True):
            offsets[dim], extents[dim] = _plus(build, offsets[dim], start), Dim.of(step)
        return Part(tensor_map, coords, View(tile.root, tile.slot, tuple(offsets), tuple(extents), tile.kept))

    def _map(self, outer: View, box: dict[int, int], cutter: _Cutter) -> TensorMap:
        """Dimensions innermost first; the slab dimension follows the dimensions of the tile, as the buffer has it."""
        param = outer.root
        assert isinstance(param, Param)
        shape = param.shape or ()
        kept = list(reversed(outer.kept))
        axes = [*kept, *(d for d in reversed(range(len(shape))) if d not in outer.kept)]
        dims = [shape[d] for d in axes]
        extents = [box[d] for d in axes]
        split = cutter.slab if cutter.merged else None
        if split is not None:
            place = len(kept)
            axes.insert(place, len(shape) - 1)
            dims.insert(place, shape[-1].div(split))
            extents.insert(place, extents[0] // split)
            dims[0], extents[0] = Dim.of(split), split
        swizzle = cutter.buffer.swizzle
        key = (param, tuple(extents), tuple(axes), split, swizzle)
        if key not in self.maps:
            why = "one instruction a tile: slabs are a dimension of the map" if split else cutter.why
            name = self._fresh(f"{param.name}_map")
            made = TensorMap(name, param, tuple(extents), tuple(axes), split, tuple(dims), swizzle, why=why)
            self.maps[key] = made
            self.kernel.tensor_maps.append(made)
        return self.maps[key]

    def _fresh(self, wanted: str) -> str:
        taken = {m.name for m in self.kernel.tensor_maps}
        name, n = wanted, 1
        while name in taken:
            n += 1
            name = f"{wanted}_{n}"
        return name


_Problem = tuple[str, str, str]  # code, message, remedy


class _Cutter:
    """Cuts a tile into boxes: `steps[k]` elements along the tile's dimension k, `merged` slabs by one instruction.

    An instruction writes its box without gaps, in the order of its dimensions; so it spans a dimension only where
    everything inside that dimension is the whole width of the buffer.
    """

    def __init__(self, outer: View, tile: View) -> None:
        assert isinstance(tile.root, Buffer)
        self.outer, self.tile, self.buffer = outer, tile, tile.root
        self.size = BYTES[tile.root.type]
        self.extents = [tile.extents[d].known or 0 for d in tile.kept]
        self.cols = self.extents[-1] if self.extents else 0
        self.slab = tile.root.swizzle // self.size if tile.root.swizzle else self.cols
        self.steps: list[int] = []
        self.merged = False
        self.why = "one instruction a tile"

    def undescribable(self) -> _Problem | None:
        """What keeps any instruction from moving such a tile."""
        rank = len(self.outer.extents)
        hint = "use `dma.copy` for this tile, or move its contiguous dimension last"
        if any(e.known is None for e in (*self.outer.shape, *self.tile.shape)):
            hint = "use macros or literals as extents of `subspan`"
            return "E-830", "the extents of a TMA tile must be constants", hint
        if rank > TMA_MAX_RANK:
            message = f"`{self.outer.root.name}` has {rank} dimensions; a tensor map has at most {TMA_MAX_RANK}"
            return "E-831", message, hint
        if self.outer.kept[-1:] != (rank - 1,) or self.tile.kept[-1:] != (len(self.buffer.shape) - 1,):
            return "E-831", "the innermost dimension of the tile is not contiguous in memory", hint
        if self.cols % self.slab or not divides(self.slab if self.buffer.swizzle else 1, self.tile.offsets[-1]):
            name, slab = self.buffer.name, self.slab
            message = f"the tile cuts through a slab of `{name}`: {slab} columns are swizzled together"
            return "E-831", message, f"cut `{name}` at multiples of {slab} columns, or give it a narrower `.swiz<N>`"
        return None

    def cut(self) -> _Problem | None:
        size, cols, slab = self.size, self.cols, self.slab
        row_bytes = self.buffer.swizzle or self.buffer.cols * size
        inner = slab if self.buffer.swizzle else _step(cols, size, dense=True, unit=TMA_INNER_BOX_MULTIPLE)
        if not inner or inner * size % TMA_INNER_BOX_MULTIPLE or inner > TMA_MAX_BOX_DIM:
            note = f"its bytes must be a multiple of {TMA_INNER_BOX_MULTIPLE}"
            message = f"a row of {cols} elements of {size} bytes cannot be the inner dimension of a TMA box: {note}"
            return "E-831", message, "choose another inner extent"
        rows: list[int] = []
        dense = bool(self.buffer.swizzle) or inner == self.buffer.cols
        stride = row_bytes
        leading = dict(zip(self.tile.kept[:-1], self.extents[:-1], strict=True))
        for dim in reversed(range(len(self.buffer.shape) - 1)):
            extent = leading.get(dim, 1)
            step = _step(extent, stride, dense)
            if dim in leading:
                rows.insert(0, step)
            dense = dense and step == self.buffer.shape[dim]
            stride *= self.buffer.shape[dim]
        self.merged = slab < cols and self._mergeable(rows)
        self.steps = [*rows, cols if self.merged else inner]
        if rows != self.extents[:-1] or inner < slab:
            self.why = f"{self._count()} instructions a tile: no box without gaps is larger"
        elif slab < cols:
            self.why = "one instruction a slab"
        return self._misplaced()

    def _mergeable(self, rows: list[int]) -> bool:
        """T2: several slabs by one instruction."""
        inner = self.outer.root.shape[-1] if self.outer.root.shape else None
        extent = inner.known if isinstance(inner, Dim) else inner
        whole = prod(self.extents[:-1]) == self.buffer.rows and rows == self.extents[:-1]
        return (
            extent is not None
            and extent % self.slab == 0
            and len(self.outer.extents) < TMA_MAX_RANK
            and whole
            and self.cols // self.slab <= TMA_MAX_BOX_DIM
            and divides(self.slab, self.outer.offsets[-1])
        )

    def _misplaced(self) -> _Problem | None:
        """T3: where in shared memory the instructions' parts begin."""
        name = self.buffer.name
        if self._alignment() % SHARED_ALIGNMENT:
            message = f"the tile of `{name}` may start where no TMA can: at no multiple of {SHARED_ALIGNMENT} bytes"
            return "E-831", message, "use `dma.copy` for it, or make the rows in front of it fill such multiples"
        if self._count() > MAX_INSTRUCTIONS:
            message = f"the tile of `{name}` would take {self._count()} TMA instructions: it is not contiguous there"
            return "E-831", message, "let it span whole rows of the buffer, or let `.swiz<N>` split rows into slabs"
        return None

    def _alignment(self) -> int:
        """A number of bytes that divides the start of every part."""
        stride = self.buffer.swizzle or self.buffer.cols * self.size
        found = 0
        steps = dict(zip(self.tile.kept, self.steps, strict=True))
        extents = dict(zip(self.tile.kept, self.extents, strict=True))
        for dim in reversed(range(len(self.buffer.shape) - 1)):
            found = gcd(found, multiple_of(self.tile.offsets[dim]) * stride)
            if steps.get(dim, 1) < extents.get(dim, 1):
                found = gcd(found, steps[dim] * stride)
            stride *= self.buffer.shape[dim]
        if self.buffer.swizzle:
            return gcd(found, self.buffer.rows * self.buffer.swizzle) if self.buffer.cols > self.slab else found
        found = gcd(found, multiple_of(self.tile.offsets[-1]) * self.size)
        return gcd(found, self.steps[-1] * self.size) if self.steps[-1] < self.cols else found

    def _count(self) -> int:
        return prod(extent // step for extent, step in zip(self.extents, self.steps, strict=True))

    def origins(self) -> Iterator[tuple[int, ...]]:
        """Where each instruction's part begins in the tile, along each of the tile's dimensions."""
        yield from product(*(range(0, extent, step) for extent, step in zip(self.extents, self.steps, strict=True)))


def _step(extent: int, stride: int, dense: bool, unit: int = 1) -> int:
    """The largest divisor of the extent that a box dimension may have, with parts that start where they may; 0: none.

    `stride`: bytes from one element of the dimension to the next; a box of `unit` bytes' multiples.
    """
    if not dense:
        return 1
    for step in range(min(extent, TMA_MAX_BOX_DIM), 0, -1):
        if extent % step or step * stride % unit:
            continue
        if step == extent or step * stride % SHARED_ALIGNMENT == 0:
            return step
    return 0 if unit > 1 else 1


def _by_outer_dim(outer: View, numbers: tuple[int, ...] | list[int], missing: int = 1) -> dict[int, int]:
    """Numbers along the tile's dimensions as numbers along the parameter's."""
    return dict.fromkeys(range(len(outer.extents)), missing) | dict(zip(outer.kept, numbers, strict=True))


def _coords(build: Builder, outer: View, tensor_map: TensorMap, at: dict[int, int]) -> tuple[Value, ...]:
    coords: list[Value | int] = []
    last = len(outer.extents) - 1
    for place, axis in enumerate(tensor_map.axes):
        offset = _plus(build, outer.offsets[axis], at[axis])
        if axis == last and tensor_map.split is not None:
            offset = 0 if place == 0 else _divided(build, offset, tensor_map.split)
        coords.append(offset)
    return tuple(build.const("s32", c) if isinstance(c, int) else build.cast(c, "s32") for c in coords)


def _plus(build: Builder, offset: Value | int, amount: int) -> Value | int:
    if isinstance(offset, int):
        return offset + amount
    return build.binary("add", offset, amount)


def _divided(build: Builder, offset: Value | int, amount: int) -> Value | int:
    if isinstance(offset, int):
        return offset // amount
    return build.binary("div", offset, amount)
