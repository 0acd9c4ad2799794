"""How the operations of a program are followed (tile IR behind the pass `participants`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from croq.ir import hw, tile
from croq.ir.core import Op, Value
from croq.ir.hw import Section
from croq.ir.objects import EventRef, FragRef, View
from croq.ir.scalar import Call, Cpp, LoadElement, StoreElement
from croq.ir.types import ThreadSet
from croq.verify.coder import Coder, Get, Level, Translator
from croq.verify.control import rules, thread_bit
from croq.verify.fragments import flush
from croq.verify.hw import RULES as HW
from croq.verify.hw import call, cpp, element, places, together
from croq.verify.sites import Site
from croq.verify.slicing import is_shared
from croq.verify.state import Warp
from croq.verify.tile_machine import TileMachine, groups_of


def do(coder: Coder, step: Callable[[TileMachine, Warp, int], object]) -> None:
    coder.do(step)


def wait(coder: Coder, ask: Callable[[TileMachine, Warp, int], object]) -> None:
    coder.wait(ask)


def _threads(coder: Coder, op: Op) -> ThreadSet | None:
    if op.threads is None or not len(op.threads):
        site = coder.site(op, "threads")
        do(coder, lambda s, w, m: s.unknown_threads(site))
        return None
    return op.threads


def _meet(coder: Coder, op: Op, groups: tuple[ThreadSet, ...], door: str) -> None:
    site = coder.site(op, "sync")
    coder.meet(lambda s, w, m: s.meet(w, m, site, door, groups))


def _groups(coder: Coder, threads: ThreadSet, values: Iterable[Value]) -> tuple[ThreadSet, ...]:
    """Threads that move the same tile, where the thread index decides it."""
    fixed = [known for v in values if (known := coder.analysis.fixed(v)) is not None]
    keys = {t: tuple(int(known[t]) for known in fixed) for t in threads}
    return groups_of(threads, keys)


# ------------------------------------------------------------------------------------------------------------- events
def _path(coder: Coder, op: Op) -> object:
    """Implicit generations are counted in each role, and in the CTA's own code."""
    return next((o for o in coder.slice.around[op] if isinstance(o, Section) and o.role), None)


def _event_site(coder: Coder, op: Op, ref: EventRef, kind: str) -> tuple[Site, Get, Get]:
    site = coder.site(op, kind, event=ref.event, ordered=ref.order is not None, path=_path(coder, op))
    return site, coder.value(ref.slot), coder.value(ref.order)


def _wait(coder: Coder, op: tile.EventWait) -> None:
    for ref in op.refs:
        _wait_one(coder, *_event_site(coder, op, ref, "wait"))


def _wait_one(coder: Coder, site: Site, slot: Get, order: Get) -> None:
    wait(coder, lambda s, w, m: s.event_wait(w, m, site, slot(s, w), order(s, w)))


def _trigger(coder: Coder, op: tile.EventTrigger) -> None:
    for ref in op.refs:
        threads = _threads(coder, op)
        if threads is None:
            return
        if op.after:
            _complete(coder, op, threads.first, *_event_site(coder, op, ref, "arrive"))
        else:
            _trigger_one(coder, *_event_site(coder, op, ref, "arrive"))


def _trigger_one(coder: Coder, site: Site, slot: Get, order: Get) -> None:
    do(coder, lambda s, w, m: s.event_trigger(w, m, site, slot(s, w), order(s, w)))


def _leader(coder: Coder, thread: int) -> Get:
    return coder.by_thread(thread_bit(thread, coder.program.warps * 32))


def _complete(coder: Coder, op: tile.EventTrigger, first: int, site: Site, slot: Get, order: Get) -> None:
    """One thread binds the loads to the event."""
    leader, futures = _leader(coder, first), coder.tuple_of(op.after)

    def step(s: TileMachine, w: Warp, m: int) -> None:
        inner = m & leader(s, w)
        if inner:
            s.event_after(w, inner, site, slot(s, w), order(s, w), *futures(s, w))

    do(coder, step)


def _future_wait(coder: Coder, op: tile.FutureWait) -> None:
    for future in op.futures:
        producer = coder.slice.definition.get(future)
        if isinstance(producer, tile.Mma):
            _wait_for_mma(coder, op, coder.value(future))
        else:
            _land(coder, op, coder.value(future))


def _land(coder: Coder, op: tile.FutureWait, future: Get) -> None:
    site = coder.site(op, "move wait")
    wait(coder, lambda s, w, m: s.land_future(w, m, site, future(s, w)))


def _wait_for_mma(coder: Coder, op: tile.FutureWait, future: Get) -> None:
    site = coder.site(op, "mma wait")
    if op.threads is not None:
        _meet(coder, op, op.threads.warpgroups(), "wait")
    do(coder, lambda s, w, m: s.mma_wait(w, m, site, future(s, w)))
    if op.threads is not None:
        _meet(coder, op, op.threads.warpgroups(), "done")


# -------------------------------------------------------------------------------------------------------------- moves
def _move(coder: Coder, op: tile.Move) -> None:
    threads = _threads(coder, op)
    if threads is None:
        return
    kind = {tile.TmaLoad: "load", tile.TmaStore: "store"}.get(type(op), "copy")
    sides = [(view, view is op.dest) for view in (op.source, op.dest) if is_shared(view)]
    if op.future is not None:
        if len(sides) != 1:  # a future stands for one access
            coder.unruled(op)
            return
        ((view, write),) = sides
        _launch(coder, op, op.future, threads, coder.site(op, kind, view=view, write=write, flies=True))
        return
    groups = _groups(coder, threads, [*op.source.values(), *op.dest.values()])
    _meet(coder, op, groups, "in")
    for view, write in sides:
        together(coder, op, view, write, kind)
    _meet(coder, op, groups, "out")


def _launch(coder: Coder, op: tile.Move, future: Value, threads: ThreadSet, site: Site) -> None:
    view: View = site.objects["view"]
    leader, result = _leader(coder, threads.first), coder.slot(future)
    slot, starts = coder.value(view.slot), coder.tuple_of(view.offsets)

    def step(s: TileMachine, w: Warp, m: int) -> None:
        w.values[result] = s.launch(w, m, site, leader(s, w), slot(s, w), starts(s, w))

    do(coder, step)


def _fill(coder: Coder, op: tile.BufferFill) -> None:
    threads = _threads(coder, op)
    if threads is None or not is_shared(op.dest):
        return
    groups = _groups(coder, threads, list(op.dest.values()))
    _meet(coder, op, groups, "in")
    together(coder, op, op.dest, True, "fill")
    _meet(coder, op, groups, "out")


def _sync(coder: Coder, op: tile.Sync) -> None:
    threads = _threads(coder, op)
    if threads is None:
        return
    if op.level == "group":
        do(coder, lambda s, w, m: s.warp_sync(w, m))
    else:
        _meet(coder, op, (threads,) if op.level == "block" else threads.warpgroups(), "sync")


# --------------------------------------------------------------------------------------------------- MMAs and fragments
def _mma(coder: Coder, op: tile.Mma) -> None:
    threads = _threads(coder, op)
    if threads is None:
        return
    _meet(coder, op, threads.warpgroups(), "mma")
    frag, tile_a = (op.a.frag, None) if isinstance(op.a, FragRef) else (None, op.a)
    site = coder.site(op, "mma", acc=op.acc.frag, frag=frag, a=tile_a, b=op.b, accumulate=True)
    slot, (a_slot, a), (b_slot, b) = coder.value(op.acc.slot), _place(coder, op.a), _place(coder, op.b)
    result = coder.new() if op.future is None else coder.slot(op.future)

    def step(s: TileMachine, w: Warp, m: int) -> None:
        w.values[result] = s.mma(w, m, site, slot(s, w), (a_slot(s, w), a(s, w)), (b_slot(s, w), b(s, w)))

    do(coder, step)
    if op.future is None:
        done = coder.site(op, "mma wait")
        do(coder, lambda s, w, m: s.mma_wait(w, m, done, w.values[result]))
        _meet(coder, op, threads.warpgroups(), "done")


def _place(coder: Coder, operand: View | FragRef) -> tuple[Get, Get]:
    return coder.value(operand.slot), coder.tuple_of(operand.offsets if isinstance(operand, View) else ())


def _frag_store(coder: Coder, op: tile.FragStore) -> None:
    if is_shared(op.dest):
        coder.flush()
        owner = ("map", op.frag.frag.shape, tuple(range(len(op.dest.kept))))
        site = coder.site(op, "fragment", view=op.dest, write=True, owner=owner)
        slot, starts = _place(coder, op.dest)
        do(coder, lambda s, w, m: s.owned_tile(w, m, site, slot(s, w), starts(s, w)))


def _nothing(coder: Coder, op: Op) -> None:
    return None


def operands(op: Op) -> Iterable[Value]:
    """Slots, orders and places."""
    if isinstance(op, tile.EventWait | tile.EventTrigger):
        for ref in op.refs:
            yield from ref.values()
    else:
        yield from places(op)


RULES: dict[type[Op], Translator] = {
    hw.Elect: HW[hw.Elect],
    hw.CtaSync: HW[hw.CtaSync],
    hw.WarpSync: HW[hw.WarpSync],
    tile.EventWait: _wait,
    tile.EventTrigger: _trigger,
    tile.FutureWait: _future_wait,
    tile.TmaLoad: _move,
    tile.TmaStore: _move,
    tile.DmaCopy: _move,
    tile.BufferFill: _fill,
    tile.Sync: _sync,
    tile.Mma: _mma,
    tile.SetReg: _nothing,
    tile.FragStore: _frag_store,
    LoadElement: element,
    StoreElement: element,
    Call: call,
    Cpp: cpp,
}
RUNS = (tile.FragFill, tile.FragMap, tile.FragReduce, tile.FragAllReduce, tile.FragCopy)
LEVEL = Level("tile", rules("tile", lambda kind: kind.VOCABULARY != "hw", RULES, RUNS), flush, operands, TileMachine)
LEVEL.rules.without("gone behind the pass participants", tile.Scope, tile.Role)
LEVEL.rules.without("not there before the pass events", tile.TmaIssue)
