"""Words for what the machine finds in memory and registers: which operations meet, and what should keep them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.ir.objects import Buffer, Event, Fragment, View
from croq.source import Span
from croq.verify.clocks import known
from croq.verify.faults import Fault
from croq.verify.program import Program
from croq.verify.sites import Site

if TYPE_CHECKING:
    from croq.verify.memory import Access, Memory, Tile
    from croq.verify.state import State, Warp
    from croq.verify.tensor import Mma


def conflict(state: Memory, tile: Tile, old: Access, new: Access) -> Fault:
    """Two accesses of the same elements in no certain order."""
    code = "E-6001" if not new.write else "E-6002"
    does = "reads" if not new.write else "overwrites"
    doing = "writes" if old.write else "reads"
    guard = _guard(state.program, old, new)
    labels = [(old.site.span, f"{old.site.op.NOUN} {doing} it {old.until or 'here'}")]
    notes = [
        f"{_who(new)} does not know that {old.site.op.NOUN} of {_who(old)} is over"
        if old.warp is not new.warp
        else f"the same warp {new.warp.index} does both, and has not waited in between"
    ]
    if old.warp is new.warp and not old.asynchronous and not new.asynchronous:
        notes = [f"lanes of warp {new.warp.index} touch elements of one another with no barrier in between"]
    early = known(state.vc[new.agent], old.agent) >= old.begun  # a release behind the old access has been seen
    hint, extra = _remedy(state.program, old, new, guard, early)
    return Fault(
        code,
        f"{new.site.op.NOUN} {does} `{tile.name}` while {old.site.op.NOUN} may still {doing[:-1]} it",
        new.site,
        labels=[*labels, *extra],
        notes=notes,
        hint=hint,
        moments=[old.moment, new.moment],
        ending=f"{does} {tile.name} while {old.site.op.NOUN} at {old.site.place} {doing} it",
        about={tile.buffer, *([guard] if guard is not None else [])},
        warp=new.warp.index,
    )


def _who(access: Access) -> str:
    return f"warp {access.warp.index}"


def _guard(program: Program, old: Access, new: Access) -> Event | None:
    """The event that should have ordered them: the load's own, or one that old's role triggers and new's waits for."""
    if old.site.kind == "load":
        return old.site.objects.get("event")
    if old.site.role == new.site.role:
        return None
    triggered = {s.objects["event"] for s in program.sites if s.kind == "arrive" and s.role == old.site.role}
    waits = [
        s for s in program.sites if s.kind == "wait" and s.role == new.site.role and s.objects["event"] in triggered
    ]
    before = [s for s in waits if s.number < new.site.number]
    chosen = before[-1] if before else (waits[0] if waits else None)
    found: Event | None = chosen.objects["event"] if chosen is not None else None
    return found


def _remedy(
    program: Program, old: Access, new: Access, guard: Event | None, early: bool
) -> tuple[str, list[tuple[Span | None, str]]]:
    if old.site.kind == "load" and guard is not None:
        return f"wait for `{guard.name}` (the generation that this load completes) before it", []
    if old.site.kind == "mma" and early and guard is not None:
        given = [s for s in program.sites if s.kind == "arrive" and s.objects["event"] is guard]
        extra: list[tuple[Span | None, str]] = [(s.span, f"`{guard.name}` gives the tile back here") for s in given[:1]]
        return f"wait for the MMA before `trigger {guard.name}`", extra
    if old.site.kind == "mma" and old.ends is None:
        return "wait for the MMA first", []
    if old.site.kind == "store":
        return "wait until the store has read its source, and tell the threads that write it next", []
    if guard is not None:
        return f"trigger `{guard.name}` only behind the last access, and wait for it before this one", []
    if old.site.role == new.site.role and old.warp is not new.warp:
        return "let these warps wait for one another in between", []
    return "put a barrier or an event between the two", []


def missing_fence(state: Memory, tile: Tile, old: Access, new: Access) -> Fault:
    return Fault(
        "E-6004",
        f"{new.site.op.NOUN} uses `{tile.name}`, which ordinary stores have written, without a proxy fence",
        new.site,
        labels=[(old.site.span, "written here")],
        notes=[
            "ordinary stores and the async proxy (TMA, WGMMA) see shared memory by different ways. PTX ISA, proxies",
            f"warp {old.warp.index} executes no `fence.proxy.async` between its stores and the barrier",
        ],
        hint="fence behind the stores, before the barrier that lets the others go on",
        moments=[old.moment, new.moment],
        ending=f"may see {tile.name} as it was before the stores",
        about={tile.buffer},
        warp=new.warp.index,
    )


def uninitialised(state: Memory, tile: Tile, new: Access) -> Fault:
    """A read that comes before the writes, or that nothing writes for."""
    part = "a part of " if tile.written & new.bits else ""
    buffer = tile.buffer
    writers = [s for s in state.program.sites if s.objects.get("write", s.kind == "load") and _root(s) is buffer]
    if not writers:
        return Fault(
            "E-6009",
            f"{new.site.op.NOUN} reads {part}`{tile.name}`, which nothing has written",
            new.site,
            labels=[(buffer.span, "declared here")],
            moments=[new.moment],
            ending=f"reads {tile.name}, which holds nothing",
            about={buffer},
            warp=new.warp.index,
        )
    writer = writers[0]
    event = writer.objects.get("event")
    hint = f"wait for `{event.name}` (the generation that the load completes) before it" if event is not None else None
    return Fault(
        "E-6001",
        f"{new.site.op.NOUN} may read {part}`{tile.name}` before {writer.op.NOUN} has written it",
        new.site,
        labels=[(writer.span, f"{writer.op.NOUN} writes it here")],
        notes=[f"{_who(new)} does not wait for it"],
        hint=hint,
        moments=[new.moment],
        ending=f"reads {tile.name} before it is written",
        about={buffer, *([event] if event is not None else [])},
        warp=new.warp.index,
    )


def _root(site: Site) -> object:
    view = site.objects.get("view")
    return view.root if isinstance(view, View) else None


def outside(state: Memory, view: View, at: tuple[int, ...], extents: tuple[int, ...], site: Site, warp: Warp) -> Fault:
    root = view.root
    assert isinstance(root, Buffer)
    spans = ", ".join(f"{a}..{a + e - 1}" if e != 1 else str(a) for a, e in zip(at, extents, strict=True))
    return Fault(
        "E-6010",
        f"{site.op.NOUN} leaves `{root.name}`: [{spans}] of [{', '.join(map(str, root.shape))}]",
        site,
        labels=[(root.span, "declared here")],
        moments=[state.note(warp, site, f"touch {root.name}", (), {root})],
        about={root},
        warp=warp.index,
    )


def misaddressed(state: Memory, view: View, what: str, site: Site, warp: Warp) -> Fault:
    root = view.root
    assert isinstance(root, Buffer)
    return Fault(
        "E-6013",
        f"{what} of `{root.name}` does not address the tile that the operation names",
        site,
        labels=[(root.span, "declared here")],
        moments=[state.note(warp, site, f"address {root.name}", (), {root})],
        about={root},
        warp=warp.index,
    )


def in_flight_at_end(state: Memory, site: Site, warp: Warp | None, moment: int, missing: str) -> Fault:
    return Fault(
        "E-6012",
        f"{site.op.NOUN} may still be in flight when the CTA ends",
        site,
        notes=["its shared memory may belong to another CTA by then", f"there is no {missing} behind it"],
        hint="wait for it before the kernel ends",
        moments=[moment],
        ending="the CTA ends",
        about={site.objects[k] for k in ("event",) if site.objects.get(k) is not None},
        warp=warp.index if warp is not None else None,
    )


def register_fault(state: State, site: Site, warp: Warp, frag: Fragment, mma: Mma, moment: int) -> Fault:
    accumulates = mma.accumulator[0] is frag
    return Fault(
        "E-6003",
        f"`{frag.name}` is touched while an MMA still {'accumulates into' if accumulates else 'reads'} it",
        site,
        labels=[(mma.site.span, f"the MMA is in flight from here {_until(mma)}")],
        notes=[
            "the registers of an asynchronous MMA are its own until it has been waited for. PTX ISA, wgmma.mma_async"
        ],
        hint="wait for the MMA before this statement",
        moments=[mma.moment, moment],
        ending=f"touches {frag.name} under the MMA at {mma.site.place}",
        about={frag},
        warp=warp.index,
    )


def _until(mma: Mma) -> str:
    return "until its commit group is waited for"


def unfenced_registers(state: State, site: Site, warp: Warp, frag: Fragment, moment: int) -> Fault:
    return Fault(
        "E-6003",
        f"`{frag.name}` was touched by ordinary code, and no `wgmma.fence` follows before this MMA uses it"
        if warp.fenced
        else f"no `wgmma.fence` stands before the first MMA of warp {warp.index}",
        site,
        notes=["register accesses and WGMMAs are ordered by `wgmma.fence` only. PTX ISA, wgmma.fence"],
        moments=[moment],
        ending=f"uses {frag.name} without a fence",
        about={frag},
        warp=warp.index,
    )


def unset_fragment(state: State, site: Site, warp: Warp, frag: Fragment, moment: int) -> Fault:
    return Fault(
        "E-6009",
        f"`{frag.name}` is read before anything is written to it",
        site,
        labels=[(frag.span, "declared here")],
        hint="fill it first",
        moments=[moment],
        ending=f"reads {frag.name}, which holds nothing",
        about={frag},
        warp=warp.index,
    )


def different_collectives(state: State, first: Warp, warp: Warp) -> Fault:
    pairs = list(zip(first.trace, warp.trace, strict=False))
    at = next((n for n, (a, b) in enumerate(pairs) if a is not b), len(pairs))
    longer = first if len(first.trace) > at else warp
    site = longer.trace[at] if at < len(longer.trace) else longer.trace[-1]
    return Fault(
        "E-6011",
        f"the warps of warpgroup {first.index // 4} do not execute the same collective operations",
        site,
        notes=[
            f"operation {at + 1} of warps {first.index} and {warp.index} differs",
            "WGMMA and setmaxnreg are executed by all four warps of a warpgroup, in one order. PTX ISA",
        ],
        hint="let whole warpgroups run this code",
        warp=longer.index,
    )
