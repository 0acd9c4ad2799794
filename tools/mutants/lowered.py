"""Mutants of the hardware IR: one wrong number, one operation too few or too many, after all passes.

They stand for faults of the passes, which no rule of the language can see: the protocol verifier and the simulator have
to. Every mutation acts on a clone; objects of the kernel (events, buffers) are shared and left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from croq.ir import hw
from croq.ir.core import Block, Op, Value
from croq.ir.dispatch import Rules
from croq.ir.objects import Buffer, Event, Kernel, View
from croq.ir.rewrite import clone_block
from croq.ir.scalar import Assignment, Call, Const, Cpp, FragDeclare, If, VarDeclare, VarGet, VarSet
from croq.ir.types import ThreadSet
from croq.target.cuda import WARP
from tools.mutants.model import Mutant, Names
from tools.mutants.place import Act, Edit, Place, next_slot, next_tile, remove, set_fields, twice


@dataclass(frozen=True)
class LoweredMutant:
    mutant: Mutant
    position: int  # of the operation in program order
    variant: int  # which of the edits that it offers


def lowered_mutants(kernel: Kernel, name: str) -> list[LoweredMutant]:
    """All of them, in program order."""
    names = Names()
    found: list[LoweredMutant] = []
    control = _control(kernel)
    for position, place in enumerate(_places(kernel)):
        for variant, (what, description, _) in enumerate(_edits(place, control)):
            line = place.op.span.line if place.op.span is not None else 0
            unique = names.unique(f"{name}:L:{place.op.NAME}{_about(place.op)}:{what}")
            mutant = Mutant(name, "lowered", len(found), unique, line, description)
            found.append(LoweredMutant(mutant, position, variant))
    return found


def make(kernel: Kernel, wanted: LoweredMutant) -> Kernel:
    """A clone of the kernel with the mutation."""
    clone = replace(kernel, body=clone_block(kernel.body, {}))
    control = _control(clone)
    place = list(_places(clone))[wanted.position]
    _, _, act = list(_edits(place, control))[wanted.variant]
    act(place)
    return clone


def _places(kernel: Kernel) -> Iterator[Place]:
    def inside(block: Block) -> Iterator[Place]:
        for op in list(block.ops):
            yield Place(kernel, block, op)
            for region in op.regions():
                yield from inside(region)

    return inside(kernel.body)


def _about(op: Op) -> str:
    """The object that the operation is about, for its id."""
    if isinstance(op, Assignment):
        return f"({op.var.name})"
    if isinstance(op, hw.Section):
        return f"({''.join(op.label.split()).replace('|', 'or')})"
    event = getattr(op, "event", None)
    return f"({event.name})" if isinstance(event, Event) else ""


def _edits(place: Place, control: set[object]) -> Iterator[Edit]:
    op = place.op
    rule = _RULES.get(op)
    if rule is not None:
        yield from rule(place)
    if isinstance(op, Assignment) and op.var in control:
        yield from _variable(place)


def _control(kernel: Kernel) -> set[object]:
    """Variables that slots, parities and the conditions of barriers are computed from."""
    definitions: dict[Value, Op] = {v: op for op in kernel.walk() for v in op.results()}
    sets: dict[object, list[Value]] = {}
    wanted: list[Value] = []
    for op in kernel.walk():
        if isinstance(op, VarSet):
            sets.setdefault(op.var, []).append(op.value)
        if isinstance(op, hw.MbarrierWait):
            wanted.append(op.parity)
        if isinstance(slot := getattr(op, "slot", None), Value):
            wanted.append(slot)
        if isinstance(op, If) and any(inner.ARRIVES or inner.WAITS or inner.MEETS for inner in op.then.walk()):
            wanted.append(op.condition)
    found: set[object] = set()
    seen: set[Value] = set()
    while wanted:
        value = wanted.pop()
        if value in seen or value not in definitions:
            continue
        seen.add(value)
        op = definitions[value]
        if isinstance(op, VarGet) and op.var not in found:
            found.add(op.var)
            wanted += sets.get(op.var, [])
        wanted += op.operands()
    return found


def _slots(op: hw.MbarrierArrive | hw.MbarrierExpectTx | hw.MbarrierWait | hw.BulkTensorLoad) -> Iterator[Edit]:
    if op.slot is not None and op.event.slots > 1:
        yield "slot+1", f"slot of `{op.event.name}` one further", next_slot("slot", op.event.slots)


def _tiles(op: Op, *names: str) -> Iterator[Edit]:
    for name in names:
        view = getattr(op, name)
        if isinstance(view, View) and isinstance(view.root, Buffer) and view.root.slots > 1:
            yield f"{name}-slot+1", f"`{view.root.name}` one slot further", next_tile(name)


# ----------------------------------------------------------------------------------------------------------- mbarriers
def _init(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.MbarrierInit)
    for more in (1, -1):
        if op.count + more > 0:
            text = f"`{op.event.name}` expects {op.count + more} arrivals, not {op.count}"
            yield f"count{more:+}", text, set_fields(count=op.count + more)
    yield "removed", f"`{op.event.name}` is not initialised", remove


def _arrive(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.MbarrierArrive)
    yield "removed", f"arrival on `{op.event.name}` removed", remove
    yield "twice", f"arrival on `{op.event.name}` twice", twice
    yield from _slots(op)


def _expect(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.MbarrierExpectTx)
    for more in (16, -16):
        text = f"`{op.event.name}` expects {op.bytes + more} bytes, not {op.bytes}"
        yield f"bytes{more:+}", text, set_fields(bytes=op.bytes + more)
    yield "removed", f"expected bytes of `{op.event.name}` removed", remove
    yield "twice", f"expected bytes of `{op.event.name}` twice", twice
    yield from _slots(op)


def _wait(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.MbarrierWait)

    def flip(at: Place) -> None:
        build = at.before()
        assert isinstance(at.op, hw.MbarrierWait)
        flipped = build.binary("xor", at.op.parity, 1)
        at.insert(build)
        at.op.parity = flipped

    yield "removed", f"wait for `{op.event.name}` removed", remove
    yield "parity", f"wait for `{op.event.name}` with the other parity", flip
    yield from _slots(op)


# ------------------------------------------------------------------------------------------------------ named barriers
def _named(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.NamedBarrierSync | hw.NamedBarrierArrive)
    arrives = isinstance(op, hw.NamedBarrierArrive)
    yield "removed", f"barrier {op.barrier} is left out", remove
    if arrives:
        yield "twice", f"arrival on barrier {op.barrier} twice", twice
    for more in (WARP, -WARP):
        if op.count + more > 0:
            text = f"barrier {op.barrier} of {op.count + more} threads, not {op.count}"
            yield f"count{more:+}", text, set_fields(count=op.count + more)
    for other in _other_barriers(place.kernel, op):
        yield f"barrier-{other}", f"barrier {other} instead of {op.barrier}", set_fields(barrier=other)
    other_kind = hw.NamedBarrierSync if arrives else hw.NamedBarrierArrive

    def turn(at: Place) -> None:
        at.replace(other_kind(op.barrier, op.count, op.event, span=op.span, threads=op.threads))

    kind = "sync" if arrives else "arrive"
    yield kind, f"barrier {op.barrier}: `{kind}` instead of `{op.NAME.rpartition('.')[2]}`", turn


def _other_barriers(kernel: Kernel, op: hw.NamedBarrierSync | hw.NamedBarrierArrive) -> Iterator[int]:
    """One that is in use elsewhere; where others meet this operation (events), also one that nobody uses."""
    used = {o.barrier for o in kernel.walk() if isinstance(o, hw.NamedBarrierSync | hw.NamedBarrierArrive)}
    yield from sorted(used - {op.barrier})[:1]
    if op.event is not None:
        yield from [n for n in range(1, kernel.target.named_barriers) if n not in used][:1]


# ----------------------------------------------------------------------------------------------------------- the others
def _removable(what: str) -> Callable[[Place], Iterator[Edit]]:
    def rule(place: Place) -> Iterator[Edit]:
        yield "removed", f"{what} removed", remove

    return rule


def _load(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.BulkTensorLoad)
    yield "removed", f"load of `{op.dest.root.name}` removed", remove
    yield from _slots(op)
    yield from _tiles(op, "dest")


def _bulk_wait(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.BulkWait)
    yield "removed", "wait for bulk stores removed", remove
    yield "depth+1", f"{op.depth + 1} bulk groups may be pending, not {op.depth}", set_fields(depth=op.depth + 1)


def _wgmma(place: Place) -> Iterator[Edit]:
    yield from _tiles(place.op, "a", "b")


def _commit(place: Place) -> Iterator[Edit]:
    def leave_out(at: Place) -> None:
        assert isinstance(at.op, hw.WgmmaCommit)
        for op in at.kernel.walk():  # what only names the group goes with it
            if isinstance(op, hw.WgmmaWait):
                op.futures = tuple(v for v in op.futures if v is not at.op.future)
        at.replace()

    yield "removed", "commit of an MMA removed", leave_out


def _wgmma_wait(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.WgmmaWait)
    yield "removed", "wait for MMAs removed", remove
    yield "depth+1", f"{op.depth + 1} MMA groups may be pending, not {op.depth}", set_fields(depth=op.depth + 1)


def _elect(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.Elect)
    what = ", ".join(dict.fromkeys(inner.NAME for inner in op.body.ops))

    def inline(at: Place) -> None:
        at.replace(*op.body.ops)

    if op.threads is None or len(op.threads) > 1:
        yield "everyone", f"every thread, not an elected one, does {what}", inline
    if op.scope != "set":
        other = "warpgroup" if op.scope == "warp" else "warp"
        yield other, f"one thread a {other}, not a {op.scope}, does {what}", set_fields(scope=other)
        return
    assert op.thread is not None
    members = op.threads if op.threads is not None else ThreadSet.all(place.kernel.threads)
    outside = next((t for t in range(place.kernel.threads) if t not in members), None)
    lane, warp = op.thread + 1, op.thread + WARP
    for name, thread in (("lane+1", lane), ("warp+1", warp)):
        if thread in members:
            yield name, f"thread {thread} instead of {op.thread} does {what}", set_fields(thread=thread)
    if outside is not None:
        yield "outside", f"thread {outside}, which does not come here, is to do {what}", set_fields(thread=outside)


def _section(place: Place) -> Iterator[Edit]:
    op = place.op
    assert isinstance(op, hw.Section)
    if op.condition is None or op.threads is None:
        return
    for shift in (WARP, -WARP):
        moved = [(max(a + shift, 0), min(b + shift, place.kernel.threads)) for a, b in op.threads.ranges]
        moved = [(a, b) for a, b in moved if a < b]
        if moved:
            text = f"`{op.label}` is run by threads {ThreadSet(tuple(moved))}, not {op.threads}"
            yield f"warp{shift // WARP:+}", text, _run_by(moved)
    if op.threads.ranges[0][0] + 1 == op.threads.ranges[-1][1]:
        first = op.threads.first // WARP * WARP
        yield "whole-warp", f"`{op.label}` is run by the whole warp", _run_by([(first, first + WARP)])


def _run_by(ranges: list[tuple[int, int]]) -> Act:
    def act(place: Place) -> None:
        build = place.before()
        thread = build.thread_index(place.kernel.threads)
        condition: Value | None = None
        for a, b in ranges:
            lower = build.binary("ge", thread, a)
            both = build.binary("land", lower, build.binary("lt", thread, b))
            condition = both if condition is None else build.binary("lor", condition, both)
        place.insert(build)
        assert isinstance(place.op, hw.Section)
        place.op.condition = condition

    return act


def _variable(place: Place) -> Iterator[Edit]:
    op = place.op
    if isinstance(op, VarSet):
        yield "removed", f"`{op.var.name}` is not updated", remove
        return
    assert isinstance(op, VarDeclare)
    init = op.value.op
    if isinstance(init, Const) and op.var.type != "bool":

        def start(at: Place) -> None:
            build = at.before()
            assert isinstance(at.op, VarDeclare)
            value = build.binary("add", at.op.value, 1)
            at.insert(build)
            at.op.value = value

        yield "start+1", f"`{op.var.name}` starts one higher", start


def _none(place: Place) -> Iterator[Edit]:
    """Data; what control depends on is changed where a variable holds it."""
    return iter(())


_RULES = Rules[Callable[[Place], Iterator[Edit]]](
    "mutants of lowered IR", general=lambda kind: _none if kind.ORDINARY else None
)
_RULES.of = {
    hw.MbarrierInit: _init,
    hw.MbarrierInitFence: _removable("fence behind the initialisation of barriers"),
    hw.MbarrierArrive: _arrive,
    hw.MbarrierExpectTx: _expect,
    hw.MbarrierWait: _wait,
    hw.NamedBarrierSync: _named,
    hw.NamedBarrierArrive: _named,
    hw.CtaSync: _removable("barrier of the CTA"),
    hw.WarpSync: _removable("barrier of the warp"),
    hw.ProxyFence: _removable("fence between ordinary accesses and the copy engine or tensor cores"),
    hw.BulkTensorLoad: _load,
    hw.BulkTensorStore: _removable("store"),
    hw.BulkCommit: _removable("commit of bulk stores"),
    hw.BulkWait: _bulk_wait,
    hw.WgmmaFence: _removable("fence before an MMA"),
    hw.WgmmaIssue: _wgmma,
    hw.WgmmaCommit: _commit,
    hw.WgmmaWait: _wgmma_wait,
    hw.Elect: _elect,
    hw.Section: _section,
}
_RULES.without("numbers would show it, not the protocol", hw.RegFill, hw.RegCopy, hw.RegMap, hw.RegReduceRow)
_RULES.without("numbers would show it, not the protocol", hw.RegShuffleReduce, hw.RegLoad, hw.RegStore)
_RULES.without("numbers would show it, not the protocol", hw.CopyTile, hw.FillTile)
_RULES.without("text of the program", Call, Cpp, FragDeclare)
_RULES.without("a limit of registers, which orders nothing", hw.SetMaxNReg)
