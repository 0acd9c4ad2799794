"""What a scalar can be at all: bounds that hold for every input, so that a side of a branch can be shown to be empty.

Unlike the search for inputs this must be sound: a sum that may leave its type is anything of its type, a variable
anything that reaches it.
"""

from __future__ import annotations

from collections.abc import Callable

from croq.ir.core import Value
from croq.ir.objects import Kernel
from croq.ir.scalar import Assignment, Binary, BlockIndex, Cast, For, Select, Symbol, Unary, VarGet
from croq.ir.types import INTEGERS
from croq.numbers import ARITHMETIC, quotient
from croq.operators import OPERATORS, SWAPPED
from croq.sema.symbolic import Atom, Dim
from croq.verify.leaves import Expressions
from croq.verify.rounds import round_of
from croq.verify.slicing import Lanes

Range = tuple[int, int]
Threads = tuple[int, int]  # first, and one behind the last
FAR = 1 << 64
EXTENT = 1 << 30  # of arrays, and the most of a parameter, as far as anything is shown of all of them


def type_range(name: str) -> Range:
    if name == "bool":
        return (0, 1)
    if name not in INTEGERS:
        return (-FAR, FAR)
    bits = int(name[1:])
    return (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


class Intervals:
    """Bounds of scalars in a range of threads, or (`threads` None) in all."""

    def __init__(self, kernel: Kernel, lanes: Lanes, expressions: Expressions, most: int = EXTENT) -> None:
        self.most = most  # extent of an array
        self.kernel, self.lanes, self.expressions = kernel, lanes, expressions
        self._known: dict[tuple[Value, Threads | None], Range] = {}
        self._wrapping: set[tuple[Value, Threads | None]] = set()
        self._open: set[Value] = set()
        self._extents = set(self.kernel.symbols())
        self._types = {p.name: p.type for p in kernel.params if p.shape is None}
        self._types.update({op.symbol: op.result.type for op in kernel.walk() if isinstance(op, Symbol)})
        self._symbols = self._required()

    def _required(self) -> dict[str, Range]:
        """What `assert` at host level says of single symbols."""
        found: dict[str, Range] = {}
        for rule in self.kernel.requirements:
            for op, left, right in ((rule.op, rule.left, rule.right), (_TURNED[rule.op], rule.right, rule.left)):
                name = next(iter(left.symbols()), None)
                if name is None or left != Dim.symbol(name) or right.known is None:
                    continue
                lo, hi = found.get(name, (-FAR, FAR))
                if op in ("<", "<=", "=="):
                    hi = min(hi, right.known - (op == "<"))
                if op in (">", ">=", "=="):
                    lo = max(lo, right.known + (op == ">"))
                found[name] = (lo, hi)
        return found

    def symbol(self, name: str) -> Range:
        """An extent is positive; it and a parameter are taken to be no more than `most`."""
        lo, hi = self.input(name)
        return max(lo, -self.most), min(hi, self.most)

    def input(self, name: str) -> Range:
        """What a size or a parameter may be given as."""
        lo, hi = type_range(self._types.get(name, "s32"))
        if name in self._extents:
            lo = max(lo, 1)
        least, most = self._symbols.get(name, (-FAR, FAR))
        return max(lo, least), min(hi, most)

    def dim(self, dim: Dim) -> Range:
        """Of an expression over sizes."""
        lo = hi = 0
        for monomial, coefficient in dim.terms:
            part = (coefficient, coefficient)
            for atom in monomial:
                part = _corners(part, self.atom(atom, self.dim), lambda x, y: x * y)
            lo, hi = lo + part[0], hi + part[1]
        return lo, hi

    def atom(self, atom: Atom, of: Callable[[Dim], Range]) -> Range:
        if atom.op == "sym":
            return self.symbol(str(atom.args[0]))
        a, b = (of(d) for d in atom.args if isinstance(d, Dim))
        found = RULES[atom.op](a, b)
        return found if found is not None else (-FAR, FAR)

    def wraps(self, value: Value, threads: Threads | None = None) -> bool:
        """Whether the value's operation may leave its type."""
        self.of(value, threads)
        return (value, threads) in self._wrapping

    def of(self, value: Value, threads: Threads | None = None) -> Range:
        key = (value, threads)
        if key in self._known:
            return self._known[key]
        full = type_range(value.type)
        if value in self._open:
            return full
        self._open.add(value)
        lo, hi = self._fixed(value, threads) or self._compute(value, threads)
        self._open.discard(value)
        if lo < full[0] or hi > full[1]:
            self._wrapping.add(key)
            lo, hi = full
        if value.bounds is not None:
            lo, hi = max(lo, value.bounds[0]), min(hi, value.bounds[1] - 1)
        self._known[key] = (lo, hi)
        return lo, hi

    def _fixed(self, value: Value, threads: Threads | None) -> Range | None:
        """Where threads alone decide it."""
        found = self.lanes.fixed(value)
        if found is None:
            return None
        row = found[: self.kernel.threads]
        if threads is not None:
            row = row[threads[0] : threads[1]]
        return int(row.min()), int(row.max())

    def _compute(self, value: Value, threads: Threads | None) -> Range:
        op = self.expressions.definition.get(value)
        full = type_range(value.type)
        if isinstance(op, Symbol):
            return self.symbol(op.symbol)
        if isinstance(op, BlockIndex):
            return 0, max(0, self.dim(self.kernel.grid[op.axis])[1] - 1)
        if isinstance(op, For):
            return 0, max(0, self.of(op.count, threads)[1] - 1)
        if isinstance(op, VarGet):
            return self._variable(op, threads)
        if isinstance(op, Select):
            return _hull(self.of(op.then, threads), self.of(op.otherwise, threads))
        if isinstance(op, Cast) and op.operand.type in (*INTEGERS, "bool") and value.type != "bool":
            return self.of(op.operand, threads)
        if isinstance(op, Unary):
            lo, hi = self.of(op.operand, threads)
            return {"neg": (-hi, -lo), "not": (~hi, ~lo), "lnot": (1 - hi, 1 - lo)}[op.op]
        if isinstance(op, Binary) and op.left.type in (*INTEGERS, "bool"):
            return self._binary(op, full, threads)
        return full

    def _variable(self, op: VarGet, threads: Threads | None) -> Range:
        """One of what it may hold. Where it is counted up (or down) from there, that is one of its bounds: a counter is
        taken not to wrap. Where it is counted up to a limit and begins again, it stays below the limit."""
        least, most = type_range(op.result.type)
        found: list[Range] = []
        limits: list[int] = []
        up = down = False
        for value in self.expressions.given(op):
            again = round_of(self.expressions.definition, op.var, value)
            step = self._step(op, value, threads)
            if again is not None:
                limits.append(again.limit)
                found.append(self.of(again.again, threads))
            elif step is None:
                found.append(self.of(value, threads))
            else:
                up, down = up or step[1] > 0, down or step[0] < 0
        if not found:
            return least, most
        lo, hi = _hull(*found)
        if limits:
            up, hi = up or hi >= limits[0] or len(set(limits)) > 1, limits[0] - 1
        return (least if down else lo), (most if up else hi)

    def put(self, get: VarGet, change: Assignment, threads: Threads | None) -> int:
        """The least that a change of the variable puts into it."""
        step = self._step(get, change.value, threads)
        if step is None or step[0] < 0:
            return self.of(change.value, threads)[0]
        op = self.expressions.definition[change.value]
        parts = (self.expressions.definition.get(v) for v in op.operands())
        inner = next(p for p in parts if isinstance(p, VarGet) and p.var is get.var)
        return self.of(inner.result, threads)[0] + step[0]

    def _step(self, get: VarGet, value: Value, threads: Threads | None) -> Range | None:
        """By how much a change of the variable changes it; None where it is no such change."""
        op = self.expressions.definition.get(value)
        if not isinstance(op, Binary) or op.op not in ("add", "sub"):
            return None
        left, right = (self.expressions.definition.get(v) for v in (op.left, op.right))
        if isinstance(left, VarGet) and left.var is get.var:
            lo, hi = self.of(op.right, threads)
        elif isinstance(right, VarGet) and right.var is get.var and op.op == "add":
            lo, hi = self.of(op.left, threads)
        else:
            return None
        return (lo, hi) if op.op == "add" else (-hi, -lo)

    def _binary(self, op: Binary, full: Range, threads: Threads | None) -> Range:
        a, b = self.of(op.left, threads), self.of(op.right, threads)
        if op.op in COMPARED:
            return COMPARED[op.op](a[0] - b[1], a[1] - b[0])
        rule = RULES.get(op.op)
        found = rule(a, b) if rule is not None else None
        return found if found is not None else full


def _hull(*ranges: Range) -> Range:
    if not ranges:
        return -FAR, FAR
    return min(lo for lo, _ in ranges), max(hi for _, hi in ranges)


def _corners(a: Range, b: Range, fn: Callable[[int, int], int]) -> Range:
    found = [fn(x, y) for x in a for y in b]
    return min(found), max(found)


def _div(a: Range, b: Range) -> Range | None:
    return _corners(a, b, quotient) if b[0] > 0 else None


def _cdiv(a: Range, b: Range) -> Range | None:
    return _corners(a, b, lambda x, y: -(-x // y)) if b[0] > 0 and a[0] >= 0 else None


def _mod(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    if a[0] >= 0 and a[1] < b[0]:
        return a
    return (0 if a[0] >= 0 else 1 - b[1], b[1] - 1 if a[1] < 0 or a[1] >= b[1] else min(a[1], b[1] - 1))


def _and(a: Range, b: Range) -> Range | None:
    bounds = [hi for lo, hi in (a, b) if lo >= 0]
    return (0, min(bounds)) if bounds else None


def _or(a: Range, b: Range) -> Range | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1)


def _shr(a: Range, b: Range) -> Range | None:
    return _corners(a, b, lambda x, y: x >> y) if 0 <= b[0] <= b[1] < 64 else None


def _shl(a: Range, b: Range) -> Range | None:
    return _corners(a, b, lambda x, y: x << y) if 0 <= b[0] <= b[1] < 64 else None


def _three(surely: bool, never: bool) -> Range:
    return (1, 1) if surely else (0, 0) if never else (0, 1)


COMPARED: dict[str, Callable[[int, int], Range]] = {
    # of the difference of both sides, which is at least lo and at most hi
    "lt": lambda lo, hi: _three(hi < 0, lo >= 0),
    "le": lambda lo, hi: _three(hi <= 0, lo > 0),
    "gt": lambda lo, hi: _three(lo > 0, hi <= 0),
    "ge": lambda lo, hi: _three(lo >= 0, hi < 0),
    "eq": lambda lo, hi: _three(lo == hi == 0, lo > 0 or hi < 0),
    "ne": lambda lo, hi: _three(lo > 0 or hi < 0, lo == hi == 0),
}
_TURNED = {OPERATORS[a].spelling: OPERATORS[b].spelling for a, b in SWAPPED.items()}
RULES: dict[str, Callable[[Range, Range], Range | None]] = {
    **{name: ARITHMETIC[name].interval for name in ("add", "sub", "mul", "min", "max")},
    "div": _div,
    "mod": _mod,
    "cdiv": _cdiv,
    "shl": _shl,
    "shr": _shr,
    "and": _and,
    "or": _or,
    "xor": _or,
    "land": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "lor": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
