"""Control flow: branches, loops, election; lanes of a warp that go different ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from croq.ir import hw, scalar
from croq.ir.core import Block
from croq.ir.lanes import lane_flags, packed
from croq.simulate.compiler import Blocking, Code, Compiler, Plain, exits, handles
from croq.simulate.dtypes import Scalar
from croq.simulate.faults import SimulationFault, fault
from croq.simulate.machine import Run, Warp
from croq.simulate.ops_barrier import converge
from croq.target.cuda import WARP

WAITED = 10_000  # turns of a loop that only others can end, after which nobody will come
TURNS = 200_000  # of any other loop without a count


# ------------------------------------------------------------------------------------------------------ control flow
@handles(scalar.If)
def _if(c: Compiler, op: scalar.If) -> Code:
    condition = c.slot(op.condition)
    then = c.block(op.then)
    otherwise = c.block(op.otherwise) if op.otherwise is not None else Code(lambda warp: None)
    if c.map is not None:
        return _if_elements(condition, then, otherwise)
    return _branch(condition, then, otherwise)


@handles(hw.Section)
def _section(c: Compiler, op: hw.Section) -> Code:
    body = c.block(op.body)
    if op.condition is None:
        return body
    return _branch(c.slot(op.condition), body, Code(lambda warp: None))


def _branch(condition: int, then: Code, otherwise: Code) -> Code:
    may_exit = then.exits or otherwise.exits
    if then.plain is not None and otherwise.plain is not None:
        return Code(plain=_plain_branch(condition, then.plain, otherwise.plain), exits=may_exit)
    taken, other = then.as_blocking(), otherwise.as_blocking()

    def run(warp: Warp) -> Run:
        test = warp.v[condition]
        if type(test) is not np.ndarray:
            yield from taken(warp) if test else other(warp)
            return
        mask = warp.mask
        yes = packed(test) & mask
        for lanes, side in ((yes, taken), (mask & ~yes, other)):
            if lanes:
                warp.mask = lanes
                yield from side(warp)
        warp.mask = mask & warp.alive

    return Code(blocking=run, exits=may_exit)


def _plain_branch(condition: int, taken: Plain, other: Plain) -> Plain:
    def run(warp: Warp) -> None:
        test = warp.v[condition]
        if type(test) is not np.ndarray:
            (taken if test else other)(warp)
            return
        mask = warp.mask
        yes = packed(test) & mask
        for lanes, side in ((yes, taken), (mask & ~yes, other)):
            if lanes:
                warp.mask = lanes
                side(warp)
        warp.mask = mask & warp.alive

    return run


def _if_elements(condition: int, then: Code, otherwise: Code) -> Code:
    taken, other = then.plain, otherwise.plain
    assert taken is not None
    assert other is not None

    def run(warp: Warp) -> None:
        test = warp.v[condition]
        if type(test) is not np.ndarray:
            (taken if test else other)(warp)
            return
        mask = warp.element_mask
        for flags, side in ((test, taken), (~test, other)):
            active = flags if mask is None else flags & mask
            if active.any():
                warp.element_mask = active
                side(warp)
        warp.element_mask = mask

    return Code(run)


@handles(scalar.Break)
def _break(c: Compiler, op: scalar.Break) -> Code:
    def run(warp: Warp) -> None:
        warp.alive &= ~warp.mask
        warp.broken |= warp.mask
        warp.mask = 0

    return Code(run, exits=True)


@handles(scalar.Continue)
def _continue(c: Compiler, op: scalar.Continue) -> Code:
    def run(warp: Warp) -> None:
        warp.alive &= ~warp.mask
        warp.mask = 0

    return Code(run, exits=True)


@handles(scalar.For)
def _for(c: Compiler, op: scalar.For) -> Code:
    count, iv = c.slot(op.count), c.result(op.iv)
    body = c.block(op.body)
    if c.map is not None:
        return _for_elements(op, count, iv, body)
    plain = body.plain
    if plain is not None:

        def run_plainly(warp: Warp) -> None:
            for _ in _turns(warp, op, count, iv):
                plain(warp)

        return Code(run_plainly)
    step = body.as_blocking()

    def run(warp: Warp) -> Run:
        for _ in _turns(warp, op, count, iv):
            yield from step(warp)

    return Code(blocking=run)


def _turns(warp: Warp, op: scalar.For, count: int, iv: int) -> Iterator[None]:
    trips = warp.v[count]
    loop = _Loop(warp)
    for i in range(_most(trips, warp)):
        if not loop.next(trips, i):
            break
        warp.step(op)
        warp.v[iv] = i
        yield
    loop.leave()


class _Loop:
    """The lanes of a loop: those that started it, those that have left it."""

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.mask, self.alive, self.broken = warp.mask, warp.alive, warp.broken
        warp.broken = 0

    def next(self, trips: Scalar, i: int) -> bool:
        """Set the lanes of iteration i; False when none is left."""
        warp = self.warp
        lanes = self.mask & ~warp.broken
        if type(trips) is np.ndarray:
            lanes &= packed(trips > i)
        warp.mask = warp.alive = lanes
        return lanes != 0

    def leave(self) -> None:
        self.warp.mask, self.warp.alive, self.warp.broken = self.mask, self.alive, self.broken


def _most(trips: Scalar, warp: Warp) -> int:
    if type(trips) is np.ndarray:
        return int(trips[lane_flags(warp.mask)].max())
    return int(trips)


def _for_elements(op: scalar.For, count: int, iv: int, body: Code) -> Code:
    step = body.plain
    assert step is not None
    if exits(op.body):
        raise fault("E-5030", op, "the simulator cannot leave a loop for single elements of a fragment")

    def run(warp: Warp) -> None:
        trips, mask = warp.v[count], warp.element_mask
        vector = type(trips) is np.ndarray
        for i in range(int(trips.max()) if vector else trips):
            warp.step(op)
            if vector:
                active = trips > i
                warp.element_mask = active if mask is None else active & mask
            warp.v[iv] = i
            step(warp)
        warp.element_mask = mask

    return Code(run)


@handles(scalar.While)
def _while(c: Compiler, op: scalar.While) -> Code:
    if c.map is not None:
        raise fault("E-5030", op, "the simulator cannot run a `while` for each element of a fragment")
    head, body = _both(c, op.head), _both(c, op.body)
    condition = c.slot(op.condition)
    most = WAITED if waits_for_others(op) else TURNS

    def run(warp: Warp) -> Run:
        loop = _Loop(warp)
        turns = 0
        while loop.next(None, 0):
            warp.step(op)
            turns += 1
            if turns == most:
                raise _endless(op, warp, turns)
            yield from head(warp)
            test = warp.v[condition]
            lanes = packed(test) if type(test) is np.ndarray else (-1 if test else 0)
            warp.broken |= warp.mask & ~lanes
            warp.mask = warp.alive = warp.mask & lanes
            if not warp.mask:
                break
            yield from body(warp)
            yield None  # it may spin on what another warp writes
        loop.leave()

    return Code(blocking=run)


def waits_for_others(op: scalar.While) -> bool:
    """Whether nothing that the loop does itself can end it: its condition takes no variable that it sets, and it has no
    other way out."""
    inside = [*op.head.walk(), *op.body.walk()]
    feeds = {value: inner for inner in inside for value in inner.results()}
    changed = {inner.var for inner in inside if isinstance(inner, scalar.VarSet)}
    work, seen = [op.condition], set()
    while work:
        inner = feeds.get(work.pop())
        if inner is None or inner in seen:
            continue
        seen.add(inner)
        if isinstance(inner, scalar.VarGet) and inner.var in changed:
            return False
        work += inner.operands()
    return not exits(op.body)


def _endless(op: scalar.While, warp: Warp, turns: int) -> SimulationFault:
    """Where it waits for others: all warps of the block have had as many turns, and written what they would write."""
    said = f"this loop does not end: warp {warp.index} has made {turns} turns of it"
    if turns == TURNS:
        return fault("E-5011", op, said, hint="is the loop's condition ever false?")
    return fault(
        "E-5011",
        op,
        f"{said}, and nothing changes that its condition takes",
        notes=[
            "neither the loop itself nor another warp of the block changes it any more",
            "blocks are simulated one after the other: what other blocks or kernels would write meanwhile is not there",
        ],
        hint="wait for an event, or let another launch write what this one reads",
    )


def _both(c: Compiler, block: Block) -> Blocking:
    return c.block(block).as_blocking()


# ---------------------------------------------------------------------------------------------------------- election
def _elected(op: hw.Elect, warp: Warp) -> int:
    """The lanes of the warp that run the body."""
    if op.scope == "set":
        if op.thread is None:
            raise fault("E-5099", op, "an election without a thread")
        return warp.mask & (1 << op.thread % WARP) if op.thread // WARP == warp.index else 0
    if op.scope == "warp":
        converge(warp, op)
    if op.scope == "warpgroup" and warp.index % 4:
        return 0
    return warp.mask & 1


@handles(hw.Elect)
def _elect(c: Compiler, op: hw.Elect) -> Code:
    body = c.block(op.body)
    elected = partial(_elected, op)
    if body.plain is not None:
        plain = body.plain

        def run_plain(warp: Warp) -> None:
            lanes = elected(warp)
            if lanes:
                mask, warp.mask = warp.mask, lanes
                plain(warp)
                warp.mask = mask & warp.alive

        return Code(run_plain, exits=body.exits)
    blocking = body.as_blocking()

    def run(warp: Warp) -> Run:
        lanes = elected(warp)
        if lanes:
            mask, warp.mask = warp.mask, lanes
            yield from blocking(warp)
            warp.mask = mask & warp.alive

    return Code(blocking=run, exits=body.exits)
