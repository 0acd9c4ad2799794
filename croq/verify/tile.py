"""How the operations of a program are followed (tile IR behind the pass `participants`)."""

from __future__ import annotations

from collections.abc import Iterable

from croq.ir import hw, tile
from croq.ir.core import Op, Value
from croq.ir.hw import Section
from croq.ir.objects import EventRef, FragRef, View
from croq.ir.scalar import Call, Cpp, LoadElement, StoreElement
from croq.ir.types import ThreadSet
from croq.verify.fragments import flush
from croq.verify.hw import RULES as HW
from croq.verify.hw import call, cpp, element, places, together
from croq.verify.program import Coder, Level, Translator, rules, thread_bit
from croq.verify.slicing import is_shared
from croq.verify.tile_machine import TileMachine, groups_of


def _threads(coder: Coder, op: Op, mask: str) -> ThreadSet | None:
    if op.threads is None or not len(op.threads):
        coder.line(f"S.unknown_threads({coder.site(op, 'threads')})")
        return None
    return op.threads


def _meet(coder: Coder, op: Op, mask: str, groups: tuple[ThreadSet, ...], door: str) -> None:
    site = coder.site(op, "sync")
    coder.line(f"S.meet(W, {mask}, {site}, {door!r}, {coder.name_global('t', groups)})")
    coder.line("while W.held: yield")


def _groups(coder: Coder, threads: ThreadSet, values: Iterable[Value]) -> tuple[ThreadSet, ...]:
    """Threads that move the same tile, where the thread index decides it."""
    fixed = [known for v in values if (known := coder.analysis.fixed(v)) is not None]
    keys = {t: tuple(int(known[t]) for known in fixed) for t in threads}
    return groups_of(threads, keys)


# ------------------------------------------------------------------------------------------------------------- events
def _path(coder: Coder, op: Op) -> object:
    """Implicit generations are counted in each role, and in the CTA's own code."""
    return next((o for o in coder.slice.around[op] if isinstance(o, Section) and o.role), None)


def _event_site(coder: Coder, op: Op, ref: EventRef, kind: str) -> tuple[str, str]:
    site = coder.site(op, kind, event=ref.event, ordered=ref.order is not None, path=_path(coder, op))
    return site, f"{coder.value(ref.slot)}, {coder.value(ref.order)}"


def _wait(coder: Coder, op: tile.EventWait, mask: str) -> None:
    for ref in op.refs:
        site, place = _event_site(coder, op, ref, "wait")
        coder.line(f"while S.event_wait(W, {mask}, {site}, {place}): yield")


def _trigger(coder: Coder, op: tile.EventTrigger, mask: str) -> None:
    if op.after:
        threads = _threads(coder, op, mask)
        if threads is None:
            return
        futures = ", ".join(coder.value(f) for f in op.after)
        leader = coder.constant(("thread", threads.first), thread_bit(threads.first, coder.program.warps * 32))
        inner = coder.new("m")
        coder.line(f"{inner} = {mask} & {leader}")
        for ref in op.refs:
            site, place = _event_site(coder, op, ref, "arrive")
            coder.line(f"if {inner}: S.event_after(W, {inner}, {site}, {place}, {futures})")
        return
    for ref in op.refs:
        if _threads(coder, op, mask) is None:
            return
        site, place = _event_site(coder, op, ref, "arrive")
        coder.line(f"S.event_trigger(W, {mask}, {site}, {place})")


def _future_wait(coder: Coder, op: tile.FutureWait, mask: str) -> None:
    for future in op.futures:
        producer = coder.slice.definition.get(future)
        if isinstance(producer, tile.Mma):
            site = coder.site(op, "mma wait")
            if op.threads is not None:
                _meet(coder, op, mask, op.threads.warpgroups(), "wait")
            coder.line(f"S.mma_wait(W, {mask}, {site}, {coder.value(future)})")
            if op.threads is not None:
                _meet(coder, op, mask, op.threads.warpgroups(), "done")
        else:
            site = coder.site(op, "move wait")
            coder.line(f"while S.land_future(W, {mask}, {site}, {coder.value(future)}): yield")


# -------------------------------------------------------------------------------------------------------------- moves
def _move(coder: Coder, op: tile.Move, mask: str) -> None:
    threads = _threads(coder, op, mask)
    if threads is None:
        return
    kind = {tile.TmaLoad: "load", tile.TmaStore: "store"}.get(type(op), "copy")
    sides = [(view, view is op.dest) for view in (op.source, op.dest) if is_shared(view)]
    if op.future is not None:
        if len(sides) != 1:  # a future stands for one access
            coder.unruled(op)
            return
        ((view, write),) = sides
        _launch(coder, op, threads, view, write, kind, mask)
        return
    groups = _groups(coder, threads, [*op.source.values(), *op.dest.values()])
    _meet(coder, op, mask, groups, "in")
    for view, write in sides:
        together(coder, op, view, write, kind, mask)
    _meet(coder, op, mask, groups, "out")


def _launch(
    coder: Coder,
    op: tile.Move,
    threads: ThreadSet,
    view: View,
    write: bool,
    kind: str,
    mask: str,
) -> None:
    assert op.future is not None
    site = coder.site(op, kind, view=view, write=write, flies=True)
    leader = coder.constant(("thread", threads.first), thread_bit(threads.first, coder.program.warps * 32))
    name = coder.program.names.setdefault(op.future, coder.new("f"))
    place = f"{coder.value(view.slot)}, {coder.tuple_of(view.offsets)}"
    coder.line(f"{name} = S.launch(W, {mask}, {site}, {leader}, {place})")


def _fill(coder: Coder, op: tile.BufferFill, mask: str) -> None:
    threads = _threads(coder, op, mask)
    if threads is None or not is_shared(op.dest):
        return
    groups = _groups(coder, threads, list(op.dest.values()))
    _meet(coder, op, mask, groups, "in")
    together(coder, op, op.dest, True, "fill", mask)
    _meet(coder, op, mask, groups, "out")


def _sync(coder: Coder, op: tile.Sync, mask: str) -> None:
    threads = _threads(coder, op, mask)
    if threads is None:
        return
    if op.level == "group":
        coder.line(f"S.warp_sync(W, {mask})")
    else:
        _meet(coder, op, mask, (threads,) if op.level == "block" else threads.warpgroups(), "sync")


# --------------------------------------------------------------------------------------------------- MMAs and fragments
def _mma(coder: Coder, op: tile.Mma, mask: str) -> None:
    threads = _threads(coder, op, mask)
    if threads is None:
        return
    _meet(coder, op, mask, threads.warpgroups(), "mma")
    frag = op.a.frag if isinstance(op.a, FragRef) else None
    a = op.a if isinstance(op.a, View) else None
    site = coder.site(op, "mma", acc=op.acc.frag, frag=frag, a=a, b=op.b, accumulate=True)
    places_ = [
        f"({coder.value(v.slot)}, {coder.tuple_of(v.offsets) if isinstance(v, View) else '()'})" for v in (op.a, op.b)
    ]
    name = coder.new("f") if op.future is None else coder.program.names.setdefault(op.future, coder.new("f"))
    coder.line(f"{name} = S.mma(W, {mask}, {site}, {coder.value(op.acc.slot)}, {', '.join(places_)})")
    if op.future is None:
        coder.line(f"S.mma_wait(W, {mask}, {coder.site(op, 'mma wait')}, {name})")
        _meet(coder, op, mask, threads.warpgroups(), "done")


def _frag_store(coder: Coder, op: tile.FragStore, mask: str) -> None:
    if is_shared(op.dest):
        coder.flush(mask)
        owner = ("map", op.frag.frag.shape, tuple(range(len(op.dest.kept))))
        site = coder.site(op, "fragment", view=op.dest, write=True, owner=owner)
        place = f"{coder.value(op.dest.slot)}, {coder.tuple_of(op.dest.offsets)}"
        coder.line(f"S.owned_tile(W, {mask}, {site}, {place})")


def _nothing(coder: Coder, op: Op, mask: str) -> None:
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
