"""How register statements are counted in modelled time: instructions by pipe, and cycles of latency.

What an instruction costs is a fact of the chip (`Target.costs`). Each SM quarter (the warps whose index is equal modulo
4) has pipes of its own: a statement occupies them for the cycles counted here, and warps that want the same pipe at the
same time share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from croq.functions import FUNCTIONS
from croq.ir import hw, scalar
from croq.ir.core import Block, Op, Value
from croq.ir.dispatch import Rules, lowered
from croq.ir.objects import Fragment, FragRef, Param
from croq.ir.types import BYTES, FLOATS
from croq.operators import OPERATORS
from croq.target import Target
from croq.target.fragments import ROWS


@dataclass(frozen=True)
class Work:
    """Instructions of one warp by the pipe that they occupy, and cycles of latency behind the last of them."""

    fma: float = 0
    alu: float = 0
    xu: float = 0
    lsu: float = 0
    glob: float = 0  # in the pipe of `lsu`, at the price of global memory
    other: float = 0
    latency: float = 0

    def __add__(self, more: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(more, f.name) for f in fields(self)))

    def times(self, count: float) -> Work:
        """So many of it; the latency passes once."""
        return Work(*(getattr(self, f.name) * (1 if f.name == "latency" else count) for f in fields(self)))

    @property
    def instructions(self) -> float:
        return self.fma + self.alu + self.xu + self.lsu + self.glob + self.other

    def pipes(self, target: Target) -> tuple[float, float, float, float, float]:
        """Cycles for which issue, FMA, ALU, XU and LSU are occupied, tensor cores idle."""
        cycles = target.cycles
        memory = self.lsu * cycles("lsu") + self.glob * cycles("lsu.global")
        return (
            self.instructions * cycles("issue"),
            self.fma * cycles("fma"),
            self.alu * cycles("alu"),
            self.xu * cycles("xu"),
            memory,
        )


NOTHING = Work()


# --------------------------------------------------------------------------------------------- register statements
Price = Callable[[Target, Any], Work]
statements = Rules[Price]("costs of register statements", lambda kind: lowered(kind) and kind.REGISTERS)
statements.without("no instruction", scalar.FragDeclare)
elements = Rules[Price]("costs inside of maps", lambda kind: kind.ORDINARY)


def of_statement(target: Target, op: Op) -> Work:
    """An operation on whole fragments, or an element access or call outside of maps. Nothing for what is free."""
    return statements[op](target, op)


def _tail(target: Target) -> Work:
    return Work(latency=target.cycles("statement"))


@statements(hw.RegMap)
def of_map(target: Target, op: hw.RegMap) -> Work:
    """A map: what varies along a row once a register, the rest once a row."""
    registers = _registers(op.domain.frag)
    rows = registers if len(op.iterators) < 2 else _rows(op.domain.frag)
    counter = _Body(target, op)
    return counter.varying.times(registers) + counter.fixed.times(rows) + _tail(target)


@statements(hw.RegFill)
def _fill(target: Target, op: hw.RegFill) -> Work:
    return Work(other=_registers(op.frag.frag)) + _tail(target)


@statements(hw.RegCopy)
def _copy(target: Target, op: hw.RegCopy) -> Work:
    return _conversion(op.source.frag.type, op.dest.frag.type).times(_registers(op.source.frag)) + _tail(target)


@statements(hw.RegReduceRow)
def _reduce(target: Target, op: hw.RegReduceRow) -> Work:
    return _combine(op.kind).times(_registers(op.source.frag)) + _tail(target)


@statements(hw.RegShuffleReduce)
def _shuffle(target: Target, op: hw.RegShuffleReduce) -> Work:
    rounds = op.lanes.bit_length() - 1
    each = (Work(lsu=1) + _combine(op.kind)).times(_registers(op.frag.frag))
    return each.times(rounds) + Work(latency=rounds * target.cycles("shuffle"))


@statements(scalar.Call)
def _call(target: Target, op: scalar.Call) -> Work:
    registers = sum(_registers(a.frag) for a in op.args if isinstance(a, FragRef))
    return Work(fma=registers, latency=target.cycles("call"))


def of_copy(target: Target, pieces: int, piece_bytes: int, *, loads: bool, shared: bool) -> Work:
    """A warp's share of a copy (or fill) by all threads: `pieces` a thread; latency of the loads batch by batch."""
    words = pieces * max(1, piece_bytes // 4)
    batches = -(-pieces // int(target.cycles("copy.batch")))
    latency = batches * target.cycles("global") if loads else target.cycles("statement")
    return Work(glob=words if loads or not shared else 0, lsu=words if shared else 0, latency=latency)


def mma_instructions(op: hw.WgmmaIssue) -> int:
    return op.m // ROWS * (op.k // op.k_step)


def mma_cycles(target: Target, op: hw.WgmmaIssue) -> float:
    """For which each instruction occupies the tensor cores."""
    return max(target.cycles("wgmma.least"), target.cycles("wgmma") * op.n / 128)


def _registers(fragment: Fragment) -> int:
    """Elements that a lane holds."""
    assert fragment.layout is not None
    return fragment.layout.registers


def _rows(fragment: Fragment) -> int:
    """Rows that a lane holds parts of: two of each 64-row block of an accumulator."""
    assert fragment.shape is not None
    return max(1, 2 * fragment.shape[0] // ROWS)


def _combine(kind: str) -> Work:
    return Work(alu=1) if kind == "max" else Work(fma=1)


def _conversion(source: str | None, dest: str | None) -> Work:
    """One element. Two floats are packed by one instruction; unpacking and the rest take one each."""
    if source == dest or source is None or dest is None:
        return NOTHING
    if (source in FLOATS) != (dest in FLOATS):
        return Work(xu=0.5)
    return Work(alu=0.5) if BYTES[dest] < BYTES[source] else Work(alu=1)


@statements(hw.RegLoad)
def _load(target: Target, op: hw.RegLoad) -> Work:
    return Work(lsu=_registers(op.frag.frag) / 2, latency=target.cycles("shared")) + _tail(target)


@statements(hw.RegStore)
def _store(target: Target, op: hw.RegStore) -> Work:
    source, dest = op.frag.frag.type, op.dest.root.type
    registers = _registers(op.frag.frag)
    words = registers * BYTES[dest] / 4
    place = Work(glob=words) if isinstance(op.dest.root, Param) else Work(lsu=words)
    return _conversion(source, dest).times(registers) + place + _tail(target)


@statements(scalar.LoadElement, scalar.StoreElement)
@elements(scalar.LoadElement, scalar.StoreElement)
def _element(target: Target, op: scalar.LoadElement | scalar.StoreElement) -> Work:
    root, load = op.view.root, isinstance(op, scalar.LoadElement)
    if isinstance(root, Param):
        return Work(glob=1, latency=target.cycles("global") if load else 0)
    return Work(lsu=1, latency=target.cycles("shared") if load else 0) if root.storage == "shared" else NOTHING


class _Body:
    """Counts a map's body: `varying` once for each register, `fixed` once for each row."""

    def __init__(self, target: Target, op: hw.RegMap) -> None:
        self._target = target
        self.varying = self.fixed = NOTHING
        columns = op.iterators[1:] or op.iterators
        self._varies: set[Value] = set(columns)
        self._dims = len(op.iterators)
        self._written = {o.frag.frag for o in op.body.walk() if isinstance(o, scalar.FragWrite)}
        if op.row_body is not None:
            self._block(op.row_body, 1, row=True)
        self._block(op.body, 1, row=False)

    def _block(self, block: Block, trips: float, *, row: bool) -> None:
        for op in block.ops:
            varies = not row and self._mark(op)
            work = elements[op](self._target, op).times(trips)
            if varies:
                self.varying += work
            else:
                self.fixed += work
            inner = trips * _trips(op)
            for region in op.regions():
                self._block(region, inner, row=row)

    def _mark(self, op: Op) -> bool:
        """Whether an operation's result differs along a row."""
        varies = any(value in self._varies for value in op.operands())
        if isinstance(op, (scalar.FragRead, scalar.FragWrite)):
            varies = len(op.indices) >= self._dims or op.frag.frag in self._written
        elif isinstance(op, (scalar.VarGet, scalar.VarSet, scalar.LoadElement, scalar.StoreElement)):
            varies = True
        if varies:
            self._varies.update(op.results())
        return varies


def _trips(op: Op) -> float:
    if not isinstance(op, scalar.For):
        return 1
    count = op.count.op
    return float(count.value) if isinstance(count, scalar.Const) else 1


@elements(scalar.Const, scalar.Symbol, scalar.ThreadIndex, scalar.BlockIndex, scalar.FragRead)
@elements(scalar.VarDeclare, scalar.VarGet, scalar.VarSet, scalar.For, scalar.While, scalar.Break, scalar.Continue)
@elements(scalar.Call)
def _free(target: Target, op: Op) -> Work:
    return NOTHING


@elements(scalar.Select, scalar.If)
def _choice(target: Target, op: scalar.Select | scalar.If) -> Work:
    return Work(alu=1)


@elements(scalar.Math)
def _math(target: Target, op: scalar.Math) -> Work:
    return Work(**FUNCTIONS[op.fn].work)


@elements(scalar.Cast)
def _cast(target: Target, op: scalar.Cast) -> Work:
    return _conversion(op.operand.type, op.result.type)


@elements(scalar.Unary)
def _unary(target: Target, op: scalar.Unary) -> Work:
    return NOTHING if op.result.type in FLOATS else Work(alu=0.5)


@elements(scalar.FragWrite)
def _frag_write(target: Target, op: scalar.FragWrite) -> Work:
    constant = op.value.op is None or isinstance(op.value.op, scalar.Const)
    return Work(other=1) if constant else NOTHING


@elements(scalar.Binary)
def _binary(target: Target, op: scalar.Binary) -> Work:
    return Work(**((op.left.type in FLOATS and OPERATORS[op.op].floats) or OPERATORS[op.op].work))
