"""Cooperative copies between global and shared memory, and fills of shared tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from croq.emit import addresses
from croq.emit.expressions import Expr, cpp_type, divided, modulo, name, plus, times
from croq.emit.ops.stores import bounds
from croq.emit.registers import converted
from croq.emit.registry import statement
from croq.emit.templating import Fields
from croq.emit.text import call_text
from croq.ir.hw import CopyTile, FillTile
from croq.ir.objects import Buffer, Param, View
from croq.ir.types import BYTES
from croq.target.cuda import VECTOR

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

RAW = {VECTOR: "croq::u32x4", 8: "u64", 4: "u32", 2: "u16", 1: "u8"}


def _rank(emitter: Emitter, op: CopyTile | FillTile) -> Expr:
    """The thread's place among the `count` participants."""
    return plus(emitter.places["thread"], -op.rank_base)


def _starts(emitter: Emitter, view: View, wanted: str) -> list[Expr]:
    return [emitter.atom(start, f"{wanted}_at{d}", "s32") for d, start in enumerate(addresses.offsets(emitter, view))]


def _participates(emitter: Emitter, op: CopyTile | FillTile) -> str:
    """The condition that a thread takes part, where not all that come here do."""
    last = op.rank_base + op.count
    if op.threads is not None and all(op.rank_base <= a and b <= last for a, b in op.threads.ranges):
        return ""
    thread = emitter.places["thread"]
    lower = f"{thread} >= {op.rank_base} && " if op.rank_base else ""
    return "" if last >= emitter.kernel.threads and not lower else f"{lower}{thread} < {last}"


@statement(CopyTile)
def copy_tile(emitter: Emitter, op: CopyTile) -> Fields:
    shape = op.source.static_shape or op.dest.static_shape
    assert shape is not None
    size = BYTES[op.source.root.type]
    per_step = op.vector // size
    emitter.names.push()
    with emitter.nested(scope=False) as setup:
        source = _starts(emitter, op.source, op.source.root.name)
        dest = _starts(emitter, op.dest, op.dest.root.name)
        step = name(emitter.names.declare("step"))
        indices, locals_ = _indices(emitter, shape, per_step, step)
        from_ = _Side(emitter, op.source, op.source_checked, source, indices)
        to = _Side(emitter, op.dest, op.dest_checked, dest, indices)
    emitter.names.pop()
    steps = prod(shape) // per_step
    return {
        "setup": setup,
        "condition": _participates(emitter, op),
        "what": f"{' x '.join(map(str, shape))} {op.source.root.type}, {op.vector} bytes a step",
        "step": step.text,
        "rank": _rank(emitter, op).text,
        "steps": steps,
        "count": op.count,
        "unroll": op.unroll,
        "locals": locals_,
        "asynchronous": op.asynchronous,
        "raw": RAW[op.vector],
        "source_inside": from_.inside,
        "load": from_.load(RAW[op.vector]),
        "copy": call_text("croq::cp_async_16", [to.place, from_.place, *_bytes(from_.inside)]),
        "dest_inside": to.inside,
        "store": call_text(f"croq::st_{to.space}<{RAW[op.vector]}>", [to.place, "data"]),
    }


def _indices(
    emitter: Emitter, shape: Sequence[int], per_step: int, step: Expr
) -> tuple[list[Expr], list[dict[str, str]]]:
    """The element that a step starts at, along each dimension of the tile; the last dimension is taken in steps."""
    counts = [*shape[:-1], shape[-1] // per_step]
    wanted = ["col"] if len(shape) == 1 else [*(f"row{d}" for d in range(len(shape) - 2)), "row", "col"]
    indices: list[Expr] = []
    locals_: list[dict[str, str]] = []
    stride = 1
    for d in reversed(range(len(shape))):
        at = divided(step, stride)
        at = at if d == 0 else modulo(at, counts[d])
        at = times(at, per_step) if d == len(shape) - 1 else at
        local = emitter.names.declare(wanted[d])
        indices.insert(0, name(local))
        locals_.insert(0, {"name": local, "value": at.text})
        stride *= counts[d]
    return indices, locals_


def _bytes(inside: str) -> list[str]:
    """How much of a step's 16 bytes to read: none outside, which are zero then."""
    return [f"{inside} ? 16 : 0"] if inside else []


class _Side:
    """One end of a copy: where an element of it lies, and when it exists."""

    def __init__(
        self, emitter: Emitter, view: View, checked: Sequence[int], starts: Sequence[Expr], indices: Sequence[Expr]
    ) -> None:
        self.emitter, self.view = emitter, view
        self.root = view.root
        position = addresses.coordinates(starts, view, indices)
        self.is_global = isinstance(self.root, Param)
        self.is_shared = isinstance(self.root, Buffer) and self.root.storage == "shared"
        self.inside = " && ".join(bounds(emitter, view, checked, position))
        if isinstance(self.root, Param):
            at = addresses.subscript(emitter, self.root, position)
            self.place = f"&{addresses.pointer(emitter, self.root)}[{at}]"
        elif self.is_shared:
            assert isinstance(self.root, Buffer)
            row, col = addresses.row_and_col(self.root, position)
            offset = addresses.element_offset(self.root, row, col)
            self.place = plus(addresses.tile_base(emitter, view), offset).text
        else:
            self.place = f"&{addresses.local_element(emitter, view, indices)}"

    def load(self, raw: str) -> str:
        return f"croq::ld_{self.space}<{raw}>({self.place})"

    @property
    def space(self) -> str:
        return "global" if self.is_global else "shared" if self.is_shared else "local"


@statement(FillTile)
def fill_tile(emitter: Emitter, op: FillTile) -> Fields:
    buffer = op.dest.root
    assert isinstance(buffer, Buffer)
    element = cpp_type(buffer.type)
    value = converted(emitter.expr(op.value), op.value.type, buffer.type)
    emitter.names.push()
    at = name(emitter.names.declare("at"))
    emitter.names.pop()
    base, length = _region(emitter, op.dest, buffer)
    wide = op.vector == VECTOR
    return {
        "what": f"{buffer.name} = {value}",
        "condition": _participates(emitter, op),
        "at": at.text,
        "first": plus(times(_rank(emitter, op), VECTOR if wide else BYTES[buffer.type])).text,
        "length": length,
        "stride": op.count * (VECTOR if wide else BYTES[buffer.type]),
        "address": plus(base, at).text,
        "value": f"croq::splat<{element}>({value})" if wide else f"{element}({value})",
        "type": "croq::u32x4" if wide else element,
    }


def _region(emitter: Emitter, view: View, buffer: Buffer) -> tuple[Expr, int]:
    """A contiguous range of bytes: one tile, or all slots of an array."""
    if not view.whole:
        raise ValueError(f"a fill of a part of `{buffer.name}`")
    if buffer.array and view.slot is None:
        return emitter.places.address(buffer), buffer.slot_stride * (buffer.slots - 1) + buffer.tile_bytes
    return addresses.tile_base(emitter, view), buffer.tile_bytes
