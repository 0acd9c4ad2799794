"""Which integer operations may meet operands for which C++ has no result, and are `guarded` therefore.

The language defines every integer operation (croq.numbers, docs/language.md); C++ does not, and the compiler behind
croq makes use of it: `x * 2 / 2` becomes `x`. A guarded operation is emitted as a function of the runtime that is right
for all operands. Where the intervals of the operands show that the plain operator is, it stays: indices, counts and
coordinates keep the form that compilers know how to strengthen.

G1  A sum, difference, product or negation is guarded where the exact result may leave the type in which C++ computes
    it: the own one from 32 bits on, `int` for narrower ones. Unsigned types of 32 and 64 bits wrap in C++, too.
    C++17 [expr.pre]
G2  A shift is guarded where the amount may be negative or reach the width of that type, or where a left shift of a
    signed value may leave the type. C++17 [expr.shift]
G3  A division is guarded where the divisor may be 0, or -1 under the smallest value of the type. C++17 [expr.mul]

Intervals come from the bounds that values carry, extents (which binding checks against MAX_EXTENT), the grid's limits,
the number of threads and constants; a variable may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import croq.numbers as numbers
from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel
from croq.ir.rewrite import known_interval
from croq.ir.scalar import Binary, BlockIndex, Cast, Const, For, Select, Symbol, ThreadIndex, Unary
from croq.ir.types import INTEGERS
from croq.numbers import Interval
from croq.passes.base import Pass
from croq.target.cuda import MAX_GRID


@dataclass(frozen=True)
class Ranges(Pass):
    name: ClassVar[str] = "ranges"
    needs = ("simplify",)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Ranges(kernel).block(kernel.body)


class _Ranges:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scalars = {param.name for param in kernel.params if param.shape is None}
        self.known: dict[Value, Interval] = {}

    def block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, For):
                self.known[op.iv] = 0, max(self.of(op.count)[1] - 1, 0)
            elif isinstance(op, Binary) and op.left.type in INTEGERS:
                self._binary(op)
            elif isinstance(op, Unary) and op.op == "neg" and op.operand.type in INTEGERS:
                self._negation(op)
            else:
                self._leaf(op)
            for region in op.regions():
                self.block(region)

    def of(self, value: Value) -> Interval:
        """Where an integer value lies; iterators of maps carry their bounds."""
        low, high = self.known.get(value) or numbers.limits(value.type)
        bounds = known_interval(value) or (low, high)
        return max(low, bounds[0]), min(high, bounds[1])

    def _binary(self, op: Binary) -> None:
        left, right, type = self.of(op.left), self.of(op.right), op.left.type
        if op.op in numbers.ARITHMETIC:
            self.known[op.result] = numbers.interval(op.op, left, right, type)
            op.guarded = _needs_guard(op.op, left, right, type) or None

    def _negation(self, op: Unary) -> None:
        low, high = self.of(op.operand)
        type = op.result.type
        self.known[op.result] = numbers.interval("sub", (0, 0), (low, high), type)
        op.guarded = _needs_guard("sub", (0, 0), (low, high), type) or None

    def _leaf(self, op: Op) -> None:
        result = getattr(op, "result", None)
        if not isinstance(result, Value) or result.type not in INTEGERS:
            return
        found = self._found(op)
        if found is not None and numbers.fits(found, result.type):
            self.known[result] = found

    def _found(self, op: Op) -> Interval | None:
        if isinstance(op, Const):
            return int(op.value), int(op.value)
        if isinstance(op, ThreadIndex):
            return 0, self.kernel.threads - 1
        if isinstance(op, BlockIndex):
            return 0, min(self.kernel.grid[op.axis].interval()[1], MAX_GRID[op.axis]) - 1
        if isinstance(op, Symbol):
            return None if op.symbol in self.scalars else (1, numbers.MAX_EXTENT)
        if isinstance(op, Cast) and op.operand.type in INTEGERS:
            return self.of(op.operand)
        if isinstance(op, Select):
            a, b = self.of(op.then), self.of(op.otherwise)
            return min(a[0], b[0]), max(a[1], b[1])
        return None


_COMPUTED_IN: Mapping[str, str] = dict.fromkeys(("s8", "u8", "s16", "u16"), "s32")  # C++17 [conv.prom]


def _needs_guard(op: str, left: Interval, right: Interval, type: str) -> bool:
    cpp = _COMPUTED_IN.get(type, type)
    signed = cpp[0] == "s"
    if op in numbers.DIVISIONS:  # G3
        zero = right[0] <= 0 <= right[1]
        return zero or (signed and right[0] <= -1 <= right[1] and left[0] == numbers.limits(cpp)[0])
    if op in numbers.SHIFTS:  # G2
        if not (right[0] >= 0 and right[1] < numbers.WIDTHS[cpp]):
            return True
        return op == "shl" and signed and (left[0] < 0 or not numbers.fits(_exact(op, left, right), cpp))
    return op in ("add", "sub", "mul") and signed and not numbers.fits(_exact(op, left, right), cpp)  # G1


def _exact(op: str, left: Interval, right: Interval) -> Interval:
    return numbers.ARITHMETIC[op].interval(left, right)
