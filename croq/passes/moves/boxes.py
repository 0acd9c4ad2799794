"""Which TMA instructions move a tile, and the tensor maps behind them. The rules are in `moves` (T1 to T3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from croq.diagnostics import Sink
from croq.ir.core import Op, Value
from croq.ir.objects import Buffer, Kernel, Param, Start, TensorMap, View
from croq.ir.rewrite import Builder
from croq.ir.types import BYTES
from croq.passes.analysis.values import Starting, divides, multiple_of, quotient
from croq.sema.symbolic import Dim
from croq.target.cuda import TMA_INNER_MULTIPLE, TMA_MAX_BOX, TMA_MAX_RANK, TMA_SHARED_ALIGNMENT

MAX_INSTRUCTIONS = 64  # a tile


@dataclass
class Part:
    """One TMA instruction: its box in the parameter and the part of the tile that it moves."""

    map: TensorMap
    coords: tuple[Value, ...]
    tile: View
    start: Start


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
        made = [self._part(outer, tile, cutter, box, build) for box in product(*cutter.pieces)]
        for part in made:
            part.map.loads_per_tile = max(part.map.loads_per_tile, len(made))
        return made

    def _part(self, outer: View, tile: View, cutter: _Cutter, box: tuple[_Piece, ...], build: Builder) -> Part:
        tensor_map = self._map(outer, _by_outer_dim(outer, [length for _, length in box], 1), cutter)
        coords = _coords(build, outer, tensor_map, _by_outer_dim(outer, [start for start, _ in box], 0))
        offsets, extents = list(tile.offsets), list(tile.extents)
        for dim, (start, length) in zip(tile.kept, box, strict=True):
            offsets[dim], extents[dim] = _plus(build, offsets[dim], start), Dim.of(length)
        part = View(tile.root, tile.slot, tuple(offsets), tuple(extents), tile.kept)
        return Part(tensor_map, coords, part, _start(build, part, cutter.buffer))

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
            why = "one instruction a tile: slabs are a dimension of the map (moves.T2)" if split else cutter.why
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
_Piece = tuple[int, int]  # start and length along one dimension of the tile


class _Cutter:
    """Cuts a tile into boxes: the tile's dimension k into `pieces[k]`; `merged`: all slabs by one instruction.

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
        self.pieces: list[list[_Piece]] = []
        self.merged = False
        self.why = "one instruction a tile (moves.T2)"

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
        size, swizzle = self.size, self.buffer.swizzle
        inner = _cut(self.slab, size, dense=True, unit=TMA_INNER_MULTIPLE)
        if not inner:
            message = f"no TMA box holds a row of {self.slab} elements of {size} bytes, or even parts of it"
            unit, most = TMA_INNER_MULTIPLE, TMA_MAX_BOX
            hint = f"let rows have a multiple of {unit} bytes, those wider than {most} elements of 128"
            return "E-831", message, hint
        rows: list[list[_Piece]] = []
        dense = bool(swizzle) or (len(inner) == 1 and self.cols == self.buffer.cols)
        stride = swizzle or self.buffer.cols * size
        leading = dict(zip(self.tile.kept[:-1], self.extents[:-1], strict=True))
        for dim in reversed(range(len(self.buffer.shape) - 1)):
            pieces = _cut(leading.get(dim, 1), stride, dense)
            if dim in leading:
                rows.insert(0, pieces)
            dense = dense and pieces == [(0, self.buffer.shape[dim])]
            stride *= self.buffer.shape[dim]
        uncut = all(len(pieces) == 1 for pieces in rows)
        self.merged = self.slab < self.cols and uncut and self._mergeable()
        if self.merged:
            inner = [(0, self.cols)]
        elif swizzle:
            inner = [(start, self.slab) for start in range(0, self.cols, self.slab)]
        self.pieces = [*rows, inner]
        if not uncut or (len(inner) > 1 and not swizzle):
            self.why = f"{self._count()} instructions a tile: no box without gaps is larger (moves.T3)"
        elif len(inner) > 1:
            self.why = "one instruction a slab (moves.T2)"
        return self._misplaced()

    def _mergeable(self) -> bool:
        """T2: several slabs by one instruction."""
        inner = self.outer.root.shape[-1] if self.outer.root.shape else None
        extent = inner.known if isinstance(inner, Dim) else inner
        whole = prod(self.extents[:-1]) == self.buffer.rows
        return (
            extent is not None
            and extent % self.slab == 0
            and len(self.outer.extents) < TMA_MAX_RANK
            and whole
            and self.cols // self.slab <= TMA_MAX_BOX
            and divides(self.slab, self.outer.offsets[-1])
        )

    def _misplaced(self) -> _Problem | None:
        """T3: where in shared memory the instructions' parts begin."""
        name = self.buffer.name
        if self._alignment() % TMA_SHARED_ALIGNMENT:
            message = f"the tile of `{name}` may start where no TMA can: at no multiple of {TMA_SHARED_ALIGNMENT} bytes"
            return "E-831", message, "use `dma.copy` for it, or make the rows in front of it fill such multiples"
        if self._count() > MAX_INSTRUCTIONS:
            message = f"the tile of `{name}` would take {self._count()} TMA instructions: it is not contiguous there"
            return "E-831", message, "let it span whole rows of the buffer, or let `.swiz<N>` split rows into slabs"
        return None

    def _alignment(self) -> int:
        """A number of bytes that divides the start of every part."""
        stride = self.buffer.swizzle or self.buffer.cols * self.size
        pieces = dict(zip(self.tile.kept, self.pieces, strict=True))
        found = 0
        for dim in reversed(range(len(self.buffer.shape) - 1)):
            starts = [multiple_of(self.tile.offsets[dim]), *(start for start, _ in pieces.get(dim, []))]
            found = gcd(found, *(start * stride for start in starts))
            stride *= self.buffer.shape[dim]
        if self.buffer.swizzle:
            return gcd(found, self.buffer.rows * self.buffer.swizzle) if self.buffer.cols > self.slab else found
        starts = [multiple_of(self.tile.offsets[-1]), *(start for start, _ in self.pieces[-1])]
        return gcd(found, *(start * self.size for start in starts))

    def _count(self) -> int:
        return prod(len(pieces) for pieces in self.pieces)


def _cut(extent: int, stride: int, dense: bool, unit: int = 1) -> list[_Piece]:
    """The fewest pieces of a dimension, equal ones where that takes no more; none where there is no way.

    `stride`: bytes from one element of the dimension to the next. Pieces begin at what TMA may address and have a
    multiple of `unit` bytes.
    """
    if not dense:
        return [(start, 1) for start in range(extent)]
    if extent * stride % unit:
        return []
    if extent <= TMA_MAX_BOX:
        return [(0, extent)]
    grain = TMA_SHARED_ALIGNMENT // gcd(TMA_SHARED_ALIGNMENT, stride)
    largest = TMA_MAX_BOX // grain * grain
    count = -(-extent // largest)
    step = extent // count if extent % count == 0 and extent // count % grain == 0 else largest
    return [(start, min(step, extent - start)) for start in range(0, extent, step)]


def _by_outer_dim(outer: View, numbers: list[int], missing: int) -> dict[int, int]:
    """Numbers along the tile's dimensions as numbers along the parameter's."""
    return dict.fromkeys(range(len(outer.extents)), missing) | dict(zip(outer.kept, numbers, strict=True))


def _start(build: Builder, part: View, buffer: Buffer) -> Start:
    """Where the part's first row begins: columns are whole slabs where there are slabs (T3)."""
    start, size, width = Starting(build), BYTES[buffer.type], buffer.swizzle
    for d, offset in enumerate(part.offsets[:-1]):
        start.add(offset, prod(buffer.shape[d + 1 : -1]) * (width or buffer.cols * size))
    if width:
        start.add(quotient(build, part.offsets[-1], width // size), buffer.rows * width)
    else:
        start.add(part.offsets[-1], size)
    return start.take()


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
