"""`reg.map`: code for each register of a fragment, as unrolled loops over registers.

Logical coordinates are computed only where the body uses them. Writes to packed fragments are made in pairs where the
body is nothing but one such write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from croq.emit import registers
from croq.emit.emitter import MapPlace
from croq.emit.expressions import Expr, divided, modulo, name, plus, times
from croq.emit.ops.scalars import assignment
from croq.emit.registers import converted, packed_pair, shape_of
from croq.emit.registry import expression, statement
from croq.emit.templating import Fields, render
from croq.emit.text import Line
from croq.ir.core import Block, Op, Value
from croq.ir.hw import RegMap
from croq.ir.objects import FragRef
from croq.ir.scalar import Cast, FragRead, FragWrite
from croq.ir.types import ThreadSet
from croq.target.fragments import ROWS, AccumulatorLayout, RowLayout, UniformLayout

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


# ------------------------------------------------------------------------------------------------ element access
@expression(FragRead)
def frag_read(emitter: Emitter, op: FragRead) -> Expr:
    return _element(emitter, op.frag)


@statement(FragWrite)
def frag_write(emitter: Emitter, op: FragWrite) -> Fields:
    frag = op.frag.frag
    assert frag.type is not None
    value = converted(emitter.expr(op.value), op.value.type, frag.type)
    target = _element(emitter, op.frag)
    if not shape_of(frag).packed:
        return {"text": assignment(target.text, value)}
    place = emitter.map_place
    assert place is not None
    pair = registers.raw_pair(emitter, op.frag, divided(place.register, 2), place.block)
    return {"text": f"croq::set_half<{frag.type}>({pair}, {modulo(place.register, 2)}, {value})"}


def _element(emitter: Emitter, ref: FragRef) -> Expr:
    """The element of the fragment at the map's present register."""
    place = emitter.map_place
    assert place is not None
    if shape_of(ref.frag).kind == "row":
        place.used.add("row")
        return registers.element(emitter, ref, place.row)
    return registers.element(emitter, ref, place.register, place.block)


# ----------------------------------------------------------------------------------------------------------- maps
@statement(RegMap)
def reg_map(emitter: Emitter, op: RegMap) -> list[Line]:
    emitter.enter(op)
    only = _only_write(op.body)
    if only is not None and not (op.row_body and op.row_body.ops):
        emitter.quote(only)
    layout = op.domain.frag.layout
    if isinstance(layout, UniformLayout):
        return _uniform_map(emitter, op, layout)
    if isinstance(layout, RowLayout):
        return _row_loop(emitter, op.iterators, op.body, layout.registers)
    assert isinstance(layout, AccumulatorLayout)
    rows = op.row_body
    if rows is None or not rows.ops:
        return _element_loop(emitter, op, layout)
    if _feeds(rows, op.body):
        return _row_by_row(emitter, op, rows, layout)
    lines = _row_loop(emitter, op.row_iterators, rows, layout.row_registers)
    return lines + _element_loop(emitter, op, layout)


def loop(emitter: Emitter, variable: str, end: int, body: list[Line], *, step: int = 1) -> list[Line]:
    """An unrolled loop over registers."""
    advance = f"++{variable}" if step == 1 else f"{variable} += {step}"
    return render("reg.map", {"v": variable, "end": end, "advance": advance, "body": body}, emitter.source)


def _let(emitter: Emitter, local: str, value: Expr) -> Line:
    return Line(f"const s32 {local} = {value};", emitter.source)


def _row_loop(emitter: Emitter, iterators: Sequence[Value], body: Block, count: int) -> list[Line]:
    """The body for each of the thread's rows."""
    emitter.names.push()
    row = emitter.names.declare("row")
    heads = _row_iterator(emitter, iterators, name(row), count)
    lines = _in_place(emitter, MapPlace(name(row), None, name(row)), body)
    emitter.names.pop()
    return loop(emitter, row, count, heads + lines) if lines else []


def _row_iterator(emitter: Emitter, iterators: Sequence[Value], row: Expr, count: int) -> list[Line]:
    """Bind the row coordinate: row register 2b + h is row `64b + lane_row + 8h`."""
    if not iterators:
        return []
    i = emitter.names.declare(iterators[0].name or "i")
    emitter.bind(iterators[0], name(i))
    if not emitter.uses.of(iterators[0]):
        return []
    if count == 2:
        return [_let(emitter, i, plus(emitter.places["lane_row"], times(row, 8)))]
    inside = times(modulo(row, 2), 8)
    return [_let(emitter, i, plus(emitter.places["lane_row"], times(divided(row, 2), ROWS), inside))]


def _in_place(emitter: Emitter, place: MapPlace, body: Block) -> list[Line]:
    outer, emitter.map_place = emitter.map_place, place
    lines = emitter.block(body, scope=False)
    emitter.map_place = outer
    return lines


class _Element:
    """Names of one element loop over an accumulator, and the declarations that its body turned out to need."""

    def __init__(self, emitter: Emitter, op: RegMap, layout: AccumulatorLayout) -> None:
        self.emitter, self.op, self.layout = emitter, op, layout
        self.blocks = layout.m // ROWS
        self.block = name(emitter.names.declare("block")) if self.blocks > 1 else None
        self.register = name(emitter.names.declare("r"))
        self.row = name(emitter.names.declare("row"))
        self.i, self.j = (name(emitter.names.declare(v.name or w)) for v, w in zip(op.iterators, "ij", strict=True))
        emitter.bind(op.iterators[0], self.i)
        emitter.bind(op.iterators[1], self.j)
        self.place = MapPlace(self.register, self.block, self.row)

    def heads(self) -> list[Line]:
        uses, places = self.emitter.uses, self.emitter.places
        half = modulo(divided(self.register, 2), 2)
        lines = []
        if "row" in self.place.used:
            row = half if self.block is None else plus(times(self.block, 2), half)
            lines.append(_let(self.emitter, self.row.text, row))
        if uses.of(self.op.iterators[0]):
            block = times(self.block, ROWS) if self.block is not None else 0
            known = self.row if "row" in self.place.used and self.block is None else half
            lines.append(_let(self.emitter, self.i.text, plus(places["lane_row"], block, times(known, 8))))
        if uses.of(self.op.iterators[1]):
            col = plus(places["lane_col"], times(divided(self.register, 4), 8), modulo(self.register, 2))
            lines.append(_let(self.emitter, self.j.text, col))
        return lines

    def loops(self, body: list[Line], step: int = 1) -> list[Line]:
        inner = loop(self.emitter, self.register.text, self.layout.n // 2, self.heads() + body, step=step)
        return inner if self.block is None else loop(self.emitter, self.block.text, self.blocks, inner)


def _element_loop(emitter: Emitter, op: RegMap, layout: AccumulatorLayout) -> list[Line]:
    if not op.body.ops:
        return []
    emitter.names.push()
    names = _Element(emitter, op, layout)
    write = _only_write(op.body)
    if write is None or not shape_of(write.frag.frag).packed:
        lines = names.loops(_in_place(emitter, names.place, op.body))
    else:
        lines = names.loops(_paired(emitter, names, op.body, write), step=2)
    emitter.names.pop()
    return lines


def _only_write(body: Block) -> FragWrite | None:
    """The body's one effect, when that is a write to a fragment."""
    if not body.ops or not isinstance(body.ops[-1], FragWrite):
        return None
    return body.ops[-1] if all(op.EXPRESSION for op in body.ops[:-1]) else None


def _paired(emitter: Emitter, names: _Element, body: Block, write: FragWrite) -> list[Line]:
    """Both elements of a pair, packed in one register."""
    target = write.frag.frag.type
    assert target is not None
    rounding = emitter.uses.definition.get(write.value)
    fused = isinstance(rounding, Cast) and rounding.operand.type == "f32" and emitter.uses.of(write.value) == 1
    source = rounding.operand if fused and isinstance(rounding, Cast) else write.value
    skipped = (write, rounding) if fused else (write,)
    with emitter.nested(scope=False) as lines:
        with emitter.once_more():
            low = _half(emitter, names.place, body, skipped, source)
        second = MapPlace(plus(names.register, 1), names.block, names.row, names.place.used)
        emitter.bind(names.op.iterators[1], plus(names.j, 1))
        high = _half(emitter, second, body, skipped, source)
        emitter.quote(write)
        pair = registers.raw_pair(emitter, write.frag, divided(names.register, 2), names.block)
        value = packed_pair(target, low, high, source.type)
        emitter.write("frag_write", {"text": f"{pair} = {value}"})
    return lines


def _half(emitter: Emitter, place: MapPlace, body: Block, skipped: Sequence[Op | None], value: Value) -> Expr:
    outer, emitter.map_place = emitter.map_place, place
    for op in body.ops:
        if op not in skipped:
            emitter.op(op)
    result = emitter.expr(value)
    emitter.map_place = outer
    return result


def _feeds(rows: Block, body: Block) -> bool:
    """Whether the body uses values of the row body."""
    made = {value for op in rows.walk() for value in op.results()}
    return any(value in made for op in body.walk() for value in op.operands())


def _row_by_row(emitter: Emitter, op: RegMap, rows: Block, layout: AccumulatorLayout) -> list[Line]:
    """For each row its row body, then its elements: what the row body computed is in scope of both."""
    emitter.names.push()
    row, column = name(emitter.names.declare("row")), name(emitter.names.declare("c"))
    r, i, j = (name(emitter.names.declare(w)) for w in ("r", "i", "j"))
    block = divided(row, 2) if layout.m > ROWS else None
    heads = [
        _let(emitter, i.text, plus(emitter.places["lane_row"], times(divided(row, 2), ROWS), times(modulo(row, 2), 8)))
    ]
    for value in (*op.row_iterators, op.iterators[0]):
        emitter.bind(value, i)
    emitter.bind(op.iterators[1], j)
    before = _in_place(emitter, MapPlace(row, block, row), rows)
    inside = _in_place(emitter, MapPlace(r, block, row), op.body)
    register = plus(times(divided(column, 2), 4), times(modulo(row, 2), 2), modulo(column, 2))
    col = plus(emitter.places["lane_col"], times(divided(column, 2), 8), modulo(column, 2))
    places = [_let(emitter, r.text, register), _let(emitter, j.text, col)]
    inner = loop(emitter, column.text, layout.n // 4, [*places, *inside])
    emitter.names.pop()
    return loop(emitter, row.text, layout.row_registers, [*heads, *before, *inner])


# -------------------------------------------------------------------------------------------------------- uniform
def rank(emitter: Emitter, threads: ThreadSet | None, count: int) -> Expr:
    """The thread's index in the group of `count` threads that executes the operation."""
    thread = emitter.places["thread"]
    first = threads.first if threads is not None and threads.ranges else 0
    if threads is not None and len(threads) == count and len(threads.ranges) == 1:
        return plus(thread, -first)
    return modulo(plus(thread, -first) if first % count else thread, count)


def _uniform_map(emitter: Emitter, op: RegMap, layout: UniformLayout) -> list[Line]:
    emitter.names.push()
    r, flat = name(emitter.names.declare("r")), name(emitter.names.declare("flat"))
    heads = [_let(emitter, flat.text, plus(rank(emitter, op.threads, layout.threads), times(r, layout.threads)))]
    heads += _uniform_iterators(emitter, op.iterators, flat, layout)
    body = _in_place(emitter, MapPlace(r, None, r), op.body)
    if op.guard or layout.ragged:
        inside = f"{flat} < {layout.size}"
        body = render("if", {"condition": inside, "then": body, "has_else": False, "otherwise": []}, emitter.source)
    needs_flat = len(heads) > 1 or op.guard or layout.ragged or len(op.iterators) == 1
    lines = loop(emitter, r.text, layout.registers, (heads if needs_flat else []) + body)
    emitter.names.pop()
    return lines


def _uniform_iterators(emitter: Emitter, iterators: Sequence[Value], flat: Expr, layout: UniformLayout) -> list[Line]:
    if len(iterators) == 1:
        emitter.bind(iterators[0], flat)
        return []
    lines = []
    stride = 1
    for d in reversed(range(len(iterators))):
        at = divided(flat, stride)
        at = at if d == 0 else modulo(at, layout.shape[d])
        local = emitter.names.declare(iterators[d].name or "ijk"[d % 3])
        emitter.bind(iterators[d], name(local))
        if emitter.uses.of(iterators[d]):
            lines.append(_let(emitter, local, at))
        stride *= layout.shape[d]
    return lines[::-1]
