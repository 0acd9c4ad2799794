"""Barriers and fences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit.addresses import barrier
from croq.emit.expressions import Expr, plus, times
from croq.emit.registry import statement
from croq.emit.templating import Fields
from croq.ir.hw import (
    CtaSync,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierInit,
    MbarrierInitFence,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
    ProxyFence,
    WarpSync,
)

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

MBARRIER_BYTES = 8


@statement(MbarrierInit)
def mbarrier_init(emitter: Emitter, op: MbarrierInit) -> Fields:
    first = emitter.places.address(op.event)
    bars = [plus(first, times(slot, MBARRIER_BYTES)).text for slot in range(op.event.slots)]
    return {"bars": bars, "count": op.count}


@statement(MbarrierInitFence)
def mbarrier_init_fence(emitter: Emitter, op: MbarrierInitFence) -> Fields:
    return {}


@statement(MbarrierArrive)
def mbarrier_arrive(emitter: Emitter, op: MbarrierArrive) -> Fields:
    return {"bar": barrier(emitter, op.event, op.slot)}


@statement(MbarrierExpectTx)
def mbarrier_expect_tx(emitter: Emitter, op: MbarrierExpectTx) -> Fields:
    return {"bar": barrier(emitter, op.event, op.slot), "bytes": op.bytes}


@statement(MbarrierWait)
def mbarrier_wait(emitter: Emitter, op: MbarrierWait) -> Fields:
    parity: Expr = emitter.expr(op.parity)
    return {"bar": barrier(emitter, op.event, op.slot), "parity": parity.text}


@statement(NamedBarrierSync, NamedBarrierArrive)
def named_barrier(emitter: Emitter, op: NamedBarrierSync | NamedBarrierArrive) -> Fields:
    return {"barrier": op.barrier, "count": op.count, "event": op.event.name if op.event else ""}


@statement(CtaSync, WarpSync, ProxyFence)
def plain(emitter: Emitter, op: CtaSync | WarpSync | ProxyFence) -> Fields:
    return {}
