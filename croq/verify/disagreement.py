"""Stores of several threads to one element, in one statement, of values that differ: which of them stays is open.

Every store of single elements is evaluated for all threads at once, with one set of sizes, in the first block and the
first iterations. Said is only what that shows: the same element, and values that differ there (numbers, or what
different elements of an array hold). What depends on more is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.diagnostics import Diagnostic, make
from croq.ir.core import Op, Value
from croq.ir.dispatch import Rules, lowered
from croq.ir.hw import Elect, RegMap, Section
from croq.ir.objects import Kernel, View
from croq.ir.scalar import (
    Binary,
    BlockIndex,
    Cast,
    Const,
    For,
    If,
    LoadElement,
    Select,
    StoreElement,
    Symbol,
    ThreadIndex,
    Unary,
    VarGet,
    While,
)
from croq.ir.types import INTEGERS
from croq.verify import hw
from croq.verify.program import Program
from croq.verify.slicing import evaluated

Row = NDArray[np.int64]  # one value a thread
SIZE = 4096  # of every symbol: divisions go into it, and all indices of a kernel are below it


def disagreements(kernel: Kernel) -> list[Diagnostic]:
    """A warning for each such store of a lowered kernel."""
    return list(_Threads(Program(kernel, hw.LEVEL)).found())


class _Threads:
    def __init__(self, program: Program) -> None:
        self.program, self.kernel = program, program.kernel
        self.slice = program.slice
        self._rows: dict[Value, Row | None] = {}

    def found(self) -> Iterator[Diagnostic]:
        for op, around in self.slice.around.items():
            shared = isinstance(op, StoreElement) and op.view.root.storage != "local"
            if isinstance(op, StoreElement) and shared and not any(isinstance(outer, Elect) for outer in around):
                threads = self._active(op)
                pair = self._pair(op, threads) if threads is not None else None
                if pair is not None:
                    yield self._warning(op, pair)

    def _warning(self, op: StoreElement, pair: tuple[int, int]) -> Diagnostic:
        root = op.view.root
        return make(
            "W-6014",
            op.span,
            f"threads {pair[0]} and {pair[1]} store different values to one element of `{root.name}`",
            severity="warning",
            labels=[(root.span, "declared here")] if root.span is not None else [],
            notes=["nothing orders stores of one statement by several threads: which value stays is open"],
            hint="let one thread store it, or give each thread an element of its own",
        )

    def _active(self, op: Op) -> NDArray[np.bool_] | None:
        """The threads that come to an operation; None where that is not known."""
        threads = np.zeros(self.program.lanes.threads, dtype=np.bool_)
        threads[: self.kernel.threads] = True
        inner = op
        for outer in reversed(self.slice.around[op]):
            goes_on = _GUARDS.get(outer)
            row = self.row(outer.decided_by) if outer.decided_by is not None else np.ones_like(threads, dtype=np.int64)
            if goes_on is None or row is None:
                return None
            threads &= goes_on(outer, row, inner)
            inner = outer
        return threads

    def _pair(self, op: StoreElement, threads: NDArray[np.bool_]) -> tuple[int, int] | None:
        """Two threads that store different values to one place."""
        places = self._places(op.view, op.indices)
        values = self._contents(op.value)
        if places is None or values is None:
            return None
        first: dict[tuple[int, ...], int] = {}
        for thread in np.flatnonzero(threads):
            other = first.setdefault(tuple(int(p[thread]) for p in places), int(thread))
            if any(v[other] != v[thread] for v in values):
                return other, int(thread)
        return None

    def _places(self, view: View, indices: tuple[Value, ...]) -> list[Row] | None:
        rows = [self._part(part) for part in (view.slot, *view.offsets, *indices)]
        return None if any(row is None for row in rows) else [row for row in rows if row is not None]

    def _part(self, part: Value | int | None) -> Row | None:
        return self.row(part) if isinstance(part, Value) else np.full(self.program.lanes.threads, part or 0)

    def _contents(self, value: Value) -> list[Row] | None:
        """Rows that are equal for two threads exactly where the values are: numbers, or places in an array."""
        op = self.slice.definition.get(value)
        while isinstance(op, Cast) or (isinstance(op, Unary) and op.op == "neg"):
            value = op.operand
            op = self.slice.definition.get(value)
        if isinstance(op, LoadElement):
            return self._places(op.view, op.indices)
        row = self.row(value)
        return [row] if row is not None else None

    # ------------------------------------------------------------------------------------------------------- values
    def row(self, value: Value) -> Row | None:
        if value not in self._rows:
            self._rows[value] = None  # a variable that depends on itself
            self._rows[value] = self._evaluate(value)
        return self._rows[value]

    def _evaluate(self, value: Value) -> Row | None:
        op = self.slice.definition.get(value)
        count = self.program.lanes.threads
        if isinstance(op, ThreadIndex):
            return np.arange(count, dtype=np.int64)
        if isinstance(op, BlockIndex | For):
            return np.zeros(count, dtype=np.int64)
        if isinstance(op, Symbol) and value.type in INTEGERS:
            return np.full(count, SIZE, dtype=np.int64)
        if isinstance(op, Const) and not isinstance(op.value, float):
            return np.full(count, int(op.value), dtype=np.int64)
        if isinstance(op, VarGet):
            given = self.program.expressions.given(op)
            return self.row(given[0]) if len(given) == 1 else None
        if isinstance(op, Binary | Unary | Select | Cast):
            parts = [self.row(v) for v in op.operands()]
            return evaluated(op, parts, count) if all(part is not None for part in parts) else None
        return None


Guard = Callable[[Any, Row, Op], Any]  # the threads that come to `inner`, of those that come to the operation
_GUARDS = Rules[Guard]("stores of several threads", lambda kind: lowered(kind) and bool(kind.REGIONS))
_GUARDS.without("one thread, which agrees with itself", Elect)
_GUARDS.without("runs once for each register, or as long as it takes: not followed", RegMap, While)


@_GUARDS(Section)
def _of_threads(op: Section, row: Row, inner: Op) -> Any:
    return row != 0


@_GUARDS(If)
def _on_its_side(op: If, row: Row, inner: Op) -> Any:
    return (row != 0) == (inner in op.then.ops)


@_GUARDS(For)
def _at_least_once(op: For, row: Row, inner: Op) -> Any:
    return row > 0
