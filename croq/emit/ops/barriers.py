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
from croq.target.cuda import MBARRIER_BYTES, WARP

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


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


@statement(CtaSync, ProxyFence)
def plain(emitter: Emitter, op: CtaSync | ProxyFence) -> Fields:
    return {}


@statement(WarpSync)
def warp_sync(emitter: Emitter, op: WarpSync) -> Fields:
    """Of part of a warp by its lanes: the others may never come."""
    if op.threads is None or op.threads.whole_warps():
        return {"lanes": ""}
    return {"lanes": f"{sum(1 << thread % WARP for thread in op.threads):#x}"}
