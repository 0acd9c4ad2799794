"""The copy engine: TMA loads and stores, bulk groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit.addresses import barrier, started
from croq.emit.registry import statement
from croq.emit.templating import Fields
from croq.emit.text import call_text
from croq.ir.hw import BulkCommit, BulkTensorLoad, BulkTensorStore, BulkWait

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


@statement(BulkTensorLoad)
def bulk_tensor_load(emitter: Emitter, op: BulkTensorLoad) -> Fields:
    tensor_map = emitter.arguments.of_map(op.map).name
    where = f"{started(emitter, op.dest, op.start)}, &{tensor_map}, {barrier(emitter, op.event, op.slot)}"
    box = [emitter.expr(c).text for c in op.coords]
    policy = [f"croq::policy_{op.evict}()"] if op.evict else []
    return {"call": call_text(f"croq::tma_load_{len(op.coords)}d", [where, ", ".join(box + policy)])}


@statement(BulkTensorStore)
def bulk_tensor_store(emitter: Emitter, op: BulkTensorStore) -> Fields:
    where = f"&{emitter.arguments.of_map(op.map).name}, {started(emitter, op.source, op.start)}"
    box = ", ".join(emitter.expr(c).text for c in op.coords)
    return {"call": call_text(f"croq::tma_store_{len(op.coords)}d", [where, box])}


@statement(BulkCommit)
def bulk_commit(emitter: Emitter, op: BulkCommit) -> Fields:
    return {}


@statement(BulkWait)
def bulk_wait(emitter: Emitter, op: BulkWait) -> Fields:
    return {"depth": op.depth, "suffix": "_read" if op.read else ""}
