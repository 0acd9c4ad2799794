"""The slice of a kernel as closures: the generator that they make up follows one warp.

An operation becomes steps: functions of the machine, the warp and the mask of its active lanes. One that only waits is
asked whether it must; one that may block inside is a generator function, which yields there. Values live in a list of
the warp and are numbered here. Lanes that part are followed one after the other, with the mask narrowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from croq.ir import scalar
from croq.ir.core import Block, Op, Value
from croq.ir.dispatch import Rules
from croq.ir.hw import Section
from croq.ir.objects import Variable, View
from croq.target.cuda import WARP
from croq.verify.places import decide_places
from croq.verify.sites import Decision, Site
from croq.verify.slicing import changed_inside, invariant, is_shared
from croq.verify.values import UNKNOWN, Scalar, collapse

if TYPE_CHECKING:
    from croq.verify.program import Program
    from croq.verify.state import State, Warp

Exit = Literal["break", "continue"]
Run = Generator[None, None, Exit | None]
Get = Callable[["State", "Warp"], Scalar]
Plain = Callable[[Any, "Warp", int], object]  # Any: the machine of the level
Blocking = Callable[[Any, "Warp", int], Run]


@dataclass(frozen=True)
class Step:
    """`take` does it: a function that never blocks ("plain"), one that says whether the warp must wait and be asked
    again ("asked"), or a generator function ("blocking"). `exits`: it may give how it leaves the loop around it."""

    take: Callable[[Any, Warp, int], Any]
    kind: Literal["plain", "asked", "blocking"] = "plain"
    exits: bool = False

    def as_plain(self, s: State, w: Warp, m: int) -> None:
        """Of what does not block, though it may have been made as if it did: loops."""
        if self.kind == "plain":
            self.take(s, w, m)
        else:
            deque(self.as_blocking()(s, w, m), maxlen=0)

    def as_blocking(self) -> Blocking:
        return self.take if self.kind == "blocking" else _blocking([self])


Branch = tuple[Step, int]  # with the lanes that take it
Translator = Callable[["Coder", Any], None]


@dataclass(eq=False)
class Level:
    """How the operations of one stage of the IR are followed."""

    name: str
    rules: Rules[Translator]  # a kernel that has an operation without a rule is not decided
    flush: Callable[[Coder, list[Op]], None]  # makes the step for a run of operations on registers
    operands: Callable[[Op], Iterable[Value]]  # what must be computed for an operation
    machine: type[Any]  # what takes the steps

    def protocol(self, op: Op) -> bool:
        """Whether it is of the protocol: all that is not arithmetic, control or a variable of the thread."""
        if isinstance(op, scalar.LoadElement | scalar.StoreElement):
            return is_shared(op.view)
        return not (op.ORDINARY or op.CONTROL == "threads")


class Coder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.kernel = program.kernel
        self.slice, self.analysis = program.slice, program.lanes
        self.size = 0
        self.variables: dict[Variable, int] = {}
        self.steps: list[Step] = []  # of the block being made
        self.pending: list[Op] = []  # register operations that no step has been made for

    # ------------------------------------------------------------------------------------------------------- steps
    def do(self, step: Plain) -> None:
        self.steps.append(Step(step))

    def wait(self, ask: Plain) -> None:
        """The warp waits as long as `ask` says so."""
        self.steps.append(Step(ask, "asked"))

    def meet(self, come: Plain) -> None:
        """The warp comes to a barrier, which holds it."""
        self.do(come)
        self.wait(_held)

    def branch(self, pick: Callable[[Any, Warp, int], Iterable[Branch]], *branches: Step) -> None:
        """`pick` says which of the branches are taken, in order, and by which lanes."""
        exits = any(step.exits for step in branches)

        def plainly(s: State, w: Warp, m: int) -> object:
            for step, lanes in pick(s, w, m):
                left = step.take(s, w, lanes)
                if left and step.exits:
                    return left
            return None

        def run(s: State, w: Warp, m: int) -> Run:
            for step, lanes in pick(s, w, m):
                left: Any = (yield from step.take(s, w, lanes)) if step.kind == "blocking" else step.take(s, w, lanes)
                if left and step.exits:
                    return left  # type: ignore[no-any-return]
            return None

        plain = all(step.kind == "plain" for step in branches)
        self.steps.append(Step(plainly, exits=exits) if plain else Step(run, "blocking", exits))

    def narrowed(self, lanes: Get, block: Block) -> None:
        """The block by those of the lanes."""
        inner = self.block(block)
        if inner.kind != "plain":
            self.branch(lambda s, w, m: ((inner, n),) if (n := m & lanes(s, w)) else (), inner)
            return
        take = inner.take

        def step(s: State, w: Warp, m: int) -> object:
            m &= lanes(s, w)
            return take(s, w, m) if m else None

        self.steps.append(Step(step, exits=inner.exits))

    # ------------------------------------------------------------------------------------------------------ values
    def new(self) -> int:
        self.size += 1
        return self.size - 1

    def slot(self, value: Value) -> int:
        if value not in self.program.slots:
            self.program.slots[value] = self.new()
        return self.program.slots[value]

    def variable(self, var: Variable) -> int:
        if var not in self.variables:
            self.variables[var] = self.new()
        return self.variables[var]

    def site(self, op: Op, kind: str, *, within: Op | None = None, **objects: Any) -> Site:
        """`within`: the map that `op` stands in."""
        label = ""
        for outer in self.slice.around[within or op]:
            if isinstance(outer, Section) and outer.role and outer.label:
                label = outer.label
        site = Site(op, len(self.program.sites), label, kind, objects)
        self.program.sites.append(site)
        return site

    def constant(self, value: Value | int | None) -> Any:
        """What the value is in every thread; None where that is not one value."""
        if value is None or isinstance(value, int):
            return value or 0
        fixed = self.analysis.fixed(value)
        if fixed is None or not (fixed == fixed[0]).all():
            return None
        return bool(fixed[0]) if value.type == "bool" else int(fixed[0])

    def value(self, value: Value | int | None) -> Get:
        known = self.constant(value)
        if known is not None:
            return lambda s, w: known
        assert isinstance(value, Value)
        fixed = self.analysis.fixed(value)
        if fixed is not None:
            return self.by_thread(fixed)
        slot = self.program.slots.get(value)
        return unknown if slot is None else lambda s, w: w.values[slot]

    def by_thread(self, row: Any) -> Get:
        """`row` has one entry a thread."""
        rows = [collapse(row[warp * WARP : (warp + 1) * WARP]) for warp in range(self.program.warps)]
        return lambda s, w: rows[w.index]

    def tuple_of(self, items: Iterable[Value | int | None]) -> Callable[[State, Warp], tuple[Scalar, ...]]:
        items = tuple(items)
        known = tuple(self.constant(item) for item in items)
        if None not in known:
            return lambda s, w: known
        gets = [self.value(item) for item in items]
        return lambda s, w: tuple([get(s, w) for get in gets])

    def bind(self, value: Value, get: Get) -> None:
        if value in self.slice.needed and self.analysis.fixed(value) is None:
            self.put(self.slot(value), get)

    def put(self, slot: int, get: Get) -> None:
        def step(s: State, w: Warp, m: int) -> None:
            w.values[slot] = get(s, w)

        self.do(step)

    def coordinates(self, view: View, indices: tuple[Value, ...]) -> Callable[[State, Warp], tuple[Scalar, ...]]:
        """The root coordinates of an element of the view."""
        index = dict(zip(view.kept, indices, strict=True))
        starts, within = self.tuple_of(view.offsets), self.tuple_of(index.get(d) for d in range(len(view.offsets)))
        return lambda s, w: tuple([a + b for a, b in zip(starts(s, w), within(s, w), strict=True)])

    # --------------------------------------------------------------------------------------------------- decisions
    def made(self, name: scalar.BinaryOp, left: Value, right: Value, type_: str) -> Value:
        """A value that the kernel does not compute, to ask about."""
        op = scalar.Binary(name, left, right, Value(type_))
        self.slice.definition[op.result] = op
        return op.result

    def number(self, value: int) -> Value:
        op = scalar.Const(value, Value("s64"))
        self.slice.definition[op.result] = op
        return op.result

    def decide(self, op: Op, condition: Value, what: str, get: Get) -> None:
        """Record which sides of a decision lanes take. Where threads alone decide, all is followed."""
        if self.analysis.fixed(condition) is not None:
            return
        threads = self.kernel.threads
        warps = [(1 << min(WARP, threads - first)) - 1 for first in range(0, threads, WARP)]
        decision = Decision(op, condition, what, warps)
        self.program.decisions.append(decision)

        def step(s: State, w: Warp, m: int) -> None:
            if not decision.done[w.index]:
                s.decide(decision, w, m, get(s, w))

        self.do(step)

    # -------------------------------------------------------------------------------------------------- operations
    def block(self, block: Block) -> Step:
        outer, self.steps = self.steps, []
        for op in block.ops:
            if op in self.slice.relevant:
                self.op(op)
        self.flush()
        steps, self.steps = self.steps, outer
        return sequence(steps)

    def flush(self) -> None:
        if self.pending:
            pending, self.pending = self.pending, []
            self.program.level.flush(self, pending)

    def op(self, op: Op) -> None:
        for inner in invariant(op):
            if inner in self.slice.relevant:
                self.op(inner)
        in_run = op.REGISTERS or isinstance(op, scalar.Call)
        if in_run:
            self.pending.append(op)
            for change in changed_inside(op):
                self.put(self.variable(change.var), unknown)  # by data
        if op in self.slice.protocol:
            decide_places(self, op)
        translator = self.program.level.rules.get(op)
        if translator is None:
            self.unruled(op)
            return
        if not (in_run or op.PURE):
            self.flush()
        translator(self, op)

    def unruled(self, op: Op, within: Op | None = None) -> None:
        """Nothing is known of the operation: who comes here is not followed any further."""
        site = self.site(op, op.NAME, within=within)
        self.do(lambda s, w, m: s.unruled(site))

    def matters(self, block: Block | None) -> bool:
        return block is not None and any(inner in self.slice.relevant for inner in block.ops)


def unknown(s: State, w: Warp) -> Scalar:
    return UNKNOWN


def _held(s: State, w: Warp, m: int) -> bool:
    return w.held


def sequence(steps: list[Step]) -> Step:
    """Runs of steps that neither block nor exit are taken as one."""
    joined: list[Step] = []
    for inert, group in groupby(steps, lambda step: step.kind == "plain" and not step.exits):
        run = list(group)
        joined += [_in_turn(run)] if inert else run
    if not joined:
        return Step(lambda s, w, m: None)
    if len(joined) == 1 and joined[0].kind != "asked":
        return joined[0]
    return Step(_blocking(joined), "blocking", any(step.exits for step in steps))


def _in_turn(steps: list[Step]) -> Step:
    takes = [step.take for step in steps]

    def plainly(s: State, w: Warp, m: int) -> None:
        for take in takes:
            take(s, w, m)

    return steps[0] if len(steps) == 1 else Step(plainly)


def _blocking(steps: list[Step]) -> Blocking:
    parts = [(step.take, step.kind == "asked", step.kind == "blocking", step.exits) for step in steps]

    def run(s: State, w: Warp, m: int) -> Run:
        for take, asked, blocks, exits in parts:
            if asked:
                while take(s, w, m):
                    yield
                continue
            left: Any = (yield from take(s, w, m)) if blocks else take(s, w, m)
            if exits and left:
                return left  # type: ignore[no-any-return]
        return None

    return run
