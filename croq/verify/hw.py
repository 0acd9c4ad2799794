"""How the operations of the machine are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod

from croq.ir import hw
from croq.ir.core import Op, Value
from croq.ir.dispatch import lowered
from croq.ir.objects import Fragment, FragRef, Matrix, Start, View
from croq.ir.scalar import Call, Cpp, LoadElement, StoreElement
from croq.ir.types import BYTES
from croq.verify.coder import Coder, Level, Translator
from croq.verify.control import every_warpgroup, global_load, rules, shared_load, thread_bit
from croq.verify.fragments import MapOp, called, flush, shared_accesses
from croq.verify.machine import Machine
from croq.verify.slicing import is_shared
from croq.verify.state import Warp
from croq.verify.tensor import Operand


def do(coder: Coder, step: Callable[[Machine, Warp, int], object]) -> None:
    coder.do(step)


def _elect(coder: Coder, op: hw.Elect) -> None:
    threads = coder.program.warps * 32
    if op.scope == "set":
        assert op.thread is not None
        coder.narrowed(coder.by_thread(thread_bit(op.thread, threads)), op.body)
    elif op.scope == "warpgroup":
        coder.narrowed(coder.by_thread(every_warpgroup(threads)), op.body)
    else:
        _warp_sync(coder, op)
        coder.narrowed(lambda s, w: 1, op.body)


# ------------------------------------------------------------------------------------------------------------- barriers
def _init(coder: Coder, op: hw.MbarrierInit) -> None:
    site = coder.site(op, "init", event=op.event, count=op.count)
    do(coder, lambda s, w, m: s.init(w, m, site))


def _init_fence(coder: Coder, op: hw.MbarrierInitFence) -> None:
    site = coder.site(op, "fence")
    do(coder, lambda s, w, m: s.init_fence(w, m, site))


def _arrive(coder: Coder, op: hw.MbarrierArrive | hw.MbarrierExpectTx) -> None:
    site, slot = coder.site(op, "arrive", event=op.event), coder.value(op.slot)
    size = op.bytes if isinstance(op, hw.MbarrierExpectTx) else 0
    do(coder, lambda s, w, m: s.arrive(w, m, site, slot(s, w), size))


def _wait(coder: Coder, op: hw.MbarrierWait) -> None:
    site, slot, parity = coder.site(op, "wait", event=op.event), coder.value(op.slot), coder.value(op.parity)
    coder.wait(lambda s, w, m: s.wait(w, m, site, slot(s, w), parity(s, w)))


def _named_sync(coder: Coder, op: hw.NamedBarrierSync) -> None:
    site = coder.site(op, "wait" if op.event else "sync", event=op.event, barrier=op.barrier)
    coder.meet(lambda s, w, m: s.bar_sync(w, m, site, op.barrier, op.count))


def _named_arrive(coder: Coder, op: hw.NamedBarrierArrive) -> None:
    site = coder.site(op, "arrive", event=op.event, barrier=op.barrier)
    do(coder, lambda s, w, m: s.bar_arrive(w, m, site, op.barrier, op.count))


def _cta_sync(coder: Coder, op: hw.CtaSync) -> None:
    site, threads = coder.site(op, "sync"), coder.program.warps * 32
    coder.meet(lambda s, w, m: s.bar_sync(w, m, site, 0, threads))


def _warp_sync(coder: Coder, op: Op) -> None:
    do(coder, lambda s, w, m: s.warp_sync(w, m))


def _proxy_fence(coder: Coder, op: hw.ProxyFence) -> None:
    site = coder.site(op, "fence")
    do(coder, lambda s, w, m: s.proxy_fence(w, m, site))


# ---------------------------------------------------------------------------------------------------------- copy engine
def _bytes(view: View) -> int | None:
    shape = [extent.known for extent in view.extents]
    return prod([BYTES[view.root.type], *(n for n in shape if n is not None)]) if None not in shape else None


def _load(coder: Coder, op: hw.BulkTensorLoad) -> None:
    view = op.dest
    size = _bytes(view)
    if size is None:  # boxes have the extents that the host encodes
        coder.unruled(op)
        return
    site = coder.site(op, "load", view=view, event=op.event, bytes=size, start=op.start, map=op.map)
    slot, starts, terms = coder.value(view.slot), coder.tuple_of(view.offsets), coder.tuple_of(op.start.terms)
    phase = coder.value(op.slot)
    do(coder, lambda s, w, m: s.load_tile(w, m, site, slot(s, w), starts(s, w), terms(s, w), phase(s, w)))


def _store(coder: Coder, op: hw.BulkTensorStore) -> None:
    view = op.source
    size = _bytes(view)
    if size is None:
        coder.unruled(op)
        return
    site = coder.site(op, "store", view=view, bytes=size, start=op.start, map=op.map)
    slot, starts, terms = coder.value(view.slot), coder.tuple_of(view.offsets), coder.tuple_of(op.start.terms)
    do(coder, lambda s, w, m: s.store_tile(w, m, site, slot(s, w), starts(s, w), terms(s, w)))


def _bulk_commit(coder: Coder, op: hw.BulkCommit) -> None:
    do(coder, lambda s, w, m: s.bulk_commit(w, m))


def _bulk_wait(coder: Coder, op: hw.BulkWait) -> None:
    site = coder.site(op, "bulk wait")
    do(coder, lambda s, w, m: s.bulk_wait(w, m, site, op.depth))


def _copy(coder: Coder, op: hw.CopyTile) -> None:
    for view, write in ((op.source, False), (op.dest, True)):
        if is_shared(view):
            together(coder, op, view, write, "copy")


def _fill(coder: Coder, op: hw.FillTile) -> None:
    if is_shared(op.dest):
        together(coder, op, op.dest, True, "fill")


def together(coder: Coder, op: Op, view: View, write: bool, kind: str) -> None:
    every = kind == "fill" and view.slot is None  # a fill without a slot is of all of them
    site = coder.site(op, kind, view=view, write=write, together=True, all=every)
    slot, starts = coder.value(view.slot), coder.tuple_of(view.offsets)
    do(coder, lambda s, w, m: s.together_tile(w, m, site, slot(s, w), starts(s, w)))


# --------------------------------------------------------------------------------------------------------- tensor cores
def _wgmma_fence(coder: Coder, op: hw.WgmmaFence) -> None:
    site = coder.site(op, "fence")
    do(coder, lambda s, w, m: s.wgmma_fence(w, m, site))


def _wgmma(coder: Coder, op: hw.WgmmaIssue) -> None:
    frag, a = (op.a.frag, None) if isinstance(op.a, FragRef) else (None, op.a)
    site = coder.site(op, "mma", acc=op.acc.frag, frag=frag, a=a, b=op.b, accumulate=op.accumulate)
    slot, left, right = coder.value(op.acc.slot), _operand(coder, op.a, op.a_matrix), _operand(coder, op.b, op.b_matrix)
    do(coder, lambda s, w, m: s.wgmma_issue(w, m, site, slot(s, w), left(s, w), right(s, w)))


def _operand(coder: Coder, operand: View | FragRef, matrix: Matrix | None) -> Callable[[Machine, Warp], Operand]:
    """Slot, place, and what its descriptors are computed from."""
    slot, starts = coder.value(operand.slot), coder.tuple_of(operand.offsets if isinstance(operand, View) else ())
    terms = coder.tuple_of(matrix.start.terms if matrix is not None else ())
    first = coder.value(matrix.first if matrix is not None else 0)
    return lambda s, w: (slot(s, w), starts(s, w), terms(s, w), first(s, w))


def _wgmma_commit(coder: Coder, op: hw.WgmmaCommit) -> None:
    site = coder.site(op, "commit")
    do(coder, lambda s, w, m: s.wgmma_commit(w, m, site))


def _wgmma_wait(coder: Coder, op: hw.WgmmaWait) -> None:
    site = coder.site(op, "mma wait")
    do(coder, lambda s, w, m: s.wgmma_wait(w, m, site, op.depth))


def _setmaxnreg(coder: Coder, op: hw.SetMaxNReg) -> None:
    site = coder.site(op, "setmaxnreg")
    do(coder, lambda s, w, m: s.collective(w, m, site))


# ------------------------------------------------------------------------------------------------------------- elements
def reg_load(coder: Coder, op: hw.RegLoad) -> None:
    """M4: lanes receive what others address, so that none of it is a lane's own."""
    _fragment_tile(coder, op, op.source, op.frag.frag, write=False, lanes="ldmatrix")


def reg_store(coder: Coder, op: hw.RegStore) -> None:
    if is_shared(op.dest):
        _fragment_tile(coder, op, op.dest, op.frag.frag, write=True, lanes="fragment")


def _fragment_tile(coder: Coder, op: Op, view: View, frag: Fragment, *, write: bool, lanes: str) -> None:
    coder.flush()
    site = coder.site(op, "fragment", view=view, write=write, layout=frag.layout, lanes=lanes)
    slot, starts = coder.value(view.slot), coder.tuple_of(view.offsets)
    do(coder, lambda s, w, m: s.fragment_tile(w, m, site, slot(s, w), starts(s, w)))


def element(coder: Coder, op: LoadElement | StoreElement) -> None:
    if is_shared(op.view):
        site = coder.site(op, "element", view=op.view, write=isinstance(op, StoreElement))
        slot, at = coder.value(op.view.slot), coder.coordinates(op.view, op.indices)
        if isinstance(op, LoadElement):
            do(coder, lambda s, w, m: s.element(w, m, site, slot(s, w), at(s, w)))
            shared_load(coder, op, slot, at)
        else:
            value = coder.value(op.value)
            do(coder, lambda s, w, m: s.element(w, m, site, slot(s, w), at(s, w), value(s, w)))
    elif isinstance(op, LoadElement):
        global_load(coder, op)


def call(coder: Coder, op: Call) -> None:
    coder.flush()
    called(coder, op)
    for view in op.args:
        if isinstance(view, View) and is_shared(view):
            for write in (False, True):
                together(coder, op, view, write, "call")


def cpp(coder: Coder, op: Cpp) -> None:
    site = coder.site(op, "c++")
    do(coder, lambda s, w, m: s.opaque(site))


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
    hw.MbarrierExpectTx: _arrive,
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
    hw.RegLoad: reg_load,
    hw.RegStore: reg_store,
    LoadElement: element,
    StoreElement: element,
    Call: call,
    Cpp: cpp,
}
RUNS = (hw.RegFill, hw.RegCopy, hw.RegMap, hw.RegReduceRow, hw.RegShuffleReduce)
LEVEL = Level("hw", rules("hardware", lowered, RULES, RUNS), flush, operands, Machine)
