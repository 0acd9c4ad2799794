"""Which sizes, blocks and task lists to follow, so that every loop runs 0, 1, 2, .. times.

Trip counts are expressions over symbols, block indices and scalars of global memory. They are solved backwards: for a
wanted count, the value of the one leaf that gives it while the others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import lcm
from typing import Any

from croq.ir.core import Op, Value
from croq.ir.scalar import (
    Binary,
    BlockIndex,
    Cast,
    Const,
    For,
    LoadElement,
    Select,
    Symbol,
    Unary,
    VarDeclare,
    VarGet,
    While,
)
from croq.ir.types import INTEGERS
from croq.verify.program import Load, Program
from croq.verify.slicing import control_values
from croq.verify.state import Oracle, State
from croq.verify.values import BINARY, convert, lnot, wrap

Leaf = tuple[str, Any]  # ("symbol", name), ("block", axis), ("load", Value), ("other", Value)
MOST_QUANTUM = 4096
MOST_SYMBOL_VALUES = 16
MOST_BLOCKS = 9
MOST_STATIC = 400
SMALL = 3  # values 0, 1, 2 for a scalar of which nothing better is known


class Unsolved(Exception):
    pass


class Expressions:
    """The arithmetic of a kernel, as functions of its leaves."""

    def __init__(self, program: Program) -> None:
        self.definition = program.slice.definition
        self._leaves: dict[Value, frozenset[Leaf]] = {}

    def leaf(self, value: Value) -> Leaf | None:
        op = self.definition.get(value)
        if isinstance(op, Symbol):
            return ("symbol", op.symbol)
        if isinstance(op, BlockIndex):
            return ("block", op.axis)
        if isinstance(op, LoadElement):
            return ("load", value)
        if isinstance(op, Binary | Unary | Cast | Select | Const):
            return None
        return ("other", value)

    def leaves(self, value: Value) -> frozenset[Leaf]:
        if value not in self._leaves:
            leaf = self.leaf(value)
            if leaf is not None:
                self._leaves[value] = frozenset([leaf])
            else:
                found: frozenset[Leaf] = frozenset()
                for operand in self.definition[value].operands():
                    found |= self.leaves(operand)
                self._leaves[value] = found
        return self._leaves[value]

    def evaluate(self, value: Value, get: Callable[[Leaf], int]) -> int:
        leaf = self.leaf(value)
        if leaf is not None:
            return get(leaf)
        op = self.definition[value]
        if isinstance(op, Const):
            if isinstance(op.value, float):
                raise Unsolved
            return op.value
        parts = [self.evaluate(v, get) for v in op.operands()]
        if isinstance(op, Binary):
            if op.op in ("div", "mod", "cdiv") and parts[1] == 0:
                raise Unsolved
            return int(wrap(BINARY[op.op](*parts) + 0, op.result.type))
        if isinstance(op, Select):
            return parts[1] if parts[0] else parts[2]
        if isinstance(op, Cast):
            return int(convert(parts[0], op.operand.type, op.result.type))
        assert isinstance(op, Unary)
        return int(lnot(parts[0])) if op.op == "lnot" else -parts[0] if op.op == "neg" else ~parts[0]

    def solve(self, value: Value, leaf: Leaf, target: int, get: Callable[[Leaf], int]) -> int | None:
        """The leaf's value with which `value` is `target`, or None."""
        try:
            found = self._invert(value, leaf, target, get)
            check = self.evaluate(value, lambda other: found if other == leaf else get(other))
        except (Unsolved, KeyError, TypeError, ValueError):
            return None
        return found if check == target else None

    def _invert(self, value: Value, leaf: Leaf, target: int, get: Callable[[Leaf], int]) -> int:
        if self.leaf(value) == leaf:
            return target
        op = self.definition.get(value)
        if isinstance(op, Cast):
            return self._invert(op.operand, leaf, target, get)
        if isinstance(op, Select):
            chosen = op.then if self.evaluate(op.condition, get) else op.otherwise
            return self._invert(chosen, leaf, target, get)
        if not isinstance(op, Binary):
            raise Unsolved
        sides = [leaf in self.leaves(op.left), leaf in self.leaves(op.right)]
        if sides == [True, True]:
            raise Unsolved
        inner, other = (op.left, op.right) if sides[0] else (op.right, op.left)
        known = self.evaluate(other, get)
        return self._invert(inner, leaf, _undo(op.op, target, known, sides[0]), get)


def _undo(op: str, target: int, known: int, on_left: bool) -> int:
    """x with `x op known == target`, or `known op x == target` when x is not on the left."""
    if op == "add":
        return target - known
    if op == "sub":
        return target + known if on_left else known - target
    if op == "mul" and known and target % known == 0:
        return target // known
    if op in ("div", "cdiv") and on_left:
        return target * known
    if op == "shr" and on_left:
        return target << known
    if op == "shl" and on_left:
        return target >> known
    if op in ("and", "or", "xor", "min", "max") or (op == "mod" and on_left):
        return target ^ known if op == "xor" else target
    raise Unsolved


# --------------------------------------------------------------------------------------------------- sizes and blocks
def size(choices: Iterable[int]) -> float:
    """Orders combinations: small ones first, and those that are large in one place before those large in many."""
    values = list(choices)
    return sum(values) - 0.6 * max(values, default=0)


@dataclass(frozen=True)
class Binding:
    """Values of symbols and the block's place; `cost` orders small ones first."""

    symbols: dict[str, int]
    place: tuple[int, int, int]
    cost: float


class Bindings:
    """`trips`: the largest count that every loop should reach."""

    def __init__(self, program: Program, trips: int) -> None:
        self.program, self.trips = program, trips
        self.kernel = program.kernel
        self.expressions = Expressions(program)
        relevant = program.slice.relevant
        self.counts = [op.count for op in relevant if isinstance(op, For)]
        self.roots = self._roots(relevant)
        leaves = self.inputs(self.roots)
        loops = [op.condition for op in relevant if isinstance(op, While)]
        self.driving = self.inputs([*self.counts, *loops])  # what decides how often loops run
        self.axes = sorted(axis for kind, axis in leaves if kind == "block")
        declared = [op for op in self.kernel.walk() if isinstance(op, Symbol) and op.result.type in INTEGERS]
        names = [*self.kernel.symbols(), *(op.symbol for op in declared)]
        names += [s for dim in self.kernel.grid for s in sorted(dim.symbols())]
        self.symbols = list(dict.fromkeys(names))
        self.driving |= {("symbol", s) for k, a in self.driving if k == "block" for s in self.kernel.grid[a].symbols()}
        self.base = {name: self._quantum(name) for name in self.symbols}
        used = {name for kind, name in leaves if kind == "symbol"}
        used |= {s for axis in self.axes for s in self.kernel.grid[axis].symbols()}
        self.choices = {name: self._candidates(name) for name in self.symbols if name in used}

    def _roots(self, relevant: Iterable[Op]) -> list[Value]:
        """Values that decide something: conditions, counts, slots, parities, places."""
        found: dict[Value, None] = {}
        for op in self.program.slice.around:
            if op in relevant:
                for value in control_values(op):
                    found[value] = None
            if op in self.program.slice.protocol:
                for value in self.program.level.operands(op):
                    found[value] = None
        return list(found)

    def _quantum(self, name: str) -> int:
        """A size that divisions of the symbol go into."""
        found = 1
        for op in self.kernel.walk():
            if isinstance(op, Binary) and op.op in ("div", "cdiv", "mod") and op.left in self.program.slice.definition:
                divisor = self.program.slice.definition.get(op.right)
                if isinstance(divisor, Const) and ("symbol", name) in self.expressions.leaves(op.left):
                    found = lcm(found, max(1, abs(int(divisor.value))))
        for dim in self.kernel.grid:
            for atom in (a for monomial, _ in dim.terms for a in monomial if a.op in ("div", "cdiv", "mod")):
                known = getattr(atom.args[-1], "known", None)
                if known and name in atom.symbols():
                    found = lcm(found, known)
        return found if found <= MOST_QUANTUM else MOST_QUANTUM

    def _candidates(self, name: str) -> list[int]:
        least = 1 if name in self.kernel.symbols() else 0  # an extent is positive, a scalar parameter need not be
        found: set[int] = set()
        for count in self.counts:
            leaves = self.expressions.leaves(count)
            if ("symbol", name) in leaves and all(kind in ("symbol", "block") for kind, _ in leaves):
                for trips in range(self.trips + 1):
                    value = self.expressions.solve(count, ("symbol", name), trips, self._get)
                    if value is not None and value >= least:
                        found.add(value)
        base = self.base[name]
        zero = [0] if least == 0 else []
        if ("symbol", name) not in self.driving:
            return [*zero, base, base + 1]
        found |= {*zero, *(base * n for n in range(1, 4 if found else self.trips + 1))}
        return [*sorted(found)[: max(MOST_SYMBOL_VALUES, self.trips + 2)], base + 1]

    def _get(self, leaf: Leaf) -> int:
        kind, name = leaf
        if kind == "symbol":
            return self.base[name]
        if kind == "block":
            return 0
        raise Unsolved

    def __iter__(self) -> Iterator[Binding]:
        """Bindings by cost; of those that decide the same, the first."""
        seen: set[tuple[Any, ...]] = set()
        for symbols, cost in self._sizes():
            grid = tuple(dim.evaluate(symbols) for dim in self.kernel.grid)
            if min(grid) < 1:
                continue
            for place, extra in self._blocks(grid):
                key = self._signature(symbols, place)
                if key not in seen:
                    seen.add(key)
                    yield Binding(symbols, place, cost + extra)

    def _sizes(self) -> list[tuple[dict[str, int], float]]:
        names = list(self.choices)
        domains = [self.choices[name] for name in names]
        total = 1
        for domain in domains:
            total *= len(domain)
        if total > MOST_STATIC:
            domains = [domain[:4] + domain[-1:] for domain in domains]
        found = []
        for index in product(*(range(len(domain)) for domain in domains)):
            values = {name: domain[i] for name, domain, i in zip(names, domains, index, strict=True)}
            found.append(({**self.base, **values}, size(index)))
        found.sort(key=lambda item: item[1])
        return found[:MOST_STATIC]

    def _blocks(self, grid: tuple[int, ...]) -> Iterator[tuple[tuple[int, int, int], float]]:
        options = [[0], [0], [0]]
        for axis in self.axes:
            first = MOST_BLOCKS if ("block", axis) in self.driving else 1
            options[axis] = sorted({*range(min(grid[axis], first)), grid[axis] - 1})
        places = sorted(product(*(range(len(o)) for o in options)), key=size)
        for index in places[:MOST_STATIC]:
            x, y, z = (o[i] for o, i in zip(options, index, strict=True))
            yield (x, y, z), size(index)

    def counts_with(self, leaf: Leaf) -> list[Value]:
        return [count for count in self.counts if leaf in self.expressions.leaves(count)]

    def deciding(self, leaf: Leaf) -> list[tuple[Value, Sequence[int]]]:
        """What the leaf decides, with the values worth reaching: a loop's count, or both sides of comparisons."""
        counts = self.counts_with(leaf)
        if counts:
            return [(counts[0], range(self.trips + 1))]
        found: list[tuple[Value, Sequence[int]]] = []
        for op in self.program.slice.definition.values():
            if isinstance(op, Binary) and op.op in ("lt", "gt", "le", "ge", "eq", "ne"):
                limit = self.program.slice.definition.get(op.right)
                if leaf in self.expressions.leaves(op.left) and isinstance(limit, Const):
                    at = int(limit.value)
                    found.append((op.left, (at, at + 1, at - 1)))  # in this order: `n > 0` is tried with 0 before -1
        return found

    def varies(self, value: Value) -> bool:
        """Whether inputs decide it, also by way of variables."""
        return bool(self.inputs([value]))

    def inputs(self, values: Iterable[Value]) -> set[Leaf]:
        """The leaves other than threads and loops that decide the values, also by way of variables."""
        found: set[Leaf] = set()
        seen: set[Value] = set()
        work = list(values)
        while work:
            item = work.pop()
            if item in seen:
                continue
            seen.add(item)
            for kind, name in self.expressions.leaves(item):
                if kind != "other":
                    found.add((kind, name))
                    continue
                op = self.program.slice.definition.get(name)
                if isinstance(op, VarGet):
                    sets = self.program.slice.sets.get(op.var, [])
                    work += [s.init if isinstance(s, VarDeclare) else s.value for s in sets]
                elif isinstance(op, For):
                    work.append(op.count)
        return found

    def _signature(self, symbols: dict[str, int], place: tuple[int, int, int]) -> tuple[Any, ...]:
        """What a binding decides: equal signatures, equal runs."""

        def get(leaf: Leaf) -> int:
            kind, name = leaf
            if kind == "symbol" and name in symbols:
                return symbols[name]
            if kind == "block":
                return place[name]
            raise Unsolved

        found: list[Any] = []
        for root in self.roots:
            leaves = self.expressions.leaves(root)
            try:
                found.append(self.expressions.evaluate(root, get))
            except Unsolved:
                fixed = sorted(((k, n) for k, n in leaves if k in ("symbol", "block")), key=str)
                found.append(tuple(get(leaf) for leaf in fixed if leaf[0] == "block" or leaf[1] in symbols))
        return tuple(found)


# -------------------------------------------------------------------------------------------------------- task lists
class ChoosingOracle(Oracle):
    """Values of scalars in global memory from a list of choices; the first option where the list has ended.

    A scalar that decides how often a loop runs has one option for each trip count that it can give; another has small
    numbers and those on both sides of what it is compared with.
    """

    def __init__(self, bindings: Bindings, prefix: tuple[int, ...]) -> None:
        super().__init__()
        self.bindings = bindings
        self.prefix = prefix
        self.taken: list[int] = []
        self.widths: list[int] = []  # how many options each choice had

    def choose(self, state: State, load: Load, key: tuple[Any, ...], scope: dict[str, Any]) -> int:
        options = self._options(state, load, scope)
        position = len(self.taken)
        index = self.prefix[position] if position < len(self.prefix) else 0
        index = min(index, len(options) - 1)
        self.taken.append(index)
        self.widths.append(len(options))
        return options[index]

    def _options(self, state: State, load: Load, scope: dict[str, Any]) -> list[int]:
        leaf: Leaf = ("load", load.op.result)
        names = self.bindings.program.names

        def get(other: Leaf) -> int:
            kind, name = other
            if kind == "symbol":
                return int(state.symbols[name])
            if kind == "block":
                return state.place[name]
            value = scope[names[name]]
            if not isinstance(value, int):
                raise Unsolved
            return value

        found: dict[int, None] = {}
        for value, targets in self.bindings.deciding(leaf):
            solved = (self.bindings.expressions.solve(value, leaf, target, get) for target in targets)
            for option in (x for x in solved if x is not None):
                found[option] = None
        if not self.bindings.counts_with(leaf):
            found.update(dict.fromkeys(range(SMALL)))
        return list(found) or [0]
