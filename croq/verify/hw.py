"""How the operations of the machine are followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from croq.ir import hw
from croq.ir.core import Op, Value
from croq.ir.dispatch import lowered
from croq.ir.objects import FragRef, Matrix, Start, View
from croq.ir.scalar import Call, Cpp, LoadElement, StoreElement
from croq.ir.types import BYTES
from croq.verify.fragments import MapOp, called, flush, shared_accesses
from croq.verify.machine import Machine
from croq.verify.program import Coder, Level, Translator, every_warpgroup, global_load, rules, thread_bit
from croq.verify.slicing import is_shared


def _elect(coder: Coder, op: hw.Elect, mask: str) -> None:
    threads = coder.program.warps * 32
    if op.scope == "set":
        assert op.thread is not None
        row = thread_bit(op.thread, threads)
        coder.narrowed(coder.constant(("thread", op.thread), row), op.body, mask)
    elif op.scope == "warpgroup":
        coder.narrowed(coder.constant("warpgroup", every_warpgroup(threads)), op.body, mask)
    else:
        coder.line(f"S.warp_sync(W, {mask})")
        coder.narrowed("1", op.body, mask)


# ------------------------------------------------------------------------------------------------------------- barriers
def _init(coder: Coder, op: hw.MbarrierInit, mask: str) -> None:
    coder.line(f"S.init(W, {mask}, {coder.site(op, 'init', event=op.event, count=op.count)})")


def _init_fence(coder: Coder, op: hw.MbarrierInitFence, mask: str) -> None:
    coder.line(f"S.init_fence(W, {mask}, {coder.site(op, 'fence')})")


def _arrive(coder: Coder, op: hw.MbarrierArrive, mask: str) -> None:
    coder.line(f"S.arrive(W, {mask}, {coder.site(op, 'arrive', event=op.event)}, {coder.value(op.slot)})")


def _expect(coder: Coder, op: hw.MbarrierExpectTx, mask: str) -> None:
    site = coder.site(op, "arrive", event=op.event)
    coder.line(f"S.arrive(W, {mask}, {site}, {coder.value(op.slot)}, {op.bytes})")


def _wait(coder: Coder, op: hw.MbarrierWait, mask: str) -> None:
    site = coder.site(op, "wait", event=op.event)
    coder.line(f"while S.wait(W, {mask}, {site}, {coder.value(op.slot)}, {coder.value(op.parity)}): yield")


def _named_sync(coder: Coder, op: hw.NamedBarrierSync, mask: str) -> None:
    site = coder.site(op, "wait" if op.event else "sync", event=op.event, barrier=op.barrier)
    coder.line(f"S.bar_sync(W, {mask}, {site}, {op.barrier}, {op.count})")
    coder.line("while W.held: yield")


def _named_arrive(coder: Coder, op: hw.NamedBarrierArrive, mask: str) -> None:
    site = coder.site(op, "arrive", event=op.event, barrier=op.barrier)
    coder.line(f"S.bar_arrive(W, {mask}, {site}, {op.barrier}, {op.count})")


def _cta_sync(coder: Coder, op: hw.CtaSync, mask: str) -> None:
    site = coder.site(op, "sync")
    coder.line(f"S.bar_sync(W, {mask}, {site}, 0, {coder.program.warps * 32})")
    coder.line("while W.held: yield")


def _warp_sync(coder: Coder, op: hw.WarpSync, mask: str) -> None:
    coder.line(f"S.warp_sync(W, {mask})")


def _proxy_fence(coder: Coder, op: hw.ProxyFence, mask: str) -> None:
    coder.line(f"S.proxy_fence(W, {mask}, {coder.site(op, 'fence')})")


# ---------------------------------------------------------------------------------------------------------- copy engine
def _bytes(view: View) -> int | None:
    shape = [extent.known for extent in view.extents]
    return prod([BYTES[view.root.type], *(n for n in shape if n is not None)]) if None not in shape else None


def _load(coder: Coder, op: hw.BulkTensorLoad, mask: str) -> None:
    view = op.dest
    size = _bytes(view)
    if size is None:  # boxes have the extents that the host encodes
        coder.unruled(op)
        return
    site = coder.site(op, "load", view=view, event=op.event, bytes=size, start=op.start, map=op.map)
    place = f"{coder.value(view.slot)}, {coder.tuple_of(view.offsets)}, {coder.tuple_of(op.start.terms)}"
    coder.line(f"S.load_tile(W, {mask}, {site}, {place}, {coder.value(op.slot)})")


def _store(coder: Coder, op: hw.BulkTensorStore, mask: str) -> None:
    view = op.source
    size = _bytes(view)
    if size is None:
        coder.unruled(op)
        return
    site = coder.site(op, "store", view=view, bytes=size, start=op.start, map=op.map)
    place = f"{coder.value(view.slot)}, {coder.tuple_of(view.offsets)}, {coder.tuple_of(op.start.terms)}"
    coder.line(f"S.store_tile(W, {mask}, {site}, {place})")


def _bulk_commit(coder: Coder, op: hw.BulkCommit, mask: str) -> None:
    coder.line(f"S.bulk_commit(W, {mask})")


def _bulk_wait(coder: Coder, op: hw.BulkWait, mask: str) -> None:
    coder.line(f"S.bulk_wait(W, {mask}, {coder.site(op, 'bulk wait')}, {op.depth})")


def _copy(coder: Coder, op: hw.CopyTile, mask: str) -> None:
    for view, write in ((op.source, False), (op.dest, True)):
        if is_shared(view):
            together(coder, op, view, write, "copy", mask)


def _fill(coder: Coder, op: hw.FillTile, mask: str) -> None:
    if is_shared(op.dest):
        together(coder, op, op.dest, True, "fill", mask)


def together(coder: Coder, op: Op, view: View, write: bool, kind: str, mask: str) -> None:
    every = kind == "fill" and view.slot is None  # a fill without a slot is of all of them
    site = coder.site(op, kind, view=view, write=write, together=True, all=every)
    coder.line(f"S.together_tile(W, {mask}, {site}, {coder.value(view.slot)}, {coder.tuple_of(view.offsets)})")


# --------------------------------------------------------------------------------------------------------- tensor cores
def _wgmma_fence(coder: Coder, op: hw.WgmmaFence, mask: str) -> None:
    coder.line(f"S.wgmma_fence(W, {mask}, {coder.site(op, 'fence')})")


def _wgmma(coder: Coder, op: hw.WgmmaIssue, mask: str) -> None:
    in_registers = isinstance(op.a, FragRef)
    frag = op.a.frag if isinstance(op.a, FragRef) else None
    a = None if in_registers else op.a
    site = coder.site(op, "mma", acc=op.acc.frag, frag=frag, a=a, b=op.b, accumulate=op.accumulate)
    places = [_operand(coder, view, matrix) for view, matrix in ((op.a, op.a_matrix), (op.b, op.b_matrix))]
    coder.line(f"S.wgmma_issue(W, {mask}, {site}, {coder.value(op.acc.slot)}, {', '.join(places)})")


def _operand(coder: Coder, operand: View | FragRef, matrix: Matrix | None) -> str:
    """Slot, place, and what its descriptors are computed from."""
    starts = coder.tuple_of(operand.offsets) if isinstance(operand, View) else "()"
    made = (coder.tuple_of(matrix.start.terms), coder.value(matrix.first)) if matrix is not None else ("()", "0")
    return f"({coder.value(operand.slot)}, {starts}, {', '.join(made)})"


def _wgmma_commit(coder: Coder, op: hw.WgmmaCommit, mask: str) -> None:
    coder.line(f"S.wgmma_commit(W, {mask}, {coder.site(op, 'commit')})")


def _wgmma_wait(coder: Coder, op: hw.WgmmaWait, mask: str) -> None:
    coder.line(f"S.wgmma_wait(W, {mask}, {coder.site(op, 'mma wait')}, {op.depth})")


def _setmaxnreg(coder: Coder, op: hw.SetMaxNReg, mask: str) -> None:
    coder.line(f"S.collective(W, {mask}, {coder.site(op, 'setmaxnreg')})")


# ------------------------------------------------------------------------------------------------------------- elements
def reg_store(coder: Coder, op: hw.RegStore, mask: str) -> None:
    if is_shared(op.dest):
        coder.flush(mask)
        layout = op.frag.frag.layout
        site = coder.site(op, "fragment", view=op.dest, write=True, layout=layout)
        coder.line(
            f"S.fragment_tile(W, {mask}, {site}, {coder.value(op.dest.slot)}, {coder.tuple_of(op.dest.offsets)})"
        )


def element(coder: Coder, op: LoadElement | StoreElement, mask: str) -> None:
    if is_shared(op.view):
        site = coder.site(op, "element", view=op.view, write=isinstance(op, StoreElement))
        at = coder.coordinates(op.view, op.indices)
        coder.line(f"S.element(W, {mask}, {site}, {coder.value(op.view.slot)}, {at})")
    elif isinstance(op, LoadElement):
        global_load(coder, op, mask)


def call(coder: Coder, op: Call, mask: str) -> None:
    coder.flush(mask)
    called(coder, op, mask)
    for view in op.args:
        if isinstance(view, View) and is_shared(view):
            for write in (False, True):
                together(coder, op, view, write, "call", mask)


def cpp(coder: Coder, op: Cpp, mask: str) -> None:
    coder.line(f"S.opaque({coder.site(op, 'c++')})")


def operands(op: Op) -> Iterable[Value]:
    """Values that must be known to follow the operation: slots, parities and places in shared memory."""
    if isinstance(op, hw.MbarrierWait):
        yield op.parity
    for item in vars(op).values():
        if isinstance(item, Start | Matrix):
            yield from item.values()
    slot = getattr(op, "slot", None)
    if isinstance(slot, Value):
        yield slot
    yield from places(op)


def places(op: Op) -> Iterator[Value]:
    if isinstance(op, LoadElement | StoreElement):
        if is_shared(op.view):
            yield from [*op.view.values(), *op.indices]
    elif isinstance(op, MapOp):
        for _, view, indices in shared_accesses(op):
            yield from [*view.values(), *indices]
    else:
        for effect in op.own_effects():
            if isinstance(effect.target, FragRef) or is_shared(effect.target):
                yield from effect.target.values()


RULES: dict[type[Op], Translator] = {
    hw.Elect: _elect,
    hw.MbarrierInit: _init,
    hw.MbarrierInitFence: _init_fence,
    hw.MbarrierArrive: _arrive,
    hw.MbarrierExpectTx: _expect,
    hw.MbarrierWait: _wait,
    hw.NamedBarrierSync: _named_sync,
    hw.NamedBarrierArrive: _named_arrive,
    hw.CtaSync: _cta_sync,
    hw.WarpSync: _warp_sync,
    hw.ProxyFence: _proxy_fence,
    hw.BulkTensorLoad: _load,
    hw.BulkTensorStore: _store,
    hw.BulkCommit: _bulk_commit,
    hw.BulkWait: _bulk_wait,
    hw.CopyTile: _copy,
    hw.FillTile: _fill,
    hw.WgmmaFence: _wgmma_fence,
    hw.WgmmaIssue: _wgmma,
    hw.WgmmaCommit: _wgmma_commit,
    hw.WgmmaWait: _wgmma_wait,
    hw.SetMaxNReg: _setmaxnreg,
    hw.RegStore: reg_store,
    LoadElement: element,
    StoreElement: element,
    Call: call,
    Cpp: cpp,
}
RUNS = (hw.RegFill, hw.RegCopy, hw.RegMap, hw.RegReduceRow, hw.RegShuffleReduce)
LEVEL = Level("hw", rules("hardware", lowered, RULES, RUNS), flush, operands, Machine)
