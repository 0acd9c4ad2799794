"""What operations cost in modelled time: cycles of an SM, as a table, and how register statements are counted with it.

The table is all that the model knows of the chip. `measured` entries come from microbenchmarks on an H200, the others
are estimates; docs/timelines.md shows the table and a test keeps the two equal. Each SM quarter (the warps whose index
is equal modulo 4) has pipes of its own: a statement occupies them for the cycles counted here, and warps that want the
same pipe at the same time share it.
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


@dataclass(frozen=True)
class Cost:
    """`value` in the unit that `what` says, cycles where it says none."""

    value: float
    measured: bool
    what: str


COSTS: dict[str, Cost] = {
    # pipes of an SM quarter, cycles for one instruction of a warp
    "issue": Cost(1, False, "any instruction, in the scheduler"),
    "fma": Cost(1.08, True, "FADD, FMUL, FFMA"),
    "alu": Cost(2.1, True, "FMNMX, compare, select, integer arithmetic (measured: FMNMX; F2FP 2.2)"),
    "xu": Cost(8, True, "MUFU: exp2, reciprocal, square root, logarithm, tanh"),
    "lsu": Cost(4, False, "shared memory: 4 bytes a lane, or one shuffle"),
    "lsu.global": Cost(8, False, "global memory: 4 bytes a lane"),
    "fma.under_mma": Cost(1.12, True, "factor on `fma` while the tensor cores work (1.08 -> 1.21)"),
    "alu.under_mma": Cost(1.95, True, "factor on `alu` while the tensor cores work (2.1 -> 4.1)"),
    # latencies
    "statement": Cost(16, False, "the last result of a register statement, after its last instruction"),
    "shuffle": Cost(24, False, "the result of a shuffle"),
    "shared": Cost(30, False, "the result of a load from shared memory"),
    "global": Cost(600, False, "the result of a load from global memory (most hit L2)"),
    "call": Cost(50, False, "a call of a device function, beside one `fma` a register of its fragments"),
    # barriers
    "mbarrier.poll": Cost(65, True, "an mbarrier wait that finds its phase complete (60 to 90)"),
    "mbarrier.wake": Cost(25, False, "from the completion of a phase until a warp that waits goes on"),
    "mbarrier.arrive": Cost(20, False, "an arrival, until it counts; also expect_tx"),
    "bar": Cost(25, False, "bar.sync and bar.arrive, after the last arrival"),
    "setmaxnreg": Cost(30, False, "setmaxnreg"),
    "fence": Cost(10, False, "fence.proxy_async, mbarrier.init"),
    # tensor cores
    "wgmma": Cost(64, True, "m64n128k16 on the tensor cores; other widths in proportion to n, at least 16"),
    "wgmma.issue": Cost(18, True, "one wgmma instruction in the warp that issues it (8 in 150)"),
    "wgmma.queue": Cost(8, True, "instructions that a warpgroup can have in flight; the next one waits"),
    "wgmma.latency": Cost(64, True, "from the end of the last instruction until a wait sees it (64 to 83)"),
    "wgmma.wait": Cost(7, True, "a wgmma.wait that has nothing to wait for"),
    "wgmma.fence": Cost(2, False, "wgmma.fence, wgmma.commit"),
    # copies
    "tma.issue": Cost(20, False, "one TMA instruction in the thread that issues it; also commit and wait of a group"),
    "tma.latency": Cost(650, False, "a TMA load, until its first byte is there (most hit L2)"),
    "tma.store": Cost(300, False, "a TMA store, until its source is read"),
    "tma.bytes": Cost(64, False, "bytes a cycle between L2 and the SM, loads and stores apart"),
    "copy.batch": Cost(8, False, "loads that a thread has in flight in a copy by all threads"),
}  # fmt: skip


def cycles(name: str) -> float:
    return COSTS[name].value


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

    @property
    def pipes(self) -> tuple[float, float, float, float, float]:
        """Cycles for which issue, FMA, ALU, XU and LSU are occupied, tensor cores idle."""
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
Price = Callable[[Any], Work]
statements = Rules[Price]("costs of register statements", lambda kind: lowered(kind) and kind.REGISTERS)
statements.without("no instruction", scalar.FragDeclare)
elements = Rules[Price]("costs inside of maps", lambda kind: kind.ORDINARY)


def of_statement(op: Op) -> Work:
    """An operation on whole fragments, or an element access or call outside of maps. Nothing for what is free."""
    return statements[op](op)


def _tail() -> Work:
    return Work(latency=cycles("statement"))


@statements(hw.RegMap)
def of_map(op: hw.RegMap) -> Work:
    """A map: what varies along a row once a register, the rest once a row."""
    registers = _registers(op.domain.frag)
    rows = registers if len(op.iterators) < 2 else _rows(op.domain.frag)
    counter = _Body(op)
    return counter.varying.times(registers) + counter.fixed.times(rows) + _tail()


@statements(hw.RegFill)
def _fill(op: hw.RegFill) -> Work:
    return Work(other=_registers(op.frag.frag)) + _tail()


@statements(hw.RegCopy)
def _copy(op: hw.RegCopy) -> Work:
    return _conversion(op.source.frag.type, op.dest.frag.type).times(_registers(op.source.frag)) + _tail()


@statements(hw.RegReduceRow)
def _reduce(op: hw.RegReduceRow) -> Work:
    return _combine(op.kind).times(_registers(op.source.frag)) + _tail()


@statements(hw.RegShuffleReduce)
def _shuffle(op: hw.RegShuffleReduce) -> Work:
    rounds = op.lanes.bit_length() - 1
    each = (Work(lsu=1) + _combine(op.kind)).times(_registers(op.frag.frag))
    return each.times(rounds) + Work(latency=rounds * cycles("shuffle"))


@statements(scalar.Call)
def _call(op: scalar.Call) -> Work:
    registers = sum(_registers(a.frag) for a in op.args if isinstance(a, FragRef))
    return Work(fma=registers, latency=cycles("call"))


def of_copy(pieces: int, piece_bytes: int, *, loads: bool, shared: bool) -> Work:
    """A warp's share of a copy (or fill) by all threads: `pieces` a thread; latency of the loads batch by batch."""
    words = pieces * max(1, piece_bytes // 4)
    batches = -(-pieces // int(cycles("copy.batch")))
    latency = batches * cycles("global") if loads else cycles("statement")
    return Work(glob=words if loads or not shared else 0, lsu=words if shared else 0, latency=latency)


def mma_instructions(op: hw.WgmmaIssue) -> tuple[int, float]:
    """How many instructions an MMA has, and the cycles that each occupies the tensor cores."""
    return op.m // 64 * (op.k // op.k_step), max(16.0, cycles("wgmma") * op.n / 128)


def _registers(fragment: Fragment) -> int:
    """Elements that a lane holds."""
    assert fragment.layout is not None
    return fragment.layout.registers


def _rows(fragment: Fragment) -> int:
    """Rows that a lane holds parts of: two of each 64-row block of an accumulator."""
    assert fragment.shape is not None
    return max(1, 2 * fragment.shape[0] // 64)


def _combine(kind: str) -> Work:
    return Work(alu=1) if kind == "max" else Work(fma=1)


def _conversion(source: str | None, dest: str | None) -> Work:
    """One element. Two floats are packed by one instruction; unpacking and the rest take one each."""
    if source == dest or source is None or dest is None:
        return NOTHING
    if (source in FLOATS) != (dest in FLOATS):
        return Work(xu=0.5)
    return Work(alu=0.5) if BYTES[dest] < BYTES[source] else Work(alu=1)


@statements(hw.RegStore)
def _store(op: hw.RegStore) -> Work:
    source, dest = op.frag.frag.type, op.dest.root.type
    registers = _registers(op.frag.frag)
    words = registers * BYTES[dest] / 4
    place = Work(glob=words) if isinstance(op.dest.root, Param) else Work(lsu=words)
    return _conversion(source, dest).times(registers) + place + _tail()


@statements(scalar.LoadElement, scalar.StoreElement)
@elements(scalar.LoadElement, scalar.StoreElement)
def _element(op: scalar.LoadElement | scalar.StoreElement) -> Work:
    root, load = op.view.root, isinstance(op, scalar.LoadElement)
    if isinstance(root, Param):
        return Work(glob=1, latency=cycles("global") if load else 0)
    return Work(lsu=1, latency=cycles("shared") if load else 0) if root.storage == "shared" else NOTHING


class _Body:
    """Counts a map's body: `varying` once for each register, `fixed` once for each row."""

    def __init__(self, op: hw.RegMap) -> None:
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
            work = elements[op](op).times(trips)
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
def _free(op: Op) -> Work:
    return NOTHING


@elements(scalar.Select, scalar.If)
def _choice(op: scalar.Select | scalar.If) -> Work:
    return Work(alu=1)


@elements(scalar.Math)
def _math(op: scalar.Math) -> Work:
    return Work(**FUNCTIONS[op.fn].work)


@elements(scalar.Cast)
def _cast(op: scalar.Cast) -> Work:
    return _conversion(op.operand.type, op.result.type)


@elements(scalar.Unary)
def _unary(op: scalar.Unary) -> Work:
    return NOTHING if op.result.type in FLOATS else Work(alu=0.5)


@elements(scalar.FragWrite)
def _frag_write(op: scalar.FragWrite) -> Work:
    constant = op.value.op is None or isinstance(op.value.op, scalar.Const)
    return Work(other=1) if constant else NOTHING


@elements(scalar.Binary)
def _binary(op: scalar.Binary) -> Work:
    if op.left.type not in FLOATS:
        return Work(alu=2 if op.op in ("div", "mod", "cdiv") else 1)
    if op.op == "div":
        return Work(xu=1, fma=2)
    return Work(fma=1) if op.op in ("add", "sub", "mul") else Work(alu=1)
