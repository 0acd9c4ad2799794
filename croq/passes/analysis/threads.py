"""What a value looks like across the threads of a CTA: fixed numbers, the same everywhere, or different.

Three questions that participation, election and barrier counts rest on:

* `static(v)`: the value in every thread, where it follows from the thread index and constants alone;
* `varies(v)`: may two threads that execute the same code see different values;
* `groups(values, threads)`: which threads certainly agree on all of `values`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

import croq.numbers as numbers
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel, Variable
from croq.ir.scalar import (
    Assignment,
    Binary,
    Call,
    Cast,
    Const,
    For,
    If,
    LoadElement,
    Select,
    ThreadIndex,
    Unary,
    VarGet,
    VarSet,
)
from croq.ir.types import INTEGERS, ThreadSet
from croq.operators import OPERATORS

Mask = NDArray[np.bool_]  # [threads]: who executes


class ThreadAnalysis:
    """Of one kernel as it is at construction; make a new one after rewriting."""

    def __init__(self, kernel: Kernel) -> None:
        self.threads = kernel.threads
        self.definition: dict[Value, Op] = {}
        for op in kernel.walk():
            for value in op.results():
                self.definition[value] = op
        self._static: dict[Value, NDArray[np.int64] | None] = {}
        self._varies: dict[Value, bool] = {}
        self._varying_vars: set[Variable] = set()
        self._diverging_loops: set[Op] = set()
        self._inside: dict[Block, Mask] = {}
        self._stores: dict[Variable, list[Mask]] = {}
        self._masks: dict[Op, Mask] = {}  # of the reads of variables
        self._collect(kernel.body, np.ones(self.threads, dtype=np.bool_))
        self._find_varying_variables(kernel.body)

    # ------------------------------------------------------------------------------------------------- static values
    def static(self, value: Value) -> NDArray[np.int64] | None:
        """[threads] int64 (bool as 0/1), or None."""
        if value not in self._static:
            self._static[value] = self._evaluate(value)
        return self._static[value]

    def _evaluate(self, value: Value) -> NDArray[np.int64] | None:
        op = self.definition.get(value)
        if op is None or any(v.type == "u64" for v in (value, *op.operands())):  # they need not fit in an int64
            return None
        if isinstance(op, ThreadIndex):
            return np.arange(self.threads, dtype=np.int64)
        if isinstance(op, Const) and not isinstance(op.value, float):
            if not -(1 << 63) <= int(op.value) < 1 << 63:
                return None  # no int64: a large u64 is a constant all the same (`_decide`)
            return np.full(self.threads, int(op.value), dtype=np.int64)
        operands = [self.static(operand) for operand in op.operands()]
        known = [operand for operand in operands if operand is not None]
        return self._combine(op, known) if known and len(known) == len(operands) else None

    @staticmethod
    def _combine(op: Op, operands: list[NDArray[np.int64]]) -> NDArray[np.int64] | None:
        if isinstance(op, Binary):
            result = _binary(op.op, *operands)
            return None if result is None else _wrapped(result, op.result.type)
        if isinstance(op, Unary):
            return _wrapped(_unary(op.op, *operands), op.result.type)
        if isinstance(op, Select):
            condition, then, otherwise = operands
            return np.asarray(np.where(condition != 0, then, otherwise), dtype=np.int64)
        if isinstance(op, Cast) and op.result.type in (*INTEGERS, "bool"):
            return _wrapped(operands[0], op.result.type)
        return None

    # ---------------------------------------------------------------------------------------------------- uniformity
    def varies(self, value: Value) -> bool:
        if value not in self._varies:
            self._varies[value] = True  # a cycle is impossible; this is for a value asked about while being decided
            self._varies[value] = self._decide(value)
        return self._varies[value]

    def _decide(self, value: Value) -> bool:
        known = self.static(value)
        if known is not None:
            return bool(self.threads) and bool((known != known[0]).any())
        op = self.definition.get(value)
        if isinstance(op, VarGet):
            return op.var in self._varying_vars or self._set_by_some(op)
        if isinstance(op, For):
            return self.varies(op.count)
        if op is None or isinstance(op, (ThreadIndex, Call)) or op.CONTROL == "map":
            return True
        if isinstance(op, LoadElement):
            return any(self.varies(v) for v in op.operands())
        if op.PURE:
            return any(self.varies(v) for v in op.operands())
        return value.type != "future"

    def exits_apart(self, loop: Op) -> bool:
        """Whether threads that run the loop together may leave it, or one of its iterations, at different times."""
        return loop in self._diverging_loops

    def _collect(self, block: Block, mask: Mask) -> None:
        """Which threads run each region, as far as static conditions say, and so read and assign variables."""
        self._inside[block] = mask
        for op in block.ops:
            if isinstance(op, VarGet):
                self._masks[op] = mask
            elif isinstance(op, Assignment):
                self._stores.setdefault(op.var, []).append(mask)
            known = self._known_condition(op)
            for region in op.regions():
                if known is None:
                    self._collect(region, mask)
                else:
                    other = isinstance(op, If) and region is op.otherwise
                    self._collect(region, mask & ((known == 0) if other else (known != 0)))

    def _known_condition(self, op: Op) -> NDArray[np.int64] | None:
        condition = op.decided_by if op.CONTROL in ("branch", "threads") else None
        return None if condition is None else self.static(condition)

    def _find_varying_variables(self, body: Block) -> None:
        """A variable varies when a varying value is stored in it, or any value under control flow that varies."""
        while True:
            before = len(self._varying_vars), len(self._diverging_loops)
            self._varies.clear()
            self._visit(body, divergent=False, loop=None, apart=False)
            if (len(self._varying_vars), len(self._diverging_loops)) == before:
                return

    def _visit(self, block: Block, divergent: bool, loop: Op | None, apart: bool) -> None:
        """`divergent`: the threads of one *role* may disagree about running the block; roles themselves do not count.

        `apart`: the threads that run `loop` together may disagree, roles and other static conditions included.
        """
        for op in block.ops:
            if isinstance(op, Assignment):
                if self.varies(op.value) or (divergent and isinstance(op, VarSet)):
                    self._varying_vars.add(op.var)
            elif op.CONTROL == "exit" and apart and loop is not None:
                self._diverging_loops.add(loop)
            known = self._known_condition(op)
            here = known[self._inside[block]] != 0 if known is not None else None
            uneven = here is None and self._branches_apart(op)
            split = uneven or (here is not None and bool(here.any() and not here.all()))
            for region in op.regions():
                if op.CONTROL == "loop":
                    self._visit(region, divergent or uneven, op, False)
                else:
                    self._visit(region, divergent or uneven, loop, apart or split)

    def _branches_apart(self, op: Op) -> bool:
        """Whether threads may disagree about running the operation's regions, for other reasons than static ones."""
        varies = op.decided_by is not None and self.varies(op.decided_by)
        return varies or op in self._diverging_loops or op.CONTROL == "map"

    def _set_by_some(self, read: VarGet) -> bool:
        """Whether only some of the threads that read the variable here have run one of its assignments."""
        mask = self._masks.get(read)
        if mask is None:
            return False
        return any(store[mask].any() and not store[mask].all() for store in self._stores[read.var])

    # --------------------------------------------------------------------------------------------------------- groups
    def groups(self, values: Iterable[Value], threads: ThreadSet) -> list[ThreadSet]:
        """The coarsest partition of `threads` inside whose parts every one of `values` is certainly the same."""
        values = list(values)
        parts: dict[Hashable, list[int]] = {}
        for thread in threads:
            parts.setdefault(tuple(self._key(v, thread) for v in values), []).append(thread)
        return [ThreadSet.of(part) for part in parts.values()]

    def _key(self, value: Value, thread: int) -> Hashable:
        known = self.static(value)
        if known is not None:
            return int(known[thread])
        if not self.varies(value):
            return ("same", id(value))
        op = self.definition.get(value)
        if op is not None and op.PURE:
            fixed = getattr(op, "op", None) or getattr(op, "fn", None)
            return (op.NAME, fixed, value.type, *(self._key(v, thread) for v in op.operands()))
        return ("thread", thread, id(value))


def _wrapped(value: NDArray[np.int64], type: str) -> NDArray[np.int64]:
    """Two's complement of the type's width."""
    if type == "bool":
        return np.not_equal(value, 0).astype(np.int64)
    bits = int(type[1:]) if type in INTEGERS else 64
    if bits == 64:
        return value
    low: NDArray[np.int64] = value & ((1 << bits) - 1)
    if type[0] == "s":
        low -= (low >> (bits - 1)) << bits
    return low


def _unary(op: str, operand: NDArray[np.int64]) -> NDArray[np.int64]:
    if op == "neg":
        return -operand
    return ~operand if op == "not" else (operand == 0).astype(np.int64)


def _binary(op: str, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if op in numbers.DIVISIONS:
        if (right == 0).any():
            return None
        quotient = (np.abs(left) // np.abs(right) * np.sign(left) * np.sign(right)).astype(np.int64)
        if op == "div":
            return quotient
        return left - quotient * right if op == "mod" else -(-left // right)
    if op in numbers.SHIFTS:
        right = np.where((right < 0) | (right > 63), 63, right)  # amounts are clamped, and all bits are gone by then
    return np.asarray(OPERATORS[op].vector(left, right)).astype(np.int64)
