"""Which threads trigger one generation of an event, where trigger sites take turns.

A site that triggers `e.at(order)` takes part in the generations that `order` can name. What is known of an order is
its remainder: `2 * k + 1` is odd, whatever `k` is; a counter that starts at 0 and goes up in steps of 2 is even. Sites
whose orders can never be equal do not act in one generation, and do not add up. Where an order begins and ends tells
sites apart as well:

    trigger empty.at(0)            by warpgroup 2      hands out the first two slots,
    trigger empty.at(1)
    trigger empty.at(k + 2)        by warpgroup 1      and goes on from there

    trigger empty.at(2 * k)        by warpgroup 0      every generation has the 4 warps of one of them,
    trigger empty.at(2 * k + 1)    by warpgroup 1      not the 8 of both

`e[i]` is followed the same way, as far as slots are told apart. Whatever cannot be followed counts as any order at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from croq.ir.core import Op, Value
from croq.ir.objects import Event, EventRef, Kernel, Variable
from croq.ir.scalar import Assignment, Binary, Cast, Const, For, Unary, VarGet, VarSet
from croq.ir.tile import EventTrigger
from croq.ir.types import ThreadSet
from croq.passes.analysis.threads import ThreadAnalysis

MOST_CLASSES = 256  # of remainders that are told apart


@dataclass(frozen=True)
class Remainder:
    """Integers `rest + modulus * n`, with a `rest` for each thread of the CTA; modulus 0: exactly `rest`."""

    modulus: int
    rest: NDArray[np.int64]

    def plus(self, other: Remainder, sign: int = 1) -> Remainder:
        return _reduced(gcd(self.modulus, other.modulus), self.rest + sign * other.rest)

    def times(self, factor: int) -> Remainder:
        return _reduced(self.modulus * abs(factor), self.rest * factor)


@dataclass(frozen=True)
class Site:
    """One reference of a trigger: what is known of its orders, and who arrives."""

    remainder: Remainder
    low: int | None  # no order is smaller
    high: int | None  # nor larger
    threads: ThreadSet

    @property
    def orders(self) -> range | None:
        """All orders, where they are few."""
        few = self.low is not None and self.high is not None and self.high - self.low < MOST_CLASSES
        return range(self.low or 0, (self.high or 0) + 1) if few else None


def generations(event: Event, triggers: list[EventTrigger], remainders: Remainders) -> dict[int | None, ThreadSet]:
    """The threads of each class of generations; under None those of all that nothing tells apart."""
    sites = [
        Site(remainders.of_ref(ref), *remainders.bounds(ref.order), op.threads or ThreadSet(()))
        for op in triggers
        for ref in op.refs
        if ref.event is event
    ]
    early = [site for site in sites if site.orders is not None]
    late = [site for site in sites if site.orders is None]
    first = max((site.high or 0 for site in early), default=0) + 1
    if not early or not late or any(site.low is None or site.low < first for site in late):
        return _classes(sites)
    numbers = {n for site in early for n in site.orders or ()}
    found: dict[int | None, ThreadSet] = {
        n: ThreadSet.of(t for site in early if n in (site.orders or ()) for t in site.threads) for n in sorted(numbers)
    }
    later = _classes(late)  # classes of numbers, of which the smallest that is late stands for each
    return found | {n if n is None else n + -(-max(first - n, 0) // len(later)) * len(later): later[n] for n in later}


def _classes(sites: list[Site]) -> dict[int | None, ThreadSet]:
    moduli = [site.remainder.modulus for site in sites if site.remainder.modulus]
    exact = {int(r) for s in sites if not s.remainder.modulus for r in s.remainder.rest[list(s.threads)]}
    classes = lcm(*moduli) if moduli else 0
    if classes == 1 or classes > MOST_CLASSES or not sites:
        return {None: ThreadSet.of(t for site in sites for t in site.threads)}
    found: dict[int | None, ThreadSet] = {}
    for number in range(classes) if classes else sorted(exact):
        acting: list[int] = []
        for site in sites:
            modulus = gcd(site.remainder.modulus, classes)
            acting += [t for t in site.threads if _same(int(site.remainder.rest[t]), number, modulus)]
        if acting:
            found[number] = ThreadSet.of(set(acting))
    return found


@dataclass
class Remainders:
    """What is known of the integers of a kernel as it is at construction."""

    kernel: Kernel
    analysis: ThreadAnalysis
    stores: dict[Variable, list[Value]] = field(default_factory=dict)
    known: dict[Value, Remainder] = field(default_factory=dict)
    variables: dict[Variable, Remainder] = field(default_factory=dict)
    setters: dict[Variable, list[Op]] = field(default_factory=dict)
    uniform: dict[Value, bool] = field(default_factory=dict)
    counters: set[Value] = field(default_factory=set)  # of loops
    least: dict[Variable, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.kernel.walk():
            if isinstance(op, For):
                self.counters.add(op.iv)
            elif isinstance(op, Assignment):
                self.stores.setdefault(op.var, []).append(op.value)
                if isinstance(op, VarSet):
                    self.setters.setdefault(op.var, []).append(op)

    def same_in_warps(self, value: Value) -> bool:
        """Whether all threads of each warp certainly see one value."""
        if value not in self.uniform:
            self.uniform[value] = True  # a counter that only its own steps change
            self.uniform[value] = self._same_in_warps(value)
        return self.uniform[value]

    def _same_in_warps(self, value: Value) -> bool:
        static = self.analysis.static(value)
        if static is not None:
            return all(bool((static[at : at + 32] == static[at]).all()) for at in range(0, len(static), 32))
        if not self.analysis.varies(value):
            return True
        op = value.op
        if isinstance(op, VarGet):  # sets under control flow that splits a warp have no threads, or parts of warps
            sets = self.setters.get(op.var, [])
            whole = all(s.threads is not None and s.threads.whole_warps() for s in sets)
            return whole and all(self.same_in_warps(v) for v in self.stores.get(op.var, []))
        return op is not None and op.PURE and all(self.same_in_warps(v) for v in op.operands())

    def of_ref(self, ref: EventRef) -> Remainder:
        """Of the order; of the slot where there is only that; a scalar event's generations are not told apart."""
        if ref.order is not None:
            return self.of(ref.order)
        if ref.slot is None:
            return self._anything()
        slot = self.of(ref.slot)
        return slot if not slot.modulus else _reduced(gcd(slot.modulus, ref.event.slots), slot.rest)

    def may_be(self, value: Value | int | None, number: int, thread: int) -> bool:
        """Whether a slot can have the number in the thread; None is slot 0."""
        if not isinstance(value, Value):
            return (value or 0) == number
        if value.bounds is not None and not value.bounds[0] <= number < value.bounds[1]:
            return False
        known = self.of(value)
        return _same(int(known.rest[thread]), number, known.modulus)

    def bounds(self, order: Value | None) -> tuple[int | None, int | None]:
        """The smallest and the largest value that an order can have, as far as they are known."""
        if order is None:
            return None, None
        if order.bounds is not None:
            return order.bounds[0], order.bounds[1] - 1
        static = self.analysis.static(order)
        if static is not None:
            return int(static.min()), int(static.max())
        return self._least(order), None

    def _least(self, value: Value) -> int | None:
        op = value.op
        if value.bounds is not None:
            return value.bounds[0]
        if isinstance(op, Const) and isinstance(op.value, int):
            return op.value
        if value in self.counters:
            return 0
        if isinstance(op, Cast) and op.operand.type in ("s32", "u32", "s64", "u64"):
            least = self._least(op.operand)
            return least if least is not None and least >= 0 else None
        if isinstance(op, VarGet):
            return self._least_of_variable(op.var)
        if isinstance(op, Binary) and op.op in ("add", "mul"):
            left, right = self._least(op.left), self._least(op.right)
            if left is None or right is None or (op.op == "mul" and min(left, right) < 0):
                return None
            return left + right if op.op == "add" else left * right
        return None

    def _least_of_variable(self, var: Variable) -> int | None:
        """A counter that goes up from its first values."""
        if var in self.least:
            return self.least[var]
        self.least[var] = None  # while it is being found out
        steps = {value: self._step(var, value) for value in self.stores.get(var, [])}
        starts = [self._least(value) for value, step in steps.items() if step is None]
        rising = all(step is None or step >= 0 for step in steps.values())
        if starts and rising and None not in starts:
            self.least[var] = min(start for start in starts if start is not None)
        return self.least[var]

    def of(self, value: Value) -> Remainder:
        if value not in self.known:
            static = self.analysis.static(value)
            self.known[value] = self._find(value.op) if static is None else Remainder(0, static)
        return self.known[value]

    def _find(self, op: Op | None) -> Remainder:
        if isinstance(op, Cast) and op.operand.type in ("s32", "u32", "s64", "u64"):
            return self.of(op.operand)
        if isinstance(op, Unary) and op.op == "neg":
            return self.of(op.operand).times(-1)
        if isinstance(op, VarGet):
            return self._variable(op.var)
        if isinstance(op, Binary):
            return self._binary(op)
        return self._anything()

    def _binary(self, op: Binary) -> Remainder:
        left, right = self.of(op.left), self.of(op.right)
        if op.op in ("add", "sub"):
            return left.plus(right, 1 if op.op == "add" else -1)
        factor, other = (_constant(right), left) if _constant(right) is not None else (_constant(left), right)
        if op.op == "mul" and factor is not None:
            return other.times(factor)
        amount = _constant(right)
        if op.op == "shl" and amount is not None and 0 <= amount < 32:
            return left.times(1 << amount)
        if op.op == "mod" and amount:
            return _reduced(gcd(left.modulus, amount), left.rest)
        return self._anything()

    def _variable(self, var: Variable) -> Remainder:
        """A counter: its first values, and the steps by which it goes on from itself."""
        if var not in self.variables:
            self.variables[var] = self._anything()  # while it is being found out
            steps = {value: self._step(var, value) for value in self.stores.get(var, [])}
            start: Remainder | None = None
            for value, step in steps.items():
                start = start if step is not None else _joined(start, self.of(value))
            if start is not None:
                modulus = gcd(start.modulus, *(step for step in steps.values() if step is not None))
                self.variables[var] = _reduced(modulus, start.rest)
        return self.variables[var]

    def _step(self, var: Variable, value: Value) -> int | None:
        op = value.op
        if not isinstance(op, Binary) or op.op not in ("add", "sub"):
            return None
        sides = [(op.left, op.right)] if op.op == "sub" else [(op.left, op.right), (op.right, op.left)]
        for own, amount in sides:
            if isinstance(own.op, VarGet) and own.op.var is var:
                return _constant(self.of(amount))
        return None

    def _anything(self) -> Remainder:
        return Remainder(1, np.zeros(self.kernel.threads, dtype=np.int64))


def _reduced(modulus: int, rest: NDArray[np.int64]) -> Remainder:
    return Remainder(modulus, rest % modulus if modulus else rest)


def _joined(a: Remainder | None, b: Remainder) -> Remainder:
    """What holds of a value that is one or the other."""
    if a is None:
        return b
    apart = np.unique(np.abs(a.rest - b.rest))
    return _reduced(gcd(a.modulus, b.modulus, *(int(d) for d in apart)), b.rest)


def _constant(value: Remainder) -> int | None:
    same = not value.modulus and bool((value.rest == value.rest[0]).all())
    return int(value.rest[0]) if same else None


def _same(rest: int, number: int, modulus: int) -> bool:
    return (rest - number) % modulus == 0 if modulus else rest == number
