"""What can be shown of scalars beside their bounds: that one is never below another, for every input.

A scalar is written as a sum of products (croq.sema.symbolic) of sizes, the block's place, counters of loops and
whatever else is not computed. Facts are sums that are never negative:

    F1  the block lies in the grid; a counter lies below its loop's count
    F2  of `a / b`, `cdiv(a, b)` and `a % b` with b > 0: what rounding may add or take away
    F3  what is asserted at host level
    F4  in a branch, its condition

A sum is never negative if its least value by bounds is not, or if taking away a multiple of a fact leaves one that is
never negative (Farkas' lemma, searched to a small depth). Sums are of unbounded integers: a scalar that may leave its
type with extents of up to 2**30 is not looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

from croq.ir.core import Op, Value
from croq.ir.hw import Section
from croq.ir.objects import Kernel
from croq.ir.scalar import Binary, BlockIndex, Cast, For, If, Select, Symbol, Unary, VarGet
from croq.ir.types import INTEGERS
from croq.operators import DENIED, SPELLED
from croq.sema.symbolic import Atom, Dim, Monomial
from croq.verify.intervals import Intervals, Range, Threads, type_range
from croq.verify.program import Program

DEPTH = 4
MOST_STEPS = 400


class Relations:
    """Facts for a range of threads."""

    def __init__(self, program: Program, intervals: Intervals, threads: Threads) -> None:
        self.program, self.intervals, self.threads = program, intervals, threads
        self.kernel: Kernel = program.kernel
        self.expressions = intervals.expressions
        self.definition = program.slice.definition
        self._dims: dict[Value, Dim | None] = {}
        self._ranges: dict[str, Range] = {}
        self._facts: dict[str, list[Dim]] = {}  # of each opaque symbol and atom, by its text
        self._here: list[Dim] = []  # what is known where a question is asked
        self._steps = 0

    # --------------------------------------------------------------------------------------------------- questions
    def never(self, value: Value, outcome: bool, at: Op) -> bool:
        """Whether a condition at an operation is never `outcome`."""
        return self._never(value, outcome, self._known_at(at))

    def never_runs(self, count: Value, outcome: bool, at: Op) -> bool:
        """Whether a loop is never entered (`outcome` true), or never skipped."""
        given = self._known_at(at)
        dim = self.dim(count)
        if dim is None:
            return False
        return self._nonnegative(Dim.of(0) - dim if outcome else dim - 1, given)

    def _known_at(self, at: Op) -> list[Dim]:
        """What holds there; sums are written anew, since rounding depends on signs."""
        self._dims, self._facts, self._ranges, self._here = {}, {}, {}, []
        self._here = list(self._given(at))
        self._dims = {}
        return self._here

    def _never(self, value: Value, outcome: bool, given: list[Dim]) -> bool:
        lo, hi = self.intervals.of(value, self.threads)
        if (hi < 1) if outcome else (lo > 0):
            return True
        op = self.definition.get(value)
        if isinstance(op, Unary) and op.op == "lnot":
            return self._never(op.operand, not outcome, given)
        if isinstance(op, Binary) and op.op in ("land", "lor"):
            parts = (self._never(side, outcome, given) for side in (op.left, op.right))
            return any(parts) if (op.op == "land") == outcome else all(parts)
        if not isinstance(op, Binary) or op.op not in DENIED:
            return False
        left, right = self.dim(op.left), self.dim(op.right)
        if left is None or right is None:
            return False
        name = op.op if not outcome else DENIED[op.op]  # what would have to hold always
        return self._always(name, left, right, given)

    def _always(self, name: str, left: Dim, right: Dim, given: list[Dim]) -> bool:
        ways = _true_of(name, left, right)
        if ways is not None:
            return all(self._nonnegative(dim, given) for dim in ways)
        return self._nonnegative(left - right - 1, given) or self._nonnegative(right - left - 1, given)  # ne

    # -------------------------------------------------------------------------------------------------------- sums
    def dim(self, value: Value) -> Dim | None:
        if value not in self._dims:
            self._dims[value] = self._write(value)
        return self._dims[value]

    def _write(self, value: Value) -> Dim | None:
        if value.type not in INTEGERS:
            return None
        lo, hi = self.intervals.of(value, self.threads)
        if lo == hi:
            return Dim.of(lo)
        op = self.definition.get(value)
        if isinstance(op, Symbol):
            return Dim.symbol(op.symbol)
        if isinstance(op, BlockIndex):
            return self._opaque(f"block {op.axis}", (lo, hi), [self.kernel.grid[op.axis] - 1])
        if isinstance(op, For):
            count = self.dim(op.count)
            return self._opaque(f"turn {id(value)}", (lo, hi), [] if count is None else [count - 1])
        if isinstance(op, Binary) and not self.intervals.wraps(value, self.threads):
            found = self._combined(op)
            if found is not None:
                return found
        if isinstance(op, Cast) and op.operand.type in INTEGERS and self._fits(op):
            return self.dim(op.operand)
        return self._held(op, value, lo, hi)

    def _held(self, op: Op | None, value: Value, lo: int, hi: int) -> Dim | None:
        if isinstance(op, VarGet):
            first = self.expressions.same(op)
            if first is not op:
                return self.dim(first.result)
            lo = max(lo, self._counted(op))
        return self._opaque(f"value {id(value)}", (lo, hi), [])

    def _counted(self, get: VarGet) -> int:
        """A lower bound of a variable here: of what may still be in it, where a change in a branch that was certainly
        taken has come after the others. (A counter is taken not to wrap.)"""
        changes = [c for c in self.expressions.reaching(get) if not self._replaced(c, get)]
        bounds = [self.intervals.put(get, c, self.threads) for c in changes]
        return min(bounds) if bounds else type_range(get.result.type)[0]

    def _replaced(self, change: Op, get: VarGet) -> bool:
        """Whether a branch between the change and the reading, whose condition holds here, changes the variable."""
        order, block = self.program.slice.order, self.program.slice.block
        blocks = {block[op] for op in (get, *self.program.slice.around[get])}
        for other in self.program.slice.sets.get(get.var, []):
            around = self.program.slice.around[other]
            branch = around[-1] if around else None
            if not isinstance(branch, If) or block[other] is not branch.then or block[branch] not in blocks:
                continue
            between = order[change] < order[branch] < order[get] and change not in branch.then.ops
            if between and self._never(branch.condition, False, self._here):
                return True
        return False

    def _fits(self, op: Cast) -> bool:
        lo, hi = self.intervals.of(op.operand, self.threads)
        least, most = type_range(op.result.type)
        return least <= lo and hi <= most

    def _opaque(self, name: str, bounds: Range, below: list[Dim]) -> Dim:
        self._ranges[name] = bounds
        made = Dim.symbol(name)
        self._facts[name] = [most - made for most in below]
        return made

    def _combined(self, op: Binary) -> Dim | None:
        left, right = self.dim(op.left), self.dim(op.right)
        if left is None or right is None or isinstance(op, Select):
            return None
        if op.op == "add":
            return left + right
        if op.op == "sub":
            return left - right
        if op.op == "mul":
            return left * right
        (least, _), (divisor, _) = self.intervals.of(op.left, self.threads), self.intervals.of(op.right, self.threads)
        if op.op in ("div", "cdiv", "mod") and divisor > 0 and (least >= 0 or self._nonnegative(left, self._here)):
            found: Dim = getattr(left, op.op)(right)
            return found
        if op.op in ("min", "max"):
            made = self._opaque(f"value {id(op.result)}", self.intervals.of(op.result, self.threads), [])
            sign = 1 if op.op == "min" else -1
            self._facts[f"value {id(op.result)}"] = [(side - made) * sign for side in (left, right)]
            return made
        return None

    # ------------------------------------------------------------------------------------------------------- facts
    def _given(self, at: Op) -> Iterator[Dim]:
        """F3 and F4."""
        for rule in self.kernel.requirements:
            yield from _true_of(SPELLED[rule.op].name, rule.left, rule.right) or ()
        inner = at
        for outer in reversed(self.program.slice.around[at]):
            if isinstance(outer, If):
                yield from self._holds(outer.condition, inner in outer.then.ops)
            elif isinstance(outer, Section) and outer.condition is not None:
                yield from self._holds(outer.condition, True)
            elif isinstance(outer, For):
                count = self.dim(outer.count)
                if count is not None:
                    yield count - 1
            inner = outer
        for axis in self.kernel.grid:
            yield axis - 1

    def _holds(self, value: Value, outcome: bool) -> Iterator[Dim]:
        op = self.definition.get(value)
        if isinstance(op, Unary) and op.op == "lnot":
            yield from self._holds(op.operand, not outcome)
        elif isinstance(op, Binary) and op.op == ("land" if outcome else "lor"):
            yield from self._holds(op.left, outcome)
            yield from self._holds(op.right, outcome)
        elif isinstance(op, Binary) and op.op in DENIED:
            left, right = self.dim(op.left), self.dim(op.right)
            if left is not None and right is not None:
                yield from _true_of(op.op if outcome else DENIED[op.op], left, right) or ()

    def _about(self, monomial: Monomial) -> Iterator[Dim]:
        """F1 and F2."""
        for atom in monomial:
            if atom.op == "sym":
                yield from self._facts.get(str(atom.args[0]), ())
            elif len(monomial) == 1:
                yield from _rounding(atom)

    # ------------------------------------------------------------------------------------------------------- proof
    def _nonnegative(self, dim: Dim, given: list[Dim]) -> bool:
        self._steps = 0
        return self._shown(dim, given, DEPTH)

    def _shown(self, dim: Dim, given: list[Dim], depth: int) -> bool:
        if self._least(dim) >= 0:
            return True
        self._steps += 1
        if not depth or self._steps > MOST_STEPS:
            return False
        for monomial, coefficient in sorted(dim.terms, key=lambda term: term[1]):
            if not monomial:
                continue
            for fact in (*self._about(monomial), *given):
                other = next((c for m, c in fact.terms if m == monomial), 0)
                if other * coefficient <= 0:
                    continue
                common = gcd(other, coefficient)
                rest = dim * (abs(other) // common) - fact * (abs(coefficient) // common)
                if self._shown(rest, given, depth - 1):
                    return True
        return False

    def _least(self, dim: Dim) -> int:
        total = 0
        for monomial, coefficient in dim.terms:
            lo, hi = self._bounds(monomial)
            total += coefficient * (lo if coefficient > 0 else hi)
        return total

    def _bounds(self, monomial: Monomial) -> Range:
        lo = hi = 1
        for atom in monomial:
            a, b = self._atom(atom)
            corners = [x * y for x in (lo, hi) for y in (a, b)]
            lo, hi = min(corners), max(corners)
        return lo, hi

    def _atom(self, atom: Atom) -> Range:
        if atom.op == "sym":
            name = str(atom.args[0])
            return self._ranges[name] if name in self._ranges else self.intervals.symbol(name)
        return self.intervals.atom(atom, self._sum_bounds)

    def _sum_bounds(self, dim: Dim) -> Range:
        return self._least(dim), -self._least(Dim.of(0) - dim)


def _true_of(name: str, left: Dim, right: Dim) -> Iterable[Dim] | None:
    """The sums that are not negative when `left name right`; None for `ne`."""
    return {
        "lt": [right - left - 1],
        "le": [right - left],
        "gt": [left - right - 1],
        "ge": [left - right],
        "eq": [left - right, right - left],
    }.get(name)


def _rounding(atom: Atom) -> Iterator[Dim]:
    a, b = atom.args[0], atom.args[-1]
    if not isinstance(a, Dim) or not isinstance(b, Dim):
        return
    made = Dim((((atom,), 1),))
    if atom.op == "div":
        yield a - made * b
        yield made * b + b - 1 - a
    elif atom.op == "cdiv":
        yield made * b - a
        yield a + b - 1 - made * b
    elif atom.op == "mod":
        yield b - 1 - made
        yield made
