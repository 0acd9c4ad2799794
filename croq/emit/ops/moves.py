"""The copy engine: TMA loads and stores, bulk groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit.addresses import barrier, view_start
from croq.emit.registry import statement
from croq.emit.templating import Fields
from croq.ir.hw import BulkCommit, BulkTensorLoad, BulkTensorStore, BulkWait

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


@statement(BulkTensorLoad)
def bulk_tensor_load(emitter: Emitter, op: BulkTensorLoad) -> Fields:
    return {
        "rank": len(op.coords),
        "dest": view_start(emitter, op.dest),
        "map": emitter.arguments.of_map(op.map).name,
        "bar": barrier(emitter, op.event, op.slot),
        "coords": ", ".join(emitter.expr(c).text for c in op.coords),
        "policy": f"croq::policy_{op.evict}()" if op.evict else "",
    }


@statement(BulkTensorStore)
def bulk_tensor_store(emitter: Emitter, op: BulkTensorStore) -> Fields:
    return {
        "rank": len(op.coords),
        "source": view_start(emitter, op.source),
        "map": emitter.arguments.of_map(op.map).name,
        "coords": ", ".join(emitter.expr(c).text for c in op.coords),
    }


@statement(BulkCommit)
def bulk_commit(emitter: Emitter, op: BulkCommit) -> Fields:
    return {}


@statement(BulkWait)
def bulk_wait(emitter: Emitter, op: BulkWait) -> Fields:
    return {"depth": op.depth, "suffix": "_read" if op.read else ""}
