"""Where the elements of views lie, as expressions: shared-window addresses and subscripts of global arrays.

Shared tiles follow target/swizzle.py: column slabs of `swizzle` bytes, 16-byte chunks XOR-permuted inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from croq.emit.dims import dim_expr
from croq.emit.expressions import Expr, Term, as_expr, binary, call, cast, divided, modulo, plus, times
from croq.ir.core import Value
from croq.ir.objects import Buffer, Event, Param, Start, View
from croq.ir.types import BYTES
from croq.sema.symbolic import Dim
from croq.target.swizzle import CHUNK

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


def offsets(emitter: Emitter, view: View) -> list[Expr]:
    """The view's start along each dimension of its root."""
    return [emitter.expr(o) if isinstance(o, Value) else as_expr(o) for o in view.offsets]


def coordinates(starts: Sequence[Term], view: View, indices: Sequence[Term]) -> list[Expr]:
    """Root coordinates of the element at `indices` of the view's kept dimensions."""
    position = [as_expr(start) for start in starts]
    for dim, index in zip(view.kept, indices, strict=True):
        position[dim] = plus(position[dim], index)
    return position


# -------------------------------------------------------------------------------------------------- shared memory
def barrier(emitter: Emitter, event: Event, slot: Value | None) -> Expr:
    """The address of the mbarrier of `event[slot]`."""
    at = emitter.places.address(event)
    return at if slot is None else plus(at, times(emitter.expr(slot), 8))


def tile_base(emitter: Emitter, view: View) -> Expr:
    """The address of the tile that the view's slot picks."""
    buffer = view.root
    assert isinstance(buffer, Buffer)
    base = emitter.places.address(buffer)
    slot = emitter.expr(view.slot) if isinstance(view.slot, Value) else as_expr(view.slot or 0)
    if slot.const == 0:
        return base
    stride = emitter.places.stride_name(buffer)
    return plus(base, stride if slot.const == 1 else binary("mul", slot, stride))


def row_and_col(buffer: Buffer, position: Sequence[Term]) -> tuple[Expr, Expr]:
    """All coordinates but the last taken together, and the last."""
    row: Expr = as_expr(0)
    for d, coordinate in enumerate(position[:-1]):
        row = plus(row, times(coordinate, prod(buffer.shape[d + 1 : -1])))
    return row, as_expr(position[-1])


def start_offset(buffer: Buffer, row: Term, col: Term) -> Expr:
    """The unswizzled byte offset of (row, col) in its tile: what descriptors and TMA start from."""
    size = BYTES[buffer.type]
    if buffer.swizzle == 0:
        return plus(times(row, buffer.cols * size), times(col, size))
    width = buffer.swizzle
    byte = times(col, size)
    slab = times(divided(byte, width), buffer.rows * width)
    return plus(slab, times(row, width), modulo(byte, width))


def element_offset(buffer: Buffer, row: Term, col: Term) -> Expr:
    """The byte offset at which element (row, col) of a tile lies."""
    if buffer.swizzle <= CHUNK:
        return start_offset(buffer, row, col)
    return call(f"croq::slab_offset<{buffer.swizzle}, {buffer.rows}>", as_expr(row), times(col, BYTES[buffer.type]))


def chunk_address(buffer: Buffer, base: Expr, row: Expr, chunk: Expr) -> Expr:
    """The address of 16-byte chunk `chunk` of row `row`, both of which are names."""
    width = buffer.swizzle
    if width == 0:
        return plus(base, times(row, buffer.cols * BYTES[buffer.type]), times(chunk, CHUNK))
    slab = times(divided(chunk, width // CHUNK), buffer.rows * width)
    if width == CHUNK:
        return plus(base, slab, times(row, width))
    per_row = width // CHUNK
    phase = modulo(divided(row, 8 // per_row), per_row)
    permuted = times(Expr(f"({binary('xor', modulo(chunk, per_row), phase).text})"), CHUNK)
    return plus(base, slab, times(row, width), permuted)


def started(emitter: Emitter, view: View, start: Start) -> Expr:
    """The address at `start` in the tile that the view's slot picks."""
    terms = [times(emitter.expr(term), scale) for term, scale in zip(start.terms, start.scales, strict=True)]
    return plus(tile_base(emitter, view), *terms, start.offset)


def element_address(emitter: Emitter, view: View, indices: Sequence[Term]) -> Expr:
    """The shared address of one element."""
    assert isinstance(view.root, Buffer)
    row, col = row_and_col(view.root, coordinates(offsets(emitter, view), view, indices))
    return plus(tile_base(emitter, view), element_offset(view.root, row, col))


def local_element(emitter: Emitter, view: View, indices: Sequence[Term]) -> Expr:
    """One element of a thread's own array."""
    assert isinstance(view.root, Buffer)
    position = coordinates(offsets(emitter, view), view, indices)
    at: Expr = as_expr(0)
    for d, coordinate in enumerate(position):
        at = plus(at, times(coordinate, prod(view.root.shape[d + 1 :])))
    if view.slot is not None:
        slot = emitter.expr(view.slot) if isinstance(view.slot, Value) else as_expr(view.slot)
        at = plus(times(slot, prod(view.root.shape)), at)
    return Expr(f"{emitter.places.local_array(view.root)}[{at}]", reads=at.reads)


# -------------------------------------------------------------------------------------------------- global memory
def dim(emitter: Emitter, value: Dim) -> Expr:
    return dim_expr(value, lambda symbol: Expr(emitter.arguments.of_symbol(symbol).name, atom=True))


def subscript(emitter: Emitter, param: Param, position: Sequence[Expr]) -> Expr:
    """The flat index of an element of a contiguous row-major array; 64-bit from the first product on."""
    assert param.shape is not None
    at: Expr | None = None
    for d, coordinate in enumerate(position):
        if at is not None:
            extent = dim(emitter, param.shape[d])
            at = binary("mul", at, extent) if extent.const != 1 else at
        if coordinate.const == 0:
            continue
        if at is not None:
            at = plus(at, coordinate)
        elif d + 1 < len(position) and coordinate.const is None:
            at = cast("s64", coordinate)
        else:
            at = coordinate if d + 1 == len(position) else Expr(f"{coordinate}ll", const=None)
    return at if at is not None else as_expr(0)


def pointer(emitter: Emitter, param: Param) -> str:
    return emitter.arguments.of_param(param).name
