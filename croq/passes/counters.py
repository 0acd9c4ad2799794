"""Positions in rings are counted along, instead of divided out of a running number wherever they are needed.

`e.at(order)` and `buffer[order % N]` need a remainder and the parity of a quotient. A division by a constant is a
multiplication and a shift at best, in every place; two registers that step with the number cost an addition, a
comparison and a selection once. In uniform registers they address barriers and descriptors as they are.

Rules
    R1  A variable of 32 bits or more counts if it is only ever set to constants from 0 to 2^30 and increased by 1,
        outside maps. That it is not increased 2^30 times is taken for granted (docs/language.md). What is cut to fewer
        bits on the way to the remainder is no count.
    R2  Of one that counts, `v % N` becomes a variable that runs from 0 to N - 1 and begins again, and `v / N & 1` one
        that flips when it does; N is a constant and no power of two, of which both are a shift and a mask.
    R3  Where all changes are made by whole warps, the new variables are the same in all lanes of each: they are marked
        so (`uniform`), and emission takes them from lane 0, which is how a uniform register comes about.

    %1 = var.get @order                 %2 = var.get @order_slot
    %2 = binary mod, %1, 3         ->
    ..                                  ..
    var.set @order, order + 1           var.set @order, order + 1
                                        var.set @order_slot, order_slot + 1 == 3 ? 0 : order_slot + 1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import croq.numbers as numbers
from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel, Variable
from croq.ir.rewrite import Builder, constant, replace_uses, rewrite_blocks, uses
from croq.ir.scalar import Assignment, Binary, Cast, VarDeclare, VarGet, VarSet
from croq.ir.types import INTEGERS
from croq.passes.base import Pass

TYPE = "u32"  # of positions and parities
FEWEST_BITS = 32
MOST_AT_START = 1 << 30


@dataclass(frozen=True)
class Counters(Pass):
    name: ClassVar[str] = "counters"
    needs = ("operands", "narrow", "pace")

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        rings: dict[tuple[Variable, int], Ring] = {}
        replaced: dict[Value, Value] = {}
        places: dict[VarGet, list[Op]] = {}  # what is read beside a variable
        counting = _counting(kernel)
        users = uses(kernel.body)
        for op in list(kernel.walk()):
            if isinstance(op, VarGet) and op.var in counting:
                for use in _positions(op, users):
                    key = op.var, use.slots
                    if key not in rings:
                        rings[key] = Ring(kernel, *key)
                    places.setdefault(op, []).extend(rings[key].read(op, use, replaced))
        if rings:
            rewrite_blocks(kernel.body, lambda op: _stepped(op, places, list(rings.values()), counting))
            replace_uses(kernel.body, replaced)


@dataclass(frozen=True)
class Position:
    """A value that is a position in a ring of `slots` slots (or the parity of the round)."""

    value: Value
    slots: int
    parity: bool


@dataclass(eq=False)
class Ring:
    """The position, and the parity of the round where anybody asks for it, that go with a variable."""

    kernel: Kernel
    number: Variable
    slots: int
    found: dict[bool, Variable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.variable(parity=False)  # the parity turns on it, whether it is asked for or not

    def variable(self, parity: bool) -> Variable:
        if parity not in self.found:
            base = re.sub(r"_\d+$", "", self.number.name)
            name = f"{base}_{'parity' if parity else 'slot'}"
            self.found[parity] = Variable(self.kernel.fresh(name), TYPE, span=self.number.span)
            self.kernel.variables.append(self.found[parity])
        return self.found[parity]

    def read(self, get: VarGet, use: Position, replaced: dict[Value, Value]) -> list[Op]:
        build = Builder(span=get.span, threads=get.threads)
        replaced[use.value] = build.cast(build.var_get(self.variable(use.parity)), use.value.type)
        return build.take()

    def begin(self, op: Assignment, number: int) -> list[Op]:
        build = Builder(span=op.span, threads=op.threads)
        for parity, var in sorted(self.found.items()):
            start = build.const(TYPE, number // self.slots & 1 if parity else number % self.slots)
            build.add(VarDeclare(var, start) if isinstance(op, VarDeclare) else VarSet(var, start))
        return build.take()

    def step(self, op: VarSet, uniform: bool | None) -> list[Op]:
        """R2."""
        build = Builder(span=op.span, threads=op.threads)
        slot = self.variable(parity=False)
        further = build.binary("add", build.var_get(slot), 1)
        again = build.binary("eq", further, self.slots)
        build.add(VarSet(slot, build.select(again, build.const(TYPE, 0), further), uniform))
        if True in self.found:
            parity = self.found[True]
            build.add(VarSet(parity, build.binary("xor", build.var_get(parity), build.cast(again, TYPE)), uniform))
        return build.take()


def _counting(kernel: Kernel) -> dict[Variable, bool]:
    """R1: the variables that count, and (R3) whether they do in all lanes of their warps."""
    found: dict[Variable, bool] = {}
    maps = (inner for op in kernel.walk() if op.CONTROL == "map" for inner in op.walk())
    bad = {inner.var for inner in maps if isinstance(inner, Assignment)}
    stepping: set[Variable] = set()
    for block, at, op in _assignments(kernel.body):
        steps = isinstance(op, VarSet) and _one_more(block, at, op)
        start = constant(op.value)
        if not _wide(op.var.type) or not (steps or (isinstance(start, int) and 0 <= start <= MOST_AT_START)):
            bad.add(op.var)
        if steps:
            stepping.add(op.var)
        whole = op.threads is not None and op.threads.whole_warps()
        found[op.var] = found.get(op.var, True) and whole
    return {var: whole for var, whole in found.items() if var in stepping and var not in bad}


def _wide(type_: str) -> bool:
    return type_ in INTEGERS and numbers.WIDTHS[type_] >= FEWEST_BITS


def _assignments(block: Block) -> Iterator[tuple[Block, int, Assignment]]:
    for at, op in enumerate(block.ops):
        if isinstance(op, Assignment):
            yield block, at, op
        for region in op.regions():
            yield from _assignments(region)


def _one_more(block: Block, at: int, op: VarSet) -> bool:
    """Whether the variable becomes what it is and 1."""
    total = op.value.op
    if not isinstance(total, Binary) or total.op != "add" or constant(total.right) != 1:
        return False
    get = total.left.op
    if not isinstance(get, VarGet) or get.var is not op.var or get not in block.ops[:at]:
        return False
    between = block.ops[block.ops.index(get) : at]
    return not any(isinstance(inner, Assignment) and inner.var is op.var for outer in between for inner in outer.walk())


def _positions(get: VarGet, users: dict[Value, list[Op]]) -> Iterator[Position]:
    """R2: what is a position or a parity of the variable that has just been read."""
    values = [get.result]
    values += [op.result for op in users.get(get.result, []) if isinstance(op, Cast) and _wide(op.result.type)]
    for value in values:
        for op in users.get(value, []):
            slots = constant(op.right) if isinstance(op, Binary) and op.left is value else None
            if not isinstance(op, Binary) or not isinstance(slots, int) or slots < 3 or not slots & (slots - 1):
                continue
            if op.op == "mod":
                yield Position(op.result, slots, False)
            elif op.op == "div":
                for bit in users.get(op.result, []):
                    if isinstance(bit, Binary) and bit.op == "and" and constant(bit.right) == 1:
                        yield Position(bit.result, slots, True)


def _stepped(
    op: Op, places: dict[VarGet, list[Op]], rings: list[Ring], counting: dict[Variable, bool]
) -> list[Op] | None:
    if isinstance(op, VarGet) and op in places:
        return [op, *places[op]]
    if not isinstance(op, Assignment):
        return None
    start = constant(op.value)
    new: list[Op] = []
    for ring in rings:
        if ring.number is op.var:
            if isinstance(start, int):
                new += ring.begin(op, start)
            elif isinstance(op, VarSet):
                new += ring.step(op, counting[op.var] or None)
    return [op, *new]
