"""Inputs that make scalar expressions what they are wanted to be.

An expression is inverted operation by operation, for one leaf at a time, over sets of integers (progressions.py):
comparisons, sums, products, quotients, remainders, shifts, minima, choices, conjunctions. What cannot be inverted (a
leaf on both sides of an operation) is tried at numbers of interest. Several leaves are found by trying some values of
all but the last. A run decides whether what is found does what it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isqrt

from croq.ir.core import Op, Value
from croq.ir.scalar import Binary, BinaryOp, Cast, Const, Select, Unary, VarGet
from croq.operators import DENIED, SWAPPED
from croq.verify import progressions as sets
from croq.verify.intervals import type_range
from croq.verify.leaves import Expressions, Get, Leaf, Unsolved
from croq.verify.progressions import ANYTHING, FAR, NOTHING, Domain

Wanted = Sequence[tuple[Value, Domain]]
TRUE, FALSE = sets.exactly(1), sets.exactly(0)
MOST_TRIED = 24  # values of one leaf while others are solved for
MOST_FOUND = 12


def _compared(op: str, known: int) -> Domain:
    """x with `x op known`."""
    if op == "ne":
        return (*sets.between(-FAR, known - 1), *sets.between(known + 1, FAR))
    lo = {"gt": known + 1, "ge": known, "eq": known}.get(op, -FAR)
    hi = {"lt": known - 1, "le": known, "eq": known}.get(op, FAR)
    return sets.between(lo, hi)


class Solver:
    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self._inside: set[object] = set()  # variables that are being looked through

    # ------------------------------------------------------------------------------------------------- one leaf
    def constrain(self, value: Value, leaf: Leaf, domain: Domain, get: Get, lenient: bool = False) -> Domain:
        """Values of the leaf with which `value` lies in the domain, the other leaves being what `get` gives.
        `lenient`: parts that the leaf does not decide count as being as wanted."""
        if not domain or self.expressions.leaf(value) == leaf:
            return domain
        if leaf not in self.expressions.reach(value):
            return ANYTHING if lenient or self._lies(value, domain, get) else NOTHING
        op = self.expressions.definition[value]
        back: Callable[[Value, Domain], Domain] = lambda v, d: self.constrain(v, leaf, d, get, lenient)  # noqa: E731
        if isinstance(op, VarGet):
            return self._through(op, back, domain)
        if isinstance(op, Cast):
            return back(op.operand, _truth(domain) if op.result.type == "bool" else _widened(op, domain))
        if isinstance(op, Unary):
            return back(op.operand, _unary(op, domain))
        if isinstance(op, Select):
            return sets.union(
                sets.meet(back(op.condition, TRUE), back(op.then, domain)),
                sets.meet(back(op.condition, FALSE), back(op.otherwise, domain)),
            )
        return self._binary(op, leaf, domain, get, back, lenient) if isinstance(op, Binary) else NOTHING

    def _lies(self, value: Value, domain: Domain, get: Get) -> bool:
        try:
            return sets.contains(domain, self.expressions.evaluate(value, get))
        except (Unsolved, KeyError, TypeError, ValueError):
            return True  # a run will tell

    def _through(self, op: VarGet, back: Callable[[Value, Domain], Domain], domain: Domain) -> Domain:
        """A variable holds one of what is put into it."""
        if op.var in self._inside:
            return NOTHING
        self._inside.add(op.var)
        try:
            return sets.union(*(back(value, domain) for value in self.expressions.given(op)))
        finally:
            self._inside.discard(op.var)

    def _binary(
        self, op: Binary, leaf: Leaf, domain: Domain, get: Get, back: Callable[[Value, Domain], Domain], lenient: bool
    ) -> Domain:
        if op.op in ("land", "lor"):
            return _junction(op, domain, back)
        sides = [leaf in self.expressions.reach(op.left), leaf in self.expressions.reach(op.right)]
        if sides == [True, True]:
            return self._sampled(op, leaf, domain, get)
        inner, other = (op.left, op.right) if sides[0] else (op.right, op.left)
        try:
            known = self.expressions.evaluate(other, get)
        except (Unsolved, KeyError, TypeError, ValueError):
            return NOTHING
        if lenient and op.op in ("min", "max"):  # the other side may be what is needed
            return back(inner, domain)
        wanted = _undo(op.op, domain, known, sides[0])
        return back(inner, wanted) if wanted is not None else self._sampled(op, leaf, domain, get)

    def _sampled(self, op: Binary, leaf: Leaf, domain: Domain, get: Get) -> Domain:
        found = []
        for x in self.interesting(op.result):
            try:
                if sets.contains(domain, self.expressions.evaluate(op.result, _with(get, {leaf: x}))):
                    found.append(x)
            except (Unsolved, KeyError, TypeError, ValueError):
                continue
        return sets.sampled(found)

    def interesting(self, value: Value) -> list[int]:
        """Small numbers, powers of two, the constants of an expression and their roots, and what lies next to them."""
        near: set[int] = set(range(-4, 66))
        near.update(1 << n for n in range(7, 31))
        for constant in self._constants(value):
            root = isqrt(abs(constant))
            near |= {constant, -constant, root, -root, constant // 2}
        return sorted({x + d for x in near for d in (-1, 0, 1)}, key=lambda x: (abs(x), x < 0))

    def _constants(self, value: Value) -> Iterator[int]:
        seen: set[Value] = set()
        work = [value]
        while work:
            item = work.pop()
            op: Op | None = self.expressions.definition.get(item)
            if item in seen or op is None:
                continue
            seen.add(item)
            if isinstance(op, Const) and not isinstance(op.value, float):
                yield int(op.value)
            elif isinstance(op, Binary | Unary | Cast | Select):
                work += op.operands()

    # -------------------------------------------------------------------------------------------- several leaves
    def find(
        self, wanted: Wanted, leaves: Sequence[Leaf], get: Get, allowed: Callable[[Leaf], Domain]
    ) -> Iterator[dict[Leaf, int]]:
        """Assignments of one, two or three leaves that give all that is wanted; small ones first."""
        seen: set[frozenset[tuple[Leaf, int]]] = set()
        for depth in (1, 2, 3):
            found = 0
            for assignment in self._assign(wanted, list(leaves), get, allowed, {}, depth):
                key = frozenset(assignment.items())
                if key in seen:
                    continue
                seen.add(key)
                yield assignment
                found += 1
                if found >= MOST_FOUND:
                    break
            if found:
                return

    def _assign(
        self,
        wanted: Wanted,
        leaves: list[Leaf],
        get: Get,
        allowed: Callable[[Leaf], Domain],
        so_far: dict[Leaf, int],
        depth: int,
    ) -> Iterator[dict[Leaf, int]]:
        now = _with(get, so_far)
        for n, leaf in enumerate(leaves):
            domain = allowed(leaf)
            for value, part in wanted:
                domain = sets.meet(domain, self.constrain(value, leaf, part, now, lenient=depth > 1))
            if depth == 1:
                least = sets.nearest(domain)
                if least is not None:
                    yield {**so_far, leaf: least}
                continue
            tried = sorted({x for x in (*sets.edges(domain), sets.nearest(domain)) if x is not None}, key=abs)
            named = (abs(x) + d for x in self._constants(wanted[0][0]) for d in (1, 0))
            small = [x for x in (1, 2, 3, 64, 128, 1024, *named) if sets.contains(domain or allowed(leaf), x)]
            for x in islice(dict.fromkeys((*tried[: MOST_TRIED // 2], *small)), MOST_TRIED):
                yield from self._assign(wanted, leaves[n + 1 :], get, allowed, {**so_far, leaf: x}, depth - 1)


def _with(get: Get, changed: Mapping[Leaf, int]) -> Get:
    return lambda leaf: changed[leaf] if leaf in changed else get(leaf)


def _truth(domain: Domain) -> Domain:
    parts: Iterable[Domain] = (_compared("ne", 0) if n else FALSE for n in (0, 1) if sets.contains(domain, n))
    return sets.union(*parts)


def _unary(op: Unary, domain: Domain) -> Domain:
    if op.op == "lnot":
        return sets.exactly(*(1 - n for n in (0, 1) if sets.contains(domain, n)))
    return sets.negate(domain) if op.op == "neg" else sets.shift(sets.negate(domain), -1)


def _junction(op: Binary, domain: Domain, back: Callable[[Value, Domain], Domain]) -> Domain:
    found = NOTHING
    for n in (0, 1):
        if sets.contains(domain, n):
            parts = (back(op.left, sets.exactly(n)), back(op.right, sets.exactly(n)))
            both = (op.op == "land") == bool(n)
            found = sets.union(found, sets.meet(*parts) if both else sets.union(*parts))
    return found


def _undo(op: BinaryOp, domain: Domain, known: int, on_left: bool) -> Domain | None:
    """x with `x op known` in the domain, or `known op x` where x is not on the left; None: not known how."""
    if op in SWAPPED:
        name = op if on_left else SWAPPED[op]
        return sets.union(
            _compared(name, known) if sets.contains(domain, 1) else NOTHING,
            _compared(DENIED[name], known) if sets.contains(domain, 0) else NOTHING,
        )
    if op == "add":
        return sets.shift(domain, -known)
    if op == "sub":
        return sets.shift(domain, known) if on_left else sets.shift(sets.negate(domain), known)
    if op == "mul":
        return sets.factor(domain, known)
    if op in ("min", "max"):
        beyond = _compared("ge" if op == "min" else "le", known)
        within = sets.meet(domain, _compared("le" if op == "min" else "ge", known))
        return sets.union(within, beyond if sets.contains(domain, known) else NOTHING)
    if op == "and" and known >= 0 and known & (known + 1) == 0:
        return sets.reduced(sets.meet(domain, sets.between(0, known)), known + 1)
    if op in ("and", "or", "xor"):
        return _undo_bits(op, domain, known)
    if not on_left:
        return None
    return _undo_left(op, domain, known)


def _undo_bits(op: BinaryOp, domain: Domain, known: int) -> Domain | None:
    """Of each of the first numbers of the domain one or two."""
    few = [x for part in domain for x in islice(range(part.lo, part.hi + 1, part.step), MOST_TRIED)]
    if op == "xor":
        return sets.exactly(*(x ^ known for x in few))
    if op == "or":
        return sets.exactly(*{y for x in few if x & known == known for y in (x, x & ~known)})
    return sets.exactly(*{y for x in few if x & known == x for y in (x, x | ~known)})


def _widened(op: Cast, domain: Domain) -> Domain:
    """Numbers that a narrower type takes for those of the domain."""
    lo, hi = type_range(op.result.type)
    least, most = type_range(op.operand.type)
    if lo <= least and most <= hi:
        return domain
    within = sets.meet(domain, sets.between(lo, hi))
    few = [x for part in within for x in islice(range(part.lo, part.hi + 1, part.step), MOST_TRIED)]
    turns = (hi - lo + 1) * 64
    return sets.union(within, *(sets.between(x - turns, x + turns, hi - lo + 1) for x in few))


def _undo_left(op: BinaryOp, domain: Domain, known: int) -> Domain | None:
    if op in ("div", "cdiv"):
        return sets.dividend(domain, known, up=op == "cdiv")
    if op == "mod":
        return sets.reduced(domain, known)
    if op == "shr" and 0 <= known < 63:
        return sets.dividend(domain, 1 << known)
    if op == "shl" and 0 <= known < 63:
        return sets.factor(domain, 1 << known)
    return None
