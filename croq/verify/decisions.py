"""Both sides of every decision: which ones no run has taken, inputs that should lead there, and what cannot be led to.

A decision is a branch, a loop (entered or not), a choice between two values, a comparison whose outcome is used as a
value, a place. Each thread that comes to one must have taken both sides, or a side must be impossible (intervals.py,
relations.py), or the verdict is not decided. Inputs for a side that is missing are solved for from a run that came to
the decision and took the other side: the condition, and what lies around it, over symbols, the block's place and
scalars of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

from croq.ir.core import Op, Value
from croq.ir.hw import Section
from croq.ir.scalar import Binary, For, If, Select, Unary, VarGet
from croq.target.cuda import WARP
from croq.verify import progressions as sets
from croq.verify.bindings import Binding, agreeing, agrees
from croq.verify.intervals import Threads, type_range
from croq.verify.leaves import Get, Leaf, Unsolved
from croq.verify.program import Program
from croq.verify.progressions import FAR, Domain
from croq.verify.relations import Relations
from croq.verify.sites import Decision, Sample
from croq.verify.solve import FALSE, TRUE, Solver

MOST_ATTEMPTS = 8  # from one run
LONGER = (25, 100, 400)  # iterations for what a variable counts
MOST_PLACE = 1 << 20  # blocks along one axis that a run is placed in


Fresh = list[tuple[Decision, int, int, int]]  # sides that a run took and none before it: with the warp and its lanes


@dataclass(frozen=True)
class Goal:
    """A side (1: true, 0: false) of a decision that a thread has come to and not taken."""

    decision: Decision
    side: int
    warp: int
    lane: int

    @property
    def missing(self) -> bool:
        return bool(self.decision.missing(self.side, self.warp) >> self.lane & 1)


@dataclass(frozen=True)
class Attempt:
    """Inputs of a run that should lead to a goal: sizes, the block, and scalars of memory."""

    symbols: dict[str, int]
    place: tuple[int, int, int]
    memory: dict[tuple[Any, ...], int]

    @property
    def key(self) -> tuple[Any, ...]:
        return (*sorted(self.symbols.items()), self.place, *sorted(self.memory.items(), key=str))


class Decisions:
    def __init__(self, program: Program, solver: Solver) -> None:
        self.program, self.solver = program, solver
        self.kernel = program.kernel
        self.expressions = solver.expressions
        self.intervals = program.intervals
        self._users = _users(program)
        self._asked = [d for d in program.decisions if self._matters(d)]
        self._impossible: dict[tuple[Decision, int, Threads], bool] = {}
        self._relations: dict[Threads, Relations] = {}

    def _matters(self, decision: Decision) -> bool:
        """Whether inputs decide it; and of comparisons those that are used as values: branches are counted as such."""
        if not self.expressions.inputs([decision.condition], control=True):
            return False
        return decision.what != "comparison" or not self._only_control(decision.condition)

    def required(self) -> Iterator[Goal]:
        """What is missing that must not be: which slot inputs choose is only tried."""
        return (goal for goal in self.goals() if goal.decision.what != "slot")

    def _only_control(self, value: Value) -> bool:
        for op in self._users.get(value, []):
            if value is op.decided_by or (isinstance(op, Select) and value is op.condition):
                continue
            joins = (isinstance(op, Binary) and op.op in ("land", "lor")) or isinstance(op, Unary)
            if not joins or not all(self._only_control(result) for result in op.results()):
                return False
        return True

    # ------------------------------------------------------------------------------------------------------- goals
    def goals(self) -> Iterator[Goal]:
        """What is still missing, outer decisions first; of the lanes of a warp one: its last, its first, or another."""
        for decision in self._asked:
            for warp, side in product(range(self.program.warps), (1, 0)):
                for lane in self._lanes(decision, side, warp):
                    if not self.impossible(decision, side, (WARP * warp + lane, WARP * warp + lane + 1)):
                        yield Goal(decision, side, warp, lane)
                        break

    def _lanes(self, decision: Decision, side: int, warp: int) -> list[int]:
        missing = decision.missing(side, warp)
        if not missing or self.impossible(decision, side, (WARP * warp, WARP * (warp + 1))):
            return []
        found = [lane for lane in range(WARP) if missing >> lane & 1]
        if not self.program.lanes.vary(decision.condition):
            return found[:1]
        return [found[-1], *found[:-1]]

    def impossible(self, decision: Decision, side: int, threads: Threads) -> bool:
        """Whether no input at all leads one of the threads to the side."""
        key = (decision, side, threads)
        if key not in self._impossible:
            if threads not in self._relations:
                self._relations[threads] = Relations(self.program, self.intervals, threads)
            relations = self._relations[threads]
            shown = relations.never_runs if isinstance(decision.op, For) else relations.never
            self._impossible[key] = shown(decision.condition, bool(side), decision.op)
        return self._impossible[key]

    def attempts(self, goal: Goal) -> Iterator[Attempt]:
        """Inputs to try, those most like a run that came to the decision first."""
        samples = [s for s in goal.decision.samples.get((1 - goal.side, goal.warp), []) if s.lanes >> goal.lane & 1]
        for sample in samples:
            yield from islice(self._from(sample, goal), MOST_ATTEMPTS)
        for sample in samples[:1]:
            yield from self._by_longer(sample, goal)

    def held(self, fresh: Fresh, binding: Binding, longer: Binding) -> Iterator[Attempt]:
        """Inputs of a longer run that lead to the sides which one took, where what makes it longer decides of them."""
        changed = {name for name, value in longer.symbols.items() if value != binding.symbols[name]}
        for decision, side, warp, lanes in {(d, s): (d, s, w, n) for d, s, w, n in fresh}.values():
            for sample in [*decision.samples.get((side, warp), []), *decision.samples.get((1 - side, warp), [])][:1]:
                goal = Goal(decision, side, warp, (lanes & -lanes).bit_length() - 1)
                leaves = [leaf for leaf in self._ordered(decision.condition) if self._free(leaf, sample)]
                if not any(("symbol", name) in leaves for name in changed):
                    continue
                now = replace(sample, symbols=longer.symbols)
                get = self._getter(now, goal)
                leaves = [leaf for leaf in leaves if leaf[0] != "symbol" or leaf[1] not in changed]
                for found in islice(self.solver.find([_side(decision, side)], leaves, get, self._allowed), 2):
                    attempt = self._attempt(now, goal.lane, found)
                    if attempt is not None:
                        yield attempt

    def _by_longer(self, sample: Sample, goal: Goal) -> Iterator[Attempt]:
        """The condition takes a variable that loops change: let them run longer."""
        condition = goal.decision.condition
        if not any(isinstance(self.expressions.definition.get(name), VarGet) for _, name in self._ordered(condition)):
            return
        names = [n for kind, n in self.expressions.inputs([condition], control=True) if kind == "symbol"]
        for name, trips in product(sorted(names), LONGER):
            for count in (None, *self.program.counts):
                value = trips
                if count is not None:
                    get = self._getter(sample, goal)
                    domain = self.solver.constrain(count, ("symbol", name), sets.exactly(trips), get)
                    value = next(sets.edges(sets.meet(domain, self._allowed(("symbol", name)))), 0)
                if value > sample.symbols[name]:
                    attempt = self._attempt(sample, goal.lane, {("symbol", name): value})
                    if attempt is not None:
                        yield attempt

    def _from(self, sample: Sample, goal: Goal) -> Iterator[Attempt]:
        get = self._getter(sample, goal)
        wanted = [_side(goal.decision, goal.side), *self._around(goal.decision.op, get)]
        leaves = [leaf for leaf in self._ordered(wanted[0][0]) if self._free(leaf, sample)]
        for found in self.solver.find(wanted, leaves, get, lambda leaf: self._allowed(leaf)):
            attempt = self._attempt(sample, goal.lane, found)
            if attempt is not None:
                yield attempt
        yield from self._by_counter(sample, goal, get)

    def _by_counter(self, sample: Sample, goal: Goal, get: Get) -> Iterator[Attempt]:
        """The condition asks for an iteration that no run has had: let the loop run so often."""
        condition, domain = _side(goal.decision, goal.side)
        for leaf in self._ordered(condition):
            loop = self.expressions.definition.get(leaf[1]) if leaf[0] == "other" else None
            if not isinstance(loop, For):
                continue
            turn = sets.nearest(
                sets.meet(self.solver.constrain(condition, leaf, domain, get), sets.between(0, 1 << 16))
            )
            if turn is None:
                continue
            wanted = [(loop.count, sets.between(turn + 1, FAR))]
            leaves = [other for other in self._ordered(loop.count) if self._free(other, sample)]
            for found in self.solver.find(wanted, leaves, get, lambda other: self._allowed(other)):
                attempt = self._attempt(sample, goal.lane, found)
                if attempt is not None:
                    yield attempt

    def _ordered(self, value: Value) -> list[Leaf]:
        order = {"symbol": 0, "load": 1, "block": 2, "other": 3}
        place = self.program.slice.order
        definition = self.expressions.definition

        def rank(leaf: Leaf) -> tuple[int, int, str]:
            op = definition.get(leaf[1]) if isinstance(leaf[1], Value) else None
            return order[leaf[0]], place.get(op, 0) if op is not None else 0, "" if op is not None else str(leaf[1])

        found = sorted(self.expressions.reach(value), key=rank)
        extra = [
            ("symbol", s) for kind, axis in found if kind == "block" for s in sorted(self.kernel.grid[axis].symbols())
        ]
        return list(dict.fromkeys([*found, *extra]))

    def _free(self, leaf: Leaf, sample: Sample) -> bool:
        """Whether an input can be given that value: symbols, the block, a scalar that has been read."""
        kind, name = leaf
        return kind in ("symbol", "block") or (kind == "load" and name in sample.reads)

    def _allowed(self, leaf: Leaf) -> Domain:
        kind, name = leaf
        if kind == "symbol":
            return sets.between(*self.intervals.input(name))
        if kind == "block":
            known = self.kernel.grid[name].known
            return sets.between(0, (known or MOST_PLACE) - 1)
        return sets.between(*type_range(name.type))

    def _around(self, op: Op, get: Get) -> Iterator[tuple[Value, Domain]]:
        """What must hold for the decision to be come to again, in the same iterations."""
        outer_of: Op = op
        for outer in reversed(self.program.slice.around[op]):
            if isinstance(outer, If):
                inside = outer_of in outer.then.ops
                yield outer.condition, TRUE if inside else FALSE
            elif isinstance(outer, Section) and outer.condition is not None:
                yield outer.condition, TRUE
            elif isinstance(outer, For):
                try:
                    yield outer.count, sets.between(get(("other", outer.iv)) + 1, FAR)
                except (Unsolved, KeyError, TypeError, ValueError):
                    yield outer.count, sets.between(1, FAR)
            outer_of = outer

    def _getter(self, sample: Sample, goal: Goal) -> Get:
        slots, lanes = self.program.slots, self.program.lanes

        def get(leaf: Leaf) -> int:
            kind, name = leaf
            if kind == "symbol":
                return sample.symbols[name]
            if kind == "block":
                return sample.place[name]
            fixed = lanes.fixed(name)
            if fixed is not None:
                return int(fixed[goal.warp * WARP + goal.lane])
            found = sample.values[slots[name]]
            if isinstance(found, np.ndarray):
                found = found[goal.lane].item()
            if not isinstance(found, int):
                raise Unsolved
            return int(found)

        return get

    def _attempt(self, sample: Sample, lane: int, found: dict[Leaf, int]) -> Attempt | None:
        symbols, place = dict(sample.symbols), list(sample.place)
        memory = dict(sample.memory)
        chosen = {name for kind, name in found if kind == "symbol"}
        for (kind, name), value in found.items():
            if kind == "symbol":
                symbols[name] = value
            elif kind == "block":
                place[name] = value
            else:
                at = sample.reads[name]
                memory[at[lane] if isinstance(at, list) else at] = value
        return self._placed(agreeing(self.kernel, symbols, chosen), place, memory)

    def _placed(self, symbols: dict[str, int], place: list[int], memory: dict[tuple[Any, ...], int]) -> Attempt | None:
        """With a grid that has the block: where it is too small, a size that makes it large enough."""
        for axis, dim in enumerate(self.kernel.grid):
            for name in sorted(dim.symbols()):
                size = symbols[name]
                while dim.evaluate(symbols) <= place[axis] and symbols[name] < 1 << 30:
                    size, symbols[name] = symbols[name], symbols[name] * 2
                while symbols[name] - size > 1:  # the least that is enough
                    middle = (symbols[name] + size) // 2
                    enough = dim.evaluate({**symbols, name: middle}) > place[axis]
                    size, symbols[name] = (size, middle) if enough else (middle, symbols[name])
            if not place[axis] < dim.evaluate(symbols):
                return None
        if not agrees(self.kernel, symbols):
            return None
        return Attempt(symbols, (place[0], place[1], place[2]), memory)


def _side(decision: Decision, side: int) -> tuple[Value, Domain]:
    if isinstance(decision.op, For):
        return decision.condition, sets.between(1, FAR) if side else sets.between(-FAR, 0)
    return decision.condition, TRUE if side else FALSE


def _users(program: Program) -> dict[Value, list[Op]]:
    found: dict[Value, list[Op]] = {}
    for op in program.slice.relevant:
        for value in op.operands():
            found.setdefault(value, []).append(op)
    return found
