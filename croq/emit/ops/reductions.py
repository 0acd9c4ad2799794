"""Whole fragments: fill, copy, and the two halves of a row reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from croq.emit import registers
from croq.emit.expressions import NARROW_FLOATS, Expr, cpp_type, divided, modulo, name, plus, times
from croq.emit.ops.maps import loop
from croq.emit.ops.scalars import assignment
from croq.emit.registers import converted, shape_of
from croq.emit.registry import statement
from croq.emit.templating import Fields, render
from croq.emit.text import Line
from croq.ir.hw import RegCopy, RegFill, RegReduceRow, RegShuffleReduce
from croq.target.fragments import ROWS, AccumulatorLayout

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

Kind = Literal["max", "sum"]


@statement(RegFill)
def reg_fill(emitter: Emitter, op: RegFill) -> Fields:
    frag = op.frag.frag
    assert frag.type is not None
    value = converted(emitter.expr(op.value), op.value.type, frag.type)
    if shape_of(frag).packed:
        value = registers.packed_pair(frag.type, value, value, frag.type)
    return {"array": registers.array(emitter, op.frag), "value": value.text}


@statement(RegCopy)
def reg_copy(emitter: Emitter, op: RegCopy) -> Fields:
    return {"dest": registers.array(emitter, op.dest), "source": registers.array(emitter, op.source)}


@statement(RegReduceRow)
def reg_reduce_row(emitter: Emitter, op: RegReduceRow) -> list[Line]:
    """Two chains a row, over its even and its odd columns, so that no operation waits for the one before."""
    layout = op.source.frag.layout
    assert isinstance(layout, AccumulatorLayout)
    source, dest = op.source.frag.type, op.dest.frag.type
    assert source is not None and dest is not None
    work = "f32" if dest in NARROW_FLOATS else dest
    emitter.names.push()
    row, r = name(emitter.names.declare("row")), name(emitter.names.declare("r"))
    even, odd = name(emitter.names.declare("even")), name(emitter.names.declare("odd"))
    many = layout.m > ROWS
    block = divided(row, 2) if many else None
    inside = times(modulo(row, 2) if many else row, 2)

    def column(register: Expr) -> Expr:
        return converted(registers.element(emitter, op.source, register, block), source, work)

    total = converted(_combined(op.kind, even, odd), work, dest)
    fields = {
        "type": cpp_type(work),
        "even": even.text,
        "odd": odd.text,
        "first": column(inside).text,
        "second": column(plus(inside, 1)).text,
        "v": r.text,
        "end": layout.n // 2,
        "even_step": assignment(even.text, _combined(op.kind, even, column(plus(r, inside)))),
        "odd_step": assignment(odd.text, _combined(op.kind, odd, column(plus(r, inside, 1)))),
        "dest": registers.element(emitter, op.dest, row).text,
        "total": total.text,
    }
    body = render(op.NAME, fields, emitter.source)
    emitter.names.pop()
    return loop(emitter, row.text, layout.row_registers, body)


def _combined(kind: Kind, left: Expr, right: Expr) -> Expr:
    return Expr(f"croq::max({left}, {right})") if kind == "max" else plus(left, right)


@statement(RegShuffleReduce)
def reg_shuffle_reduce(emitter: Emitter, op: RegShuffleReduce) -> list[Line]:
    frag = op.frag.frag
    shape = shape_of(frag)
    emitter.names.push()
    register = name(emitter.names.declare("row" if shape.kind == "row" else "r"))
    element = registers.element(emitter, op.frag, register)
    value = registers.as_float(element, shape.element) if shape.element in NARROW_FLOATS else element
    reduced = Expr(f"croq::lanes_{op.kind}<{op.lanes}>({value})")
    source = "f32" if shape.element in NARROW_FLOATS else shape.element
    fields = {"element": element.text, "value": converted(reduced, source, shape.element).text}
    body = render(op.NAME, fields, emitter.source)
    emitter.names.pop()
    return loop(emitter, register.text, shape.registers, body)
