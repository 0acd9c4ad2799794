"""mbarriers, named barriers, fences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from croq.ir import hw
from croq.ir.core import Op, Value
from croq.ir.objects import Event
from croq.simulate.barriers import Mbarrier, NamedBarrier
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.faults import fault
from croq.simulate.machine import Run, Waiting, Warp, lanes_of
from croq.simulate.ops_mma import group_of
from croq.target.cuda import CTA_BARRIER, WARP


@handles(hw.MbarrierInit)
def _init(c: Compiler, op: hw.MbarrierInit) -> Code:
    event, count = op.event, op.count

    def run(warp: Warp) -> None:
        for _ in lanes_of(warp.mask):
            for barrier in warp.cta.barriers.mbarriers[event]:
                barrier.init(count, op)
                if warp.cta.watch is not None:
                    warp.cta.watch.initialise(warp, op, barrier)

    return Code(run)


@handles(hw.MbarrierInitFence)
def _init_fence(c: Compiler, op: hw.MbarrierInitFence) -> Code:
    def run(warp: Warp) -> None:
        if warp.cta.watch is not None:
            warp.cta.watch.initialised(warp, op)

    return Code(run)


@handles(hw.WarpSync)
def _warp_sync(c: Compiler, op: Op) -> Code:
    return Code(lambda warp: converge(warp, op))


def converge(warp: Warp, op: Op) -> None:
    """__syncwarp: lanes run together anyway, so that only a watcher learns something."""
    if warp.cta.watch is not None:
        warp.cta.watch.converge(warp, op)


@handles(hw.SetMaxNReg)
def _setmaxnreg(c: Compiler, op: hw.SetMaxNReg) -> Code:
    return Code(lambda warp: group_of(warp, op).issue(warp, op))


def barriers(c: Compiler, event: Event, slot: Value | None, op: Op) -> Callable[[Warp], dict[Mbarrier, int]]:
    """The barriers of the active lanes, and which lanes name each; several when the slot differs between lanes."""
    number = c.getter(slot)

    def find(warp: Warp) -> dict[Mbarrier, int]:
        at = number(warp)
        if type(at) is not np.ndarray:
            return {warp.cta.barriers.slot(event, at, op): warp.mask}
        found: dict[Mbarrier, int] = {}
        for lane in lanes_of(warp.mask):
            barrier = warp.cta.barriers.slot(event, int(at[lane]), op)
            found[barrier] = found.get(barrier, 0) | 1 << lane
        return found

    return find


@handles(hw.MbarrierArrive, hw.MbarrierExpectTx)
def _arrive(c: Compiler, op: hw.MbarrierArrive | hw.MbarrierExpectTx) -> Code:
    find = barriers(c, op.event, op.slot, op)
    size = op.bytes if isinstance(op, hw.MbarrierExpectTx) else 0

    def run(warp: Warp) -> None:
        watch = warp.cta.watch
        for barrier, lanes in find(warp).items():
            phase = barrier.phase
            if watch is not None and barrier.expected:
                watch.arrive(warp, op, barrier, lanes)
            barrier.come(lanes.bit_count(), op, size)
            if watch is not None and barrier.phase != phase:
                watch.complete(op, barrier)

    return c.preemptible(Code(run))


@handles(hw.MbarrierWait)
def _wait(c: Compiler, op: hw.MbarrierWait) -> Code:
    number, parity = c.getter(op.slot), c.slot(op.parity)
    event = op.event

    def wanted(warp: Warp) -> list[tuple[Mbarrier, int, int]]:
        slots, parities = number(warp), warp.v[parity]
        slot = warp.cta.barriers.slot
        if type(slots) is not np.ndarray and type(parities) is not np.ndarray:
            return [(slot(event, slots, op), parities, warp.mask)]
        slots, parities = np.broadcast_to(slots, WARP), np.broadcast_to(parities, WARP)
        pairs: dict[tuple[int, int], int] = {}
        for lane in lanes_of(warp.mask):
            pair = int(slots[lane]), int(parities[lane])
            pairs[pair] = pairs.get(pair, 0) | 1 << lane
        return [(slot(event, s, op), p, lanes) for (s, p), lanes in pairs.items()]

    def run(warp: Warp) -> Run:
        watch = warp.cta.watch
        for barrier, phase, lanes in wanted(warp):
            barrier.check(op)
            if watch is not None:
                watch.wait(warp, op, barrier, phase, lanes)
            if not barrier.done(phase):
                yield Waiting(op, partial(barrier.done, phase), partial(barrier.describe, phase), barrier)
            warp.passed[barrier] = warp.passed.get(barrier, 0) + 1
            if watch is not None:
                watch.passed(warp, op, barrier, phase, lanes)

    return c.preemptible(Code(blocking=run))


# ---------------------------------------------------------------------------------------------------- named barriers
@handles(hw.NamedBarrierSync)
def _sync(c: Compiler, op: hw.NamedBarrierSync) -> Code:
    return c.preemptible(_synchronise(op, op.barrier, op.count, op.event))


@handles(hw.CtaSync)
def _cta_sync(c: Compiler, op: hw.CtaSync) -> Code:
    return c.preemptible(_synchronise(op, CTA_BARRIER, c.kernel.warps * WARP, None))


def _synchronise(op: Op, id_: int, count: int, event: Event | None) -> Code:
    def run(warp: Warp) -> Run:
        barrier = warp.cta.barriers.barrier(id_, event)
        _check_warp(warp, barrier.name, op)
        generation = barrier.generation
        if not _join(warp, barrier, count, op):
            yield Waiting(op, lambda: barrier.generation != generation, barrier.describe, named=barrier)
        if warp.cta.watch is not None:
            warp.cta.watch.leave(warp, op, barrier, generation)

    return Code(blocking=run)


@handles(hw.NamedBarrierArrive)
def _named_arrive(c: Compiler, op: hw.NamedBarrierArrive) -> Code:
    id_, count, event = op.barrier, op.count, op.event

    def run(warp: Warp) -> None:
        barrier = warp.cta.barriers.barrier(id_, event)
        _check_warp(warp, barrier.name, op)
        _join(warp, barrier, count, op)

    return c.preemptible(Code(run))


def _join(warp: Warp, barrier: NamedBarrier, count: int, op: Op) -> bool:
    watch = warp.cta.watch
    if watch is not None:
        watch.join(warp, op, barrier)
    last = barrier.come(count, op, warp.index)
    if watch is not None and last:
        watch.joined(op, barrier)
    return last


def _check_warp(warp: Warp, name: str, op: Op) -> None:
    if warp.mask != warp.base:
        raise fault(
            "E-5017",
            op,
            f"{name} is used by {warp.mask.bit_count()} of the {warp.base.bit_count()} lanes of warp {warp.index}",
            notes=["bar.sync and bar.arrive count whole warps. PTX ISA, bar"],
            hint="use an event with another set of threads, or make whole warps take part",
        )


@handles(hw.ProxyFence)
def _proxy_fence(c: Compiler, op: hw.ProxyFence) -> Code:
    def run(warp: Warp) -> None:
        if warp.cta.watch is not None:
            warp.cta.watch.fence(warp, op)

    return Code(run)
