"""Which sizes, blocks and task lists to follow, so that every loop runs 0, 1, 2, .. times.

Trip counts are expressions over symbols, block indices and scalars of global memory. They are solved backwards: for a
wanted count, the value of the one leaf that gives it while the others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import gcd, lcm, prod
from typing import Any

from croq.ir.core import Op, Value
from croq.ir.objects import Kernel
from croq.ir.scalar import Binary, Const, For, LoadElement, Symbol, While
from croq.ir.types import INTEGERS
from croq.sema.symbolic import Dim
from croq.verify import progressions as sets
from croq.verify.intervals import type_range
from croq.verify.leaves import Get, Leaf, Unsolved
from croq.verify.program import Program
from croq.verify.progressions import Domain
from croq.verify.sites import Load
from croq.verify.slicing import control_values
from croq.verify.solve import FALSE, TRUE, Solver
from croq.verify.state import Oracle, State, Warp

MOST_QUANTUM = 4096
MOST_SYMBOL_VALUES = 16
MOST_BLOCKS = 9
MOST_STATIC = 400
MOST_PAIRS = 1200
MOST_THRESHOLDS = 24
MOST_OPTIONS = 16
MOST_TRIPS = 100  # of a loop, unless a side of a decision needs more
SMALL = 3  # values 0, 1, 2 for a scalar of which nothing better is known


# --------------------------------------------------------------------------------------------------- sizes and blocks
def size(choices: Iterable[int]) -> float:
    """Orders combinations: small ones first, and those that are large in one place before those large in many."""
    values = list(choices)
    return sum(values) - 0.6 * max(values, default=0)


def agrees(kernel: Kernel, symbols: Mapping[str, int]) -> bool:
    """Whether sizes are what is asserted of them at host level."""
    rules = kernel.requirements
    return all(rule.holds(symbols) for rule in rules if rule.left.symbols() | rule.right.symbols() <= symbols.keys())


def agreeing(kernel: Kernel, symbols: dict[str, int], fixed: Iterable[str] = ()) -> dict[str, int]:
    """The sizes, with those (but for `fixed`) made equal that are asserted to be."""
    for rule in kernel.requirements:
        if rule.op != "==" or not rule.left.symbols() | rule.right.symbols() <= symbols.keys() or rule.holds(symbols):
            continue
        for side, other in ((rule.right, rule.left), (rule.left, rule.right)):
            name = next(iter(side.symbols()), "")
            if side == Dim.symbol(name) and name not in fixed:
                symbols = {**symbols, name: other.evaluate(symbols)}
                break
    return symbols


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
        self.around = 1 + max((event.slots for event in self.kernel.events), default=1)  # trips that use a slot again
        self.expressions = program.expressions
        self.solver = Solver(self.expressions)
        self.intervals = program.intervals
        relevant = program.slice.relevant
        self.counts = program.counts
        self.sized = [count for count in self.counts if self.expressions.inputs([count])]
        self.roots = self._roots(relevant)
        leaves = self.expressions.inputs(self.roots)
        loops = [op.condition for op in program.slice.ordered() if isinstance(op, While)]
        self.driving = self.expressions.inputs([*self.counts, *loops])  # what decides how often loops run
        loads = [self.expressions.definition[value] for kind, value in self.driving if kind == "load"]
        self.counting = {op.view.root.name for op in loads if isinstance(op, LoadElement)}  # arrays that do so
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
        self._options: dict[Load, Remembered] = {}
        for name, found in self.choices.items():
            found += [x for x in self._thresholds(name) if x not in found]

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
                    value = self._solve(count, ("symbol", name), trips)
                    if value is not None and value >= least:
                        found.add(value)
        base = self.base[name]
        zero = [0] if least == 0 else []
        if ("symbol", name) not in self.driving:
            return [*zero, base, base + 1]
        found |= {*zero, *(base * n for n in range(1, 4 if found else self.trips + 1))}
        return [*sorted(found)[: max(MOST_SYMBOL_VALUES, self.trips + 2)], base + 1]

    def _solve(self, value: Value, leaf: Leaf, target: int) -> int | None:
        """The symbol with which `value` is `target`; where several do, that which divisions go into best."""
        domain = sets.meet(self.solver.constrain(value, leaf, sets.exactly(target), self._get), self._allowed(leaf))
        found = list(sets.edges(domain))
        return max(found, key=lambda x: (gcd(x, self.base[leaf[1]]), -x)) if found else None

    def _allowed(self, leaf: Leaf) -> Domain:
        return sets.between(*self.intervals.input(leaf[1]))

    def _thresholds(self, name: str) -> list[int]:
        """Values of a symbol on both sides of all that is decided by comparing it, the other inputs being small."""
        leaf: Leaf = ("symbol", name)
        found: dict[int, None] = {}
        for decision in self.program.decisions:
            leaves = self.expressions.leaves(decision.condition)
            if leaf not in leaves or not all(kind in ("symbol", "block") for kind, _ in leaves):
                continue
            if isinstance(decision.op, For):
                continue
            for side in (TRUE, FALSE):
                domain = self.solver.constrain(decision.condition, leaf, side, self._get, lenient=True)
                found.update(dict.fromkeys(sets.edges(sets.meet(domain, self._allowed(leaf)))))
        least, most = self.intervals.input(name)
        return sorted((x for x in found if least < x < most or x in (0, 1)), key=abs)[:MOST_THRESHOLDS]

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
        found = []
        for index in self._combinations():
            chosen = {name: domain[i] for (name, domain), i in zip(self.choices.items(), index, strict=True)}
            symbols = agreeing(self.kernel, {**self.base, **chosen})
            if self._allows(symbols):
                found.append((symbols, size(index)))
        found.sort(key=lambda item: item[1])
        return found

    def _combinations(self) -> Iterable[tuple[int, ...]]:
        """Which choice of each symbol: all combinations, or where these are many, all of every two symbols, and those
        of the first few choices."""
        widths = [len(domain) for domain in self.choices.values()]
        if prod(widths) <= MOST_STATIC:
            return product(*map(range, widths))
        names = range(len(widths))
        pairs = (
            tuple(x if n == a else y if n == b else 0 for n in names)
            for a, b in combinations(names, 2)
            for x, y in product(range(widths[a]), range(widths[b]))
        )
        few = product(*(range(min(4, width)) for width in widths))
        return dict.fromkeys((*islice(pairs, MOST_PAIRS), *islice(few, MOST_STATIC)))

    def _allows(self, symbols: dict[str, int]) -> bool:
        """What is asserted at host level, and loops short enough to be followed."""
        if not agrees(self.kernel, symbols):
            return False
        for count in self.sized:
            try:
                if self.expressions.evaluate(count, lambda leaf: self._sized(leaf, symbols)) > MOST_TRIPS:
                    return False
            except Unsolved:
                continue
        return True

    @staticmethod
    def _sized(leaf: Leaf, symbols: dict[str, int]) -> int:
        kind, name = leaf
        if kind == "symbol" and name in symbols:
            return symbols[name]
        if kind == "block":
            return 0
        raise Unsolved

    def _blocks(self, grid: tuple[int, ...]) -> Iterator[tuple[tuple[int, int, int], float]]:
        options = [[0], [0], [0]]
        for axis in self.axes:
            first = MOST_BLOCKS if ("block", axis) in self.driving else 1
            options[axis] = sorted({*range(min(grid[axis], first)), grid[axis] - 1})
        places = sorted(product(*(range(len(o)) for o in options)), key=size)
        for index in places[:MOST_STATIC]:
            x, y, z = (o[i] for o, i in zip(options, index, strict=True))
            yield (x, y, z), size(index)

    def longer(self, binding: Binding) -> Iterator[Binding]:
        """The same inputs but for one size, with which loops that it bounds go on: once, and past the deepest ring."""
        get = self._bound(binding)
        for name in self.choices:
            leaf: Leaf = ("symbol", name)
            if leaf not in self.driving:
                continue
            now = binding.symbols[name]
            for more in (1, self.around):
                further = {self._further(count, leaf, more, get) for count in self.counts_with(leaf)} - {None}
                for value in sorted(x for x in further or {now + more * self.base[name]} if x is not None and x > now):
                    symbols = agreeing(self.kernel, {**binding.symbols, name: value}, (name,))
                    if agrees(self.kernel, symbols):
                        yield Binding(symbols, binding.place, 0.0)

    def _further(self, count: Value, leaf: Leaf, more: int, get: Get) -> int | None:
        """The symbol with which the loop makes so many trips more."""
        try:
            trips = max(0, self.expressions.evaluate(count, get)) + more
            trips = trips if more == 1 else max(trips, self.trips)
        except Unsolved:
            return None
        domain = sets.meet(self.solver.constrain(count, leaf, sets.exactly(trips), get), self._allowed(leaf))
        return sets.nearest(domain, get(leaf))

    @staticmethod
    def _bound(binding: Binding) -> Get:
        def get(leaf: Leaf) -> int:
            kind, name = leaf
            if kind == "symbol" and name in binding.symbols:
                return binding.symbols[name]
            if kind == "block":
                return binding.place[name]
            raise Unsolved

        return get

    def counts_with(self, leaf: Leaf) -> list[Value]:
        return [count for count in self.counts if leaf in self.expressions.leaves(count)]

    def deciding(self, leaf: Leaf) -> Iterator[tuple[Value, Domain]]:
        """What the leaf decides, with the values worth reaching: a loop's count, or both sides of a decision."""
        counts = self.counts_with(leaf)
        if counts:
            yield from ((counts[0], sets.exactly(trips)) for trips in range(self.trips + 1))
            return
        for decision in self.program.decisions:
            if not isinstance(decision.op, For) and leaf in self.expressions.reach(decision.condition):
                yield decision.condition, TRUE
                yield decision.condition, FALSE

    def options(self, load: Load, at: Callable[[Leaf], int | None]) -> list[int]:
        """Values of a scalar of memory, of which each makes something that it decides different."""
        return self._options.setdefault(load, Remembered()).get(at, lambda get: self._found(load, get))

    def _found(self, load: Load, get: Get) -> list[int]:
        leaf: Leaf = ("load", load.op.result)
        allowed = sets.between(*type_range(load.op.result.type))
        found: dict[int, None] = {}
        for value, wanted in self.deciding(leaf):
            nearest = sets.nearest(sets.meet(self.solver.constrain(value, leaf, wanted, get), allowed))
            if nearest is not None:
                found[nearest] = None
        if not self.counts_with(leaf):
            found.update(dict.fromkeys(range(SMALL)))
        return list(found)[:MOST_OPTIONS] or [0]

    def varies(self, value: Value) -> bool:
        """Whether inputs decide it, also by way of variables."""
        return bool(self.expressions.inputs([value]))

    def _signature(self, symbols: dict[str, int], place: tuple[int, int, int]) -> tuple[Any, ...]:
        """What a binding decides: equal signatures, equal runs."""

        get = self._bound(Binding(symbols, place, 0.0))
        found: list[Any] = []
        for root in self.roots:
            leaves = self.expressions.leaves(root)
            try:
                found.append(self.expressions.evaluate(root, get))
            except Unsolved:
                fixed = sorted(((k, n) for k, n in leaves if k in ("symbol", "block")), key=str)
                found.append(tuple(get(leaf) for leaf in fixed if leaf[0] == "block" or leaf[1] in symbols))
        return tuple(found)


class Remembered:
    """Results of one function of leaves, found again by the leaves that it asked for, in order."""

    def __init__(self) -> None:
        self.asked: Leaf | None = None  # None: nothing more, and `result` holds
        self.result: list[int] | None = None
        self.further: dict[int | None, Remembered] = {}

    def get(self, at: Callable[[Leaf], int | None], compute: Callable[[Get], list[int]]) -> list[int]:
        node = self
        while node.asked is not None:
            node = node.further.setdefault(at(node.asked), Remembered())
        if node.result is None:
            node = self
            seen: dict[Leaf, int | None] = {}

            def get(leaf: Leaf) -> int:
                nonlocal node
                if leaf not in seen:
                    seen[leaf] = at(leaf)
                    node.asked = leaf
                    node = node.further.setdefault(seen[leaf], Remembered())
                value = seen[leaf]
                if value is None:
                    raise Unsolved
                return value

            result = compute(get)
            node.result = result
        return node.result


# -------------------------------------------------------------------------------------------------------- task lists
class ChoosingOracle(Oracle):
    """Values of scalars in global memory from a list of choices; the first option where the list has ended.

    A scalar that decides how often a loop runs has one option for each trip count that it can give; another has small
    numbers and those on both sides of what it is compared with.
    """

    def __init__(
        self, bindings: Bindings, prefix: tuple[int, ...], given: Mapping[tuple[Any, ...], int] | None = None
    ) -> None:
        super().__init__()
        self.values.update(given or {})
        self.bindings = bindings
        self.prefix = prefix
        self.taken: list[int] = []
        self.widths: list[int] = []  # how many options each choice had

    def choose(self, state: State, load: Load, warp: Warp, usual: int | None) -> int:
        options = self.bindings.options(load, lambda leaf: self._at(leaf, state, warp))
        if usual is not None:
            options = [usual, *(option for option in options if option != usual)]
        position = len(self.taken)
        index = self.prefix[position] if position < len(self.prefix) else 0
        index = min(index, len(options) - 1)
        self.taken.append(index)
        self.widths.append(len(options))
        return options[index]

    def _at(self, leaf: Leaf, state: State, warp: Warp) -> int | None:
        """What the leaf is where the warp stands; None where it is not one number."""
        kind, name = leaf
        if kind == "symbol":
            return int(state.symbols[name])
        if kind == "block":
            return state.place[name]
        slot = self.bindings.program.slots.get(name)
        value = None if slot is None else warp.values[slot]
        return value if isinstance(value, int) else None
