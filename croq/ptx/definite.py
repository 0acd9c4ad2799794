"""Registers that may be read before they are written, and what follows them at run time.

A register that every path writes first needs no bookkeeping. For the few others (a compiler leaves them where the
source had no value) a bitmap says which threads have a value, and arithmetic passes its absence on; where it would
decide something or leave the registers, it is a fault. `selp` depends on the operand that it picks, and a `wgmma` that
does not accumulate on no accumulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.ptx.faults import PtxFault
from croq.ptx.syntax import Function, Group, Instruction, Mem, Negated, Operand, Pair, Reg, Sym, Vec

if TYPE_CHECKING:
    from croq.ptx.build import Builder
    from croq.ptx.registry import Form, Step

Array = np.ndarray[Any, Any]

_NO_RESULT = frozenset({
    "bar", "barrier", "nanosleep", "setmaxnreg", "bra", "brx", "exit", "ret", "call", "trap", "fence", "membar",
    "st", "red", "prefetch", "prefetchu", "griddepcontrol", "brkpt", "pmevent", "discard", "applypriority",
})  # fmt: skip
# What only computes: a missing value makes the result a missing value.
_PURE = frozenset({
    "mov", "add", "sub", "mul", "mad", "fma", "div", "rem", "abs", "neg", "min", "max", "sad", "and", "or",
    "xor", "not", "cnot", "shl", "shr", "shf", "bfe", "bfi", "bfind", "brev", "clz", "popc", "prmt", "lop3",
    "set", "setp", "selp", "slct", "testp", "copysign", "cvt", "cvta", "rcp", "sqrt", "rsqrt", "sin", "cos",
    "lg2", "ex2", "tanh", "mul24", "mad24", "dp4a", "dp2a", "addc", "subc", "madc", "fns", "szext", "bmsk",
    "isspacep",
})  # fmt: skip
_ENDS_PATH = frozenset({"exit", "ret", "trap", "brx", "bra"})


def registers_of(operands: Iterable[Operand]) -> Iterator[str]:
    """The names of the ordinary registers in operands."""
    for operand in operands:
        if isinstance(operand, Reg):
            if operand.type:
                yield operand.name
        elif isinstance(operand, (Vec, Group)):
            yield from registers_of(operand.items)
        elif isinstance(operand, Mem):
            yield from registers_of((operand.base, *operand.coordinates))
        elif isinstance(operand, Pair):
            yield from registers_of((operand.first, operand.second))
        elif isinstance(operand, Negated):
            yield from registers_of((operand.operand,))


def is_accumulation(ins: Instruction) -> bool:
    return ins.name == "wgmma" and "mma_async" in ins.modifiers


def results(ins: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction writes."""
    if not ins.operands or isinstance(ins.operands[0], (Mem, Sym)):
        return ()
    if ins.name in _NO_RESULT and not (ins.name in ("bar", "barrier") and "red" in ins.modifiers):
        return ()
    if ins.name in ("wgmma", "cp") and not is_accumulation(ins):
        return ()
    return ins.operands[:1]


def inputs(ins: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction reads, its guard included."""
    read = ins.operands if is_accumulation(ins) else ins.operands[len(results(ins)) :]
    return (*read, ins.guard) if ins.guard is not None else read


@dataclass
class Undefined:
    """`uses`: by instruction, the registers it reads that may hold nothing there; `names`: all of these."""

    uses: dict[int, frozenset[str]] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*self.uses.values())


class _Flow:
    """Which registers may hold nothing, forward over all paths; sets of registers are the bits of integers.

    An engine of its own: the one of the passes (croq/passes/analysis/flow.py) goes by the structure of the IR's blocks,
    PTX has labels and branches to anywhere; and who judges the compiler's work imports nothing of it.
    """

    def __init__(self, function: Function) -> None:
        self.body = function.body
        self.bits = {name: 1 << i for i, name in enumerate(function.registers)}
        self.reads = [self._set(inputs(ins)) for ins in self.body]
        self.writes = [self._set(results(ins)) for ins in self.body]
        self.labels = function.labels
        self.starts = sorted(
            {0}
            | {at for at in function.labels.values() if at >= 0}
            | {at + 1 for at, ins in enumerate(self.body) if ins.name in _ENDS_PATH}
        )
        self.entry: dict[int, int] = {0: (1 << len(self.bits)) - 1}

    def _set(self, operands: Iterable[Operand]) -> int:
        found = 0
        for name in registers_of(operands):
            found |= self.bits.get(name, 0)
        return found

    def solve(self) -> None:
        work = [0]
        while work:
            at = work.pop()
            after, followers = self.run(at)
            for follower in followers:
                old = self.entry.get(follower)
                new = after if old is None else old | after
                if new != old:
                    self.entry[follower] = new
                    work.append(follower)

    def run(self, at: int, uses: dict[int, int] | None = None) -> tuple[int, list[int]]:
        """Through one block: what may be undefined behind it, and the blocks that follow."""
        state = self.entry[at]
        starts = set(self.starts)
        while at < len(self.body):
            ins = self.body[at]
            missing = self.reads[at] & state
            if missing and uses is not None:
                uses[at] = missing
            state = self._after(ins, state, missing, self.writes[at])
            at += 1
            if ins.name in _ENDS_PATH:
                return state, self._targets(ins, at)
            if at in starts:
                break
        return state, [at] if at < len(self.body) else []

    def _after(self, ins: Instruction, state: int, missing: int, writes: int) -> int:
        if missing and ins.name in _PURE:
            return state | writes
        return state if ins.guard is not None else state & ~writes

    def _targets(self, ins: Instruction, after: int) -> list[int]:
        names = ins.targets or tuple(o.name for o in ins.operands if isinstance(o, Sym))
        found = [self.labels[n] for n in names if n in self.labels] if ins.name in ("bra", "brx") else []
        if ins.guard is not None:
            found.append(after)
        return [at for at in found if 0 <= at < len(self.body)]


def may_be_undefined(function: Function) -> Undefined:
    """The uses of registers that some path reaches without a value."""
    flow = _Flow(function)
    if not function.body:
        return Undefined()
    flow.solve()
    uses: dict[int, int] = {}
    for at in flow.entry:
        flow.run(at, uses)
    found = Undefined()
    for at, missing in uses.items():
        found.uses[at] = frozenset(n for n in registers_of(inputs(function.body[at])) if flow.bits.get(n, 0) & missing)
    return found


class Tracking:
    """Wraps steps that read or write registers which may hold nothing."""

    def __init__(self, function: Function, undefined: Undefined) -> None:
        self.names = undefined.names
        self.missing = {id(function.body[at]): names for at, names in undefined.uses.items()}

    def uses(self, ins: Instruction) -> frozenset[str]:
        return self.missing.get(id(ins), frozenset())

    def wrap(self, builder: Builder, form: Form, step: Step) -> Step:
        ins = form.instruction
        missing = self.uses(ins)
        written = [n for n in registers_of(results(ins)) if n in self.names]
        if not missing and not written:
            return step
        if missing and ins.name not in _PURE:
            step = self.checked(builder, ins, step)
            missing = frozenset()
        known = self._known(builder, form, missing)
        marks = [builder.defined_map(name) for name in written]

        def run(lanes: Any) -> None:
            found = known(lanes)
            step(lanes)
            for mark in marks:
                mark[lanes.sel] = found

        return run

    def checked(self, builder: Builder, ins: Instruction, step: Any) -> Any:
        """A step that must not act on a value that nothing has computed. Its accumulators it checks itself."""
        names = self.uses(ins)
        if is_accumulation(ins):
            names -= set(registers_of(ins.operands[:1]))
        marks = [(name, builder.defined_map(name)) for name in sorted(names)]
        if not marks:
            return step

        def run(lanes: Any) -> None:
            self.require(ins, marks, lanes)
            step(lanes)

        return run

    def checked_end(self, builder: Builder, ins: Instruction, end: Any) -> Any:
        """The same for what ends a block; what it writes has a value from then on."""
        written = [builder.defined_map(n) for n in registers_of(results(ins)) if n in self.names]
        names = self.uses(ins) - (set(registers_of(ins.operands[:1])) if is_accumulation(ins) else set())
        marks = [(name, builder.defined_map(name)) for name in sorted(names)]
        if not marks and not written:
            return end

        def run(machine: Any, group: Any) -> Any:
            self.require(ins, marks, group.lanes)
            lanes = group.lanes
            going = end(machine, group)
            for mark in written if group.wait is None else ():
                mark[lanes.sel] = True
            return going

        return run

    @staticmethod
    def require(ins: Instruction, marks: Iterable[tuple[str, Array]], lanes: Any) -> None:
        """Raises PtxFault E-7015 where a thread lacks a value."""
        for name, mark in marks:
            found = mark[lanes.sel]
            if not found.all():
                raise PtxFault(
                    "E-7015",
                    f"`{ins.opcode}` uses `{name.partition('@')[0]}`, which nothing has computed",
                    ins.place,
                    notes=[f"in {lanes.where(~found)}"],
                )

    def accumulators(self, builder: Builder, ins: Instruction) -> list[tuple[str, Array]]:
        """Those of a matrix product that may hold nothing when it begins."""
        names = self.uses(ins) & set(registers_of(ins.operands[:1]))
        return [(name, builder.defined_map(name)) for name in sorted(names)]

    def _known(self, builder: Builder, form: Form, missing: frozenset[str]) -> Any:
        """A function of lanes: where the result has a value."""
        if not missing:
            return lambda lanes: True
        if form.name == "selp":
            return self._picked(builder, form, missing)
        marks = [builder.defined_map(name) for name in missing]

        def known(lanes: Any) -> Any:
            found = marks[0][lanes.sel]
            for mark in marks[1:]:
                found = found & mark[lanes.sel]
            return found

        return known

    def _picked(self, builder: Builder, form: Form, missing: frozenset[str]) -> Any:
        _, first, second, choice = form.operands
        full = np.broadcast_to(np.array(True), (builder.threads,))

        def mark(operand: Operand) -> Array:
            return next((builder.defined_map(n) for n in registers_of([operand]) if n in missing), full)

        row, negated = builder.predicate(choice)
        a, b, c = mark(first), mark(second), mark(choice)
        return lambda lanes: np.where(row[lanes.sel] ^ negated, a[lanes.sel], b[lanes.sel]) & c[lanes.sel]
