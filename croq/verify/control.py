"""How control, variables and scalars that are loaded are followed: the same at both levels of the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.ir import scalar
from croq.ir.core import Block, Op, Value
from croq.ir.dispatch import Rules
from croq.ir.hw import Section
from croq.ir.objects import Buffer
from croq.ir.types import FLOATS
from croq.target.cuda import WARP
from croq.verify import expressions
from croq.verify.coder import Branch, Coder, Get, Run, Step, Translator, sequence, unknown
from croq.verify.sites import Load, Loop
from croq.verify.values import UNKNOWN, Scalar, merge, most, split

if TYPE_CHECKING:
    from croq.verify.state import State, Warp


def _declare(coder: Coder, op: scalar.VarDeclare) -> None:
    coder.put(coder.variable(op.var), coder.value(op.value))


def _get(coder: Coder, op: scalar.VarGet) -> None:
    slot = coder.variables.get(op.var)
    coder.bind(op.result, unknown if slot is None else lambda s, w: w.values[slot])


def _set(coder: Coder, op: scalar.VarSet) -> None:
    slot, get = coder.variable(op.var), coder.value(op.value)
    varies = op.var in coder.analysis.varying

    def step(s: State, w: Warp, m: int) -> None:
        value = UNKNOWN if w.perhaps else get(s, w)
        w.values[slot] = merge(m, value, w.values[slot]) if varies else value

    coder.do(step)


def _choose(coder: Coder, op: Op, condition: Value, kind: str, then: Block, otherwise: Block | None) -> None:
    get = coder.value(condition)
    coder.decide(op, condition, "branch", get)
    site = coder.site(op, kind)
    yes = coder.block(then)
    no = coder.block(otherwise) if otherwise is not None and coder.matters(otherwise) else None
    sides = [(yes, then)] + ([(no, otherwise)] if no is not None and otherwise is not None else [])
    perhaps = [_perhaps(step) for step, _ in sides] if all(harmless(block) for _, block in sides) else None
    if not coder.analysis.vary(condition):

        def choose(s: State, w: Warp, m: int) -> Iterable[Branch]:
            value = get(s, w)
            if value is UNKNOWN and perhaps is not None:
                return [(step, m) for step in perhaps]
            return ((yes, m),) if s.choice(site, value) else () if no is None else ((no, m),)

        coder.branch(choose, *(step for step, _ in sides))
        return

    def pick(s: State, w: Warp, m: int) -> list[Branch]:
        value = get(s, w)
        if value is UNKNOWN and perhaps is not None:
            return [(step, m) for step in perhaps]
        taken = zip((yes, no), split(m, s.known(site, value)), strict=True)
        return [(step, lanes) for step, lanes in taken if step is not None and lanes]

    coder.branch(pick, *(step for step, _ in sides))


def harmless(block: Block) -> bool:
    """Whether who runs it can be left open: it orders nothing, starts nothing and leaves no loop."""
    return all(
        op.CONTROL != "exit" and (op.ORDINARY or (op.REGISTERS and op.collective is None)) for op in block.walk()
    )


def _perhaps(step: Step) -> Step:
    """Run by those of the lanes that data choose: what it touches counts as touched, nothing as written."""

    def run(s: State, w: Warp, m: int) -> None:
        w.perhaps += 1
        step.as_plain(s, w, m)
        w.perhaps -= 1

    return Step(run)


def _if(coder: Coder, op: scalar.If) -> None:
    _choose(coder, op, op.condition, "if", op.then, op.otherwise)


def _section(coder: Coder, op: Section) -> None:
    if op.condition is not None:
        _choose(coder, op, op.condition, "role", op.body, None)
    else:
        inner = coder.block(op.body)
        coder.steps.append(inner)


def _for(coder: Coder, op: scalar.For) -> None:
    loop = Loop(op, len(coder.program.loops))
    coder.program.loops.append(loop)
    slot, get = coder.slot(op.iv), coder.value(op.count)
    coder.decide(op, op.count, "loop", lambda s, w: get(s, w) > 0)
    vary = coder.analysis.vary(op.count)
    body = coder.block(op.body).as_blocking()

    def run(s: State, w: Warp, m: int) -> Run:
        count = get(s, w)
        w.loop_masks.append(m)
        for turn in range(s.loop(loop, most(m, s.known(loop, count)) if vary else count)):
            w.values[slot] = turn
            if vary:
                w.loop_masks[-1] = split(m, turn < count)[0]
            if (yield from body(s, w, w.loop_masks[-1])) == "break":
                break
        w.loop_masks.pop()
        return None

    coder.steps.append(Step(run, "blocking"))


def _while(coder: Coder, op: scalar.While) -> None:
    loop = Loop(op, len(coder.program.loops))
    coder.program.loops.append(loop)
    outer, coder.steps = coder.steps, []
    for inner in op.head.ops:
        if inner in coder.slice.relevant:
            coder.op(inner)
    coder.flush()
    get = coder.value(op.condition)
    coder.decide(op, op.condition, "loop", get)
    head, coder.steps = sequence(coder.steps).as_blocking(), outer
    body = coder.block(op.body).as_blocking()

    def run(s: State, w: Warp, m: int) -> Run:
        count = 0
        w.loop_masks.append(m)
        while True:
            yield from head(s, w, m)
            if not s.uniform(loop, m, get(s, w)):
                break
            count += 1
            s.tick()
            if (yield from body(s, w, m)) == "break":
                break
        w.loop_masks.pop()
        s.trips(loop, count)
        return None

    coder.steps.append(Step(run, "blocking"))


def _exit(coder: Coder, op: scalar.Break | scalar.Continue) -> None:
    site, left = coder.site(op, op.NAME), op.NAME

    def step(s: State, w: Warp, m: int) -> str:
        s.together(site, m, w.loop_masks[-1])
        return left

    coder.steps.append(Step(step, exits=True))


def global_load(coder: Coder, op: scalar.LoadElement) -> None:
    """A scalar from global memory, where anything depends on it."""
    if isinstance(op.view.root, Buffer) or op.result not in coder.slice.needed:
        return
    if op.result.type in FLOATS or op.view.root in coder.program.written:
        coder.bind(op.result, unknown)  # data, or what the kernel itself may have changed
        return
    load = Load(op, len(coder.program.loads))
    coder.program.loads.append(load)
    slot, at = coder.slot(op.result), coder.coordinates(op.view, op.indices)

    def step(s: State, w: Warp, m: int) -> None:
        w.values[slot] = s.load(load, w, m, at(s, w))

    coder.do(step)


def shared_load(
    coder: Coder, op: scalar.LoadElement, slot_of: Get, at: Callable[[State, Warp], tuple[Scalar, ...]]
) -> None:
    """What was stored last, where anything depends on it and it is an integer."""
    if op.result.type in FLOATS or op.result not in coder.slice.needed:
        return
    load = Load(op, len(coder.program.loads))
    coder.program.loads.append(load)
    slot = coder.slot(op.result)

    def step(s: Any, w: Warp, m: int) -> None:
        w.values[slot] = s.stored(load, w, m, slot_of(s, w), at(s, w))

    coder.do(step)


def thread_bit(thread: int, threads: int) -> Any:
    """The lane mask of one thread in its warp, 0 in the other warps: for `Coder.by_thread`."""
    row = np.zeros(threads, dtype=np.int64)
    row[thread // WARP * WARP : (thread // WARP + 1) * WARP] = 1 << (thread % WARP)
    return row


def every_warpgroup(threads: int) -> Any:
    """Lane 0 of each warpgroup's first warp."""
    return (np.arange(threads, dtype=np.int64) // WARP % 4 == 0).astype(np.int64)


def in_run(coder: Coder, op: Op) -> None:
    """It touches registers alone, as its effects say: taken with its neighbours (`Level.flush`)."""


def pure(coder: Coder, op: Op) -> None:
    """Bind the result of a pure operation, where anything that is followed depends on it."""
    (result,) = op.results()
    if result in coder.slice.needed and coder.analysis.fixed(result) is None:
        coder.bind(result, expressions.getter(coder, op))
        expressions.decide(coder, op)


def rules(
    level: str, about: Callable[[type[Op]], bool], own: dict[type[Op], Translator], runs: Iterable[type[Op]]
) -> Rules[Translator]:
    """`runs`: operations on registers, scalar.py's added."""
    made = Rules[Translator](
        f"verifier of the {level} protocol", about, general=lambda kind: pure if kind.PURE else None
    )
    made.of = {**dict.fromkeys((*runs, scalar.FragDeclare), in_run), **_COMMON, **own}
    made.without("it stands in maps only, which are taken as a whole", scalar.FragRead, scalar.FragWrite)
    return made


_COMMON: dict[type[Op], Translator] = {
    scalar.VarDeclare: _declare,
    scalar.VarGet: _get,
    scalar.VarSet: _set,
    scalar.If: _if,
    scalar.For: _for,
    scalar.While: _while,
    scalar.Break: _exit,
    scalar.Continue: _exit,
    Section: _section,
}
