"""`reg.map`: the body runs once over arrays that hold the values of all elements of a warp's part.

That is the same as running it element by element, except where elements depend on one another through a row value that
the body writes. `f.at(i) = f.at(i) + x` (or max, min) becomes a reduction along the row; anything else goes column by
column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from croq.ir import hw
from croq.ir.core import Block, Op, Value
from croq.ir.objects import FragRef, Variable
from croq.ir.scalar import Binary, FragRead, FragWrite, VarDeclare
from croq.simulate.compiler import Code, Compiler, Map, Plain, handles
from croq.simulate.dtypes import Array, converter
from croq.simulate.faults import fault
from croq.simulate.machine import Warp
from croq.simulate.ops_registers import lane_axes
from croq.simulate.registers import Registers, Shape
from croq.target.cuda import WARP

_REDUCTIONS: dict[str, Any] = {"add": np.add, "max": np.fmax, "min": np.fmin}


@handles(hw.RegMap)
def _map(c: Compiler, op: hw.RegMap) -> Code:
    shape = c.shape(op.domain.frag)
    axes = len(shape.dims)
    inside = {v for block in (op.row_body, op.body) if block for o in block.walk() for v in o.results()}
    inside |= {*op.row_iterators, *op.iterators}
    variables: set[Variable] = {o.var for o in op.body.walk() if isinstance(o, VarDeclare)}
    around = Map(axes, shape.dims[-1], inside, variables, {})
    carried = _carried(op) if axes == 3 else []
    reductions = [_reduction(op.body, write) for write in carried]
    by_column = any(r is None for r in reductions)
    kept = [] if by_column else [r for r in reductions if r is not None]
    skip: set[Op] = {o for r in kept for o in (r.read, r.combine, r.write)}
    with c.mapping(around):
        row_body = _plain(c, op.row_body, set()) if op.row_body is not None else None
        body = _plain(c, op.body, skip)
        finish = [_reduce(c, r) for r in kept]
    lifts = list(around.lifted.items())
    row_slots = [c.result(v) for v in op.row_iterators]
    slots = [c.result(v) for v in op.iterators]
    written = _written(c, op.body) if by_column else []

    def run(warp: Warp) -> None:
        v = warp.v
        for source, target in lifts:
            value = v[source]
            v[target] = value.reshape(WARP, *[1] * (axes - 1)) if type(value) is np.ndarray else value
        coordinates = shape.coordinates(warp.index)
        before = warp.element_mask
        warp.element_mask = _elements(warp, shape, axes)
        if row_body is not None:
            for slot, coordinate in zip(row_slots, coordinates, strict=False):
                v[slot] = coordinate
            row_body(warp)
        for slot, coordinate in zip(slots, coordinates, strict=True):
            v[slot] = coordinate
        if by_column:
            _columns(warp, shape, slots[1], coordinates[1], body, [find(warp) for find in written], op)
        else:
            body(warp)
            for step in finish:
                step(warp)
        warp.element_mask = before

    return Code(run)


def _elements(warp: Warp, shape: Shape, axes: int) -> Array | None:
    lanes, held = lane_axes(warp.active(), axes), shape.holds(warp.index)
    return held if lanes is None else lanes if held is None else lanes & held


def _plain(c: Compiler, block: Block, skip: set[Op]) -> Plain:
    code = c.block(Block([op for op in block.ops if op not in skip]))
    if code.plain is None:
        raise fault("E-5099", block.ops[0] if block.ops else None, "an operation that blocks inside a map")
    return code.plain


# ------------------------------------------------------------------------------------------------- access of elements
@handles(FragRead)
def _read(c: Compiler, op: FragRead) -> Code:
    find, result = c.fragment(op.frag), c.result(op.result)
    row_value = _is_row_value(c, op.frag, op)

    def run(warp: Warp) -> None:
        values = find(warp).read(warp, op)
        if row_value:
            values = values[:, :, None]
        elif warp.columns is not None:
            values = values[:, :, warp.columns].copy()
        warp.v[result] = values

    return Code(run)


@handles(FragWrite)
def _write(c: Compiler, op: FragWrite) -> Code:
    find, value = c.fragment(op.frag), c.slot(op.value)
    shape = c.shape(op.frag.frag)
    convert = converter(op.value.type, shape.type)
    row_value = _is_row_value(c, op.frag, op)

    def run(warp: Warp) -> None:
        registers, mask, content = find(warp), warp.element_mask, convert(warp.v[value])
        if row_value:
            registers.store(_squeeze(content), _squeeze(mask), warp, op)
        elif warp.columns is not None:
            part = registers.data[:, :, warp.columns]  # a private copy while the map runs, see `_columns`
            part[...] = content if mask is None else np.where(mask, content, part)
        else:
            registers.store(content, mask, warp, op)

    return Code(run)


def _squeeze(value: Any) -> Any:
    return value[:, :, 0] if type(value) is np.ndarray and value.ndim == 3 else value


def _is_row_value(c: Compiler, ref: FragRef, op: Op) -> bool:
    """Whether a fragment has one value a row where the map goes over rows and columns."""
    if c.map is None:
        raise fault("E-5099", op, "an element of a fragment outside a map")
    axes = len(c.shape(ref.frag).dims)
    if axes > c.map.axes:
        raise fault("E-5030", op, f"the simulator cannot reach elements of `{ref.frag.name}` from this map")
    return axes == 2 and c.map.axes == 3


# ------------------------------------------------------------------------------- row values that columns hand onward
@dataclass(frozen=True)
class _Reduction:
    """`write` stores `combine` of the row value that `read` got and of `other`, which does not depend on it."""

    read: FragRead
    combine: Binary
    write: FragWrite
    other: Value


def _carried(op: hw.RegMap) -> list[FragWrite]:
    """Writes of row values in the body that runs for each element."""
    return [o for o in op.body.walk() if isinstance(o, FragWrite) and len(o.indices) < len(op.iterators)]


def _reduction(body: Block, write: FragWrite) -> _Reduction | None:
    """The accumulation that a write of a row value is part of; None if it is none."""
    fragment = write.frag.frag
    touching = [o for o in body.walk() if isinstance(o, (FragRead, FragWrite)) and o.frag.frag is fragment]
    reads = [o for o in touching if isinstance(o, FragRead)]
    if len(touching) != 2 or len(reads) != 1 or write.frag.slot is not None or not {*reads, write} <= set(body.ops):
        return None
    defined = {result: o for o in body.ops for result in o.results()}
    combine = defined.get(write.value)
    if not isinstance(combine, Binary) or combine.op not in _REDUCTIONS:
        return None
    result = reads[0].result
    other = combine.right if combine.left is result else combine.left
    uses = sum(operand in (result, combine.result) for o in body.walk() for operand in o.operands())
    if result not in (combine.left, combine.right) or other is result or uses != 2:
        return None
    return _Reduction(reads[0], combine, write, other)


def _reduce(c: Compiler, reduction: _Reduction) -> Plain:
    find, other, op = c.fragment(reduction.write.frag), c.slot(reduction.other), reduction.write
    combine = _REDUCTIONS[reduction.combine.op]
    assert c.map is not None
    columns = c.map.columns

    def run(warp: Warp) -> None:
        registers, mask, values = find(warp), warp.element_mask, warp.v[other]
        old = registers.read(warp, op)
        full = (*old.shape, columns)
        values = np.broadcast_to(values, full)
        if mask is None:
            new = combine(old, combine.reduce(values, axis=2))
        else:
            new = combine(
                old, combine.reduce(values, axis=2, where=np.broadcast_to(mask, full), initial=_NEUTRAL[combine])
            )
            new = np.where(np.broadcast_to(mask, full).any(axis=2), new, old)
        registers.store(new.astype(old.dtype, copy=False), None, warp, op)

    return run


_NEUTRAL: dict[Any, float] = {np.add: 0.0, np.fmax: -np.inf, np.fmin: np.inf}


def _written(c: Compiler, body: Block) -> list[Callable[[Warp], Registers]]:
    """The fragments with one value an element that a body writes."""
    refs = [o.frag for o in body.walk() if isinstance(o, FragWrite) and len(c.shape(o.frag.frag).dims) == 3]
    return [c.fragment(ref) for ref in refs]


def _columns(
    warp: Warp, shape: Shape, slot: int, columns: Array, body: Plain, written: list[Registers], op: Op
) -> None:
    """Run a body column by column; what it writes is a copy of its own meanwhile."""
    for registers in written:
        registers.write(registers.data.copy(), warp, op)
    mask = warp.element_mask
    for column in range(shape.dims[2]):
        warp.columns = slice(column, column + 1)
        warp.v[slot] = columns[:, :, column : column + 1]
        if mask is not None and mask.shape[2] != 1:
            warp.element_mask = mask[:, :, column : column + 1]
        body(warp)
    warp.columns, warp.element_mask = None, mask
