"""Words for what the detector finds: both places, what should have ordered them, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from croq.ir.core import Op
from croq.ir.objects import Buffer, Fragment, Param
from croq.simulate.barriers import Mbarrier, NamedBarrier
from croq.simulate.faults import SimulationFault, fault
from croq.simulate.machine import Mma, Warp
from croq.simulate.races.clocks import Agent
from croq.source import Span
from croq.target.cuda import WARP

if TYPE_CHECKING:
    from croq.simulate.races.detector import Block, Detector
    from croq.simulate.races.guards import Guard, Guards
    from croq.simulate.races.records import History, Record

Labels = list[tuple[Span, str]]


def label(op: Op | None, text: str) -> Labels:
    return [(op.span, text)] if op is not None and op.span is not None else []


def line(op: Op) -> str:
    return f" (line {op.span.line})" if op.span is not None else ""


# ------------------------------------------------------------------------------------------------ accesses of memory
def conflict(state: Detector, history: History, old: Record, new: Record, overlap: int) -> SimulationFault:
    """Two accesses of the same bytes in no certain order."""
    name, size = history.area.name, overlap.bit_count() * history.unit
    does = "overwrites" if new.write else "reads"
    notes = [f"{size} bytes of `{name}`: warp {old.warp}, then warp {new.warp}"]
    if old.kind == "load":
        return _load_in_flight(state, name, old, new, does, notes)
    over = _over_for_itself(state, old)
    if old.asynchronous and not over:
        return _still_reading(state, name, old, new, does, notes)
    guard = state.guards.between(old.op, old.warp, new.op, new.warp) if old.warp != new.warp else None
    if not old.write:
        return _reused(state, name, old, new, guard, notes)
    if old.warp == new.warp:
        notes = [f"lanes of warp {new.warp} that have parted do both: nothing has brought them together in between"]
    return fault(
        "E-5043",
        new.op,
        f"{new.op.NOUN} {does} `{name}`, which {old.op.NOUN} writes in no certain order with it",
        labels=[*label(old.op, f"written here by warp {old.warp}"), *_guard_labels(guard)],
        notes=[*notes, *_guard_notes(guard)],
        hint=_guard_hint(guard),
    )


def _load_in_flight(
    state: Detector, name: str, old: Record, new: Record, does: str, notes: list[str]
) -> SimulationFault:
    barrier, completion = old.of
    verb = "writes" if old.write else "reads"
    waits = [w for w in state.guards.waits.get(barrier.event, []) if new.warp in state.guards.warps(w)]
    labels = label(old.op, f"this load {verb} it until `{barrier.name}` completes its phase {completion - 1}")
    here = f"warp {new.warp} has not waited for that phase"
    if waits:
        here += f": its wait for `{barrier.event.name}`{line(waits[0])} is over for an earlier one, or comes later"
    code = "E-5041" if not old.write else "E-5042" if new.write else "E-5040"
    return fault(
        code,
        new.op,
        f"{new.op.NOUN} {does} `{name}` while the TMA load of it may be in flight",
        labels=labels,
        notes=[*notes, here],
        hint=f"wait for `{barrier.event.name}` between the two",
    )


def _still_reading(
    state: Detector, name: str, old: Record, new: Record, does: str, notes: list[str]
) -> SimulationFault:
    """An MMA or a TMA store that its own thread has not waited for."""
    doing = "write" if old.write else "read"
    if isinstance(old.of, Mma):
        future = old.of.future
        until, hint = ("its commit group has", "wait for the MMA") if future is None else (f"`{future}` has", "")
        hint = hint or f"`wait {future}` before this statement, and let other warps know by an event"
    else:
        until, hint = "its bulk group has", "wait for the store before this statement, with a barrier behind the wait"
    return fault(
        "E-5041" if not old.write else "E-5042",
        new.op,
        f"{new.op.NOUN} {does} `{name}` while {old.op.NOUN} may still {doing} it",
        labels=label(old.op, f"it may {doing} until {until} been waited for"),
        notes=notes,
        hint=hint,
    )


def _reused(
    state: Detector, name: str, old: Record, new: Record, guard: Guard | None, notes: list[str]
) -> SimulationFault:
    """What read is over, but the writer does not know that."""
    order = state.guards.order
    if order.get(old.op, 0) > order.get(new.op, 0):
        notes = [*notes, "the reader stands behind the writer: it is the next round, or the next task, that overwrites"]
    if old.warp == new.warp:
        notes = [f"lanes of warp {new.warp} that have parted do both: nothing has brought them together in between"]
    return fault(
        "E-5044",
        new.op,
        f"{new.op.NOUN} overwrites `{name}`, and nothing orders it behind what reads it",
        labels=[*label(old.op, f"{old.op.NOUN} of warp {old.warp} reads it here"), *_guard_labels(guard)],
        notes=[*notes, *_guard_notes(guard)],
        hint=_guard_hint(guard),
    )


def _over_for_itself(state: Detector, old: Record) -> bool:
    """Whether the warp that issued it knows that it is over."""
    return any(old.over(agent.seen) for agent in state.clocks.agents[old.warp])


def _guard_labels(guard: Guard | None) -> Labels:
    return [] if guard is None else label(guard.wait, f"this wait for `{guard.event.name}` should order them")


def _guard_notes(guard: Guard | None) -> list[str]:
    if guard is None:
        return ["no event is triggered by the first and waited for by the second"]
    return [
        f"`{guard.event.name}`, which the first triggers{line(guard.trigger)} and the second waits for"
        f"{line(guard.wait)}, does not order these two: the wait is for an earlier generation, or the trigger comes "
        "too early"
    ]


def _guard_hint(guard: Guard | None) -> str:
    if guard is None:
        return "put a barrier, or an event that the first triggers and the second waits for, between them"
    return f"trigger `{guard.event.name}` behind the first, and wait for that generation before the second"


def missing_fence(state: Detector, history: History, old: Record, new: Record) -> SimulationFault:
    return fault(
        "E-5045",
        new.op,
        f"{new.op.NOUN} may not see what ordinary stores have written to `{history.area.name}`",
        labels=label(old.op, f"written here by warp {old.warp}, with no fence.proxy.async behind it"),
        notes=[
            "ordinary stores and the async proxy (TMA, WGMMA) reach shared memory by different ways; the writer has to "
            "fence before it lets others go on. PTX ISA, fence.proxy.async"
        ],
        hint="fence behind the stores, before the barrier",
    )


def lanes(state: Detector, history: History, old: Record, new: Record) -> SimulationFault:
    does, did = ("writes" if r.write else "reads" for r in (new, old))
    return fault(
        "E-5050",
        new.op,
        f"lanes of warp {new.warp} touch elements of `{history.area.name}` of one another with no barrier in between",
        labels=label(old.op, f"one lane {did} here what another {does}"),
        notes=["lanes of a warp are in no order until they synchronise. CUDA programming guide, independent threads"],
        hint="put a barrier (`sync.shared`) between the two",
    )


def unwritten(state: Detector, history: History, new: Record, missing: int) -> SimulationFault:
    area, size = history.area, missing.bit_count() * history.unit
    root = next((b for b in state.guards.kernel.buffers if b.name == area.name.partition("[")[0]), None)
    writers = state.guards.writers(root) if root is not None else []
    labels = [(root.span, "declared here")] if root is not None and root.span is not None else []
    for writer in writers[:1]:
        labels += label(writer, f"{writer.NOUN} writes to `{area.name.partition('[')[0]}` here, which has not happened")
    first = (missing & -missing).bit_length() - 1
    return fault(
        "E-5046",
        new.op,
        f"{new.op.NOUN} reads bytes of `{area.name}` that nothing has written",
        labels=labels,
        notes=[f"{size} bytes, the first at byte {first * history.unit} of the tile; read by warp {new.warp}"],
        hint="put a barrier, or the wait for an event, between the two" if writers else f"fill or load `{area.name}`",
    )


def undefined(op: Op, fragment: Fragment, warp: Warp) -> SimulationFault:
    return fault(
        "E-5047",
        op,
        f"fragment `{fragment.name}` is read before anything is written to it",
        labels=[(fragment.span, "declared here")] if fragment.span is not None else [],
        notes=[f"by warp {warp.index}"],
        hint="fill it first",
    )


def outside(op: Op, root: Buffer | Param, byte: int) -> SimulationFault:
    return fault(
        "E-5012",
        op,
        f"an access through a pointer leaves `{root.name}`: byte {byte} of shared memory belongs to something else",
        labels=[(root.span, "declared here")] if root.span is not None else [],
        hint="check the index against the extent before the access",
    )


def never_waited_for(op: Op, warp: Warp, barrier: Mbarrier, completion: int) -> SimulationFault:
    return fault(
        "E-5021",
        op,
        f"a TMA load of warp {warp.index} may be in flight when the CTA exits",
        notes=[
            f"nobody waits for phase {completion - 1} of `{barrier.name}`, which counts its bytes",
            "the shared memory that it writes may belong to another CTA by then",
        ],
        hint=f"wait for `{barrier.event.name}` before the kernel ends",
    )


def blocks(name: str, op: Op, block: Block, write: bool, other: Op, before: Block, wrote: bool) -> SimulationFault:
    does, did = ("writes" if w else "reads" for w in (write, wrote))
    return fault(
        "E-5051",
        op,
        f"two blocks touch the same elements of `{name}`: block {block} {does} what block {before} {did}",
        labels=label(other, f"block {before} {did} them here"),
        notes=["blocks of a grid run at the same time, in no order"],
        hint="let every block write elements of its own",
    )


# ----------------------------------------------------------------------------------------------------------- barriers
def may_count_twice(guards: Guards, barrier: Mbarrier, op: Op, warp: Warp) -> SimulationFault:
    event, done = barrier.event, barrier.phase
    (wait, *_) = [*guards.waits.get(event, []), None]
    return fault(
        "E-5048",
        op,
        f"this arrival at `{barrier.name}` may count twice in one phase: nothing makes it come behind phase {done - 1}",
        labels=[
            *label(barrier.last, f"phase {done - 1} completes here"),
            *label(wait, "the phase is waited for here, but not by who arrives"),
        ],
        notes=[
            f"one generation of `{event.name}` takes {barrier.expected} arrival{'s' if barrier.expected != 1 else ''}; "
            f"warp {warp.index} could have arrived for the next one before all have arrived for this one",
        ],
        hint=f"let warp {warp.index} wait for something that follows the last generation of `{event.name}`",
    )


def bytes_may_come_late(barrier: Mbarrier, op: Op, warp: Warp) -> SimulationFault:
    return fault(
        "E-5015",
        op,
        f"bytes of this load may count in phase {barrier.phase - 1} of `{barrier.name}`, which does not expect them",
        notes=[f"nothing makes warp {warp.index} issue it behind the completion of that phase"],
        hint="announce the bytes of all loads of a generation with its arrival, and wait before the next one",
    )


def may_be_missed(
    guards: Guards, barrier: Mbarrier, waiter: Op, agent: Agent, target: int, arrivals: Sequence[tuple[Op, Warp]]
) -> SimulationFault:
    """The next phase completes, and nothing says that the wait for the last one has returned."""
    labels: Labels = []
    for op, warp in arrivals[-1:]:
        labels = label(op, f"phase {target} completes with this arrival of warp {warp.index}, without the wait")
    return fault(
        "E-5049",
        waiter,
        f"{who(agent)} can miss a phase of `{barrier.name}`: the next one may complete before its wait returns",
        labels=labels,
        notes=[
            f"the wait is for {phase(target)}; when phase {target} is over too, the parity looks as if it were not",
            "a barrier shows one bit of its phase. PTX ISA, mbarrier.test_wait",
        ],
        hint=f"let only threads wait for `{barrier.event.name}` that the next trigger depends on, or keep the others "
        "in step with a barrier",
    )


def missed(guards: Guards, barrier: Mbarrier, waiter: Op, agent: Agent, target: int) -> SimulationFault:
    last = barrier.phase - 1
    return fault(
        "E-5049",
        waiter,
        f"{who(agent)} comes too late for {phase(target)} of `{barrier.name}`: phase {last} is over too",
        labels=label(barrier.last, f"phase {last} completes here, and does not wait for that"),
        notes=["a barrier shows one bit of its phase: parity cannot tell a phase from the next but one"],
        hint=f"let what triggers `{barrier.event.name}` wait until everybody has seen the last generation",
    )


def phase(completion: int) -> str:
    return f"phase {completion - 1}" if completion else "the state at the start"


def who(agent: Agent) -> str:
    if agent.lanes & (agent.lanes - 1):
        return f"warp {agent.warp}"
    return f"thread {WARP * agent.warp + agent.lanes.bit_length() - 1}"


def may_join_twice(barrier: NamedBarrier, op: Op, warp: Warp, before: Op | None) -> SimulationFault:
    return fault(
        "E-5048",
        op,
        f"warp {warp.index} may arrive twice in one generation of {barrier.name}",
        labels=label(before, "it has arrived here"),
        notes=["a named barrier counts arrivals, it does not tell generations apart. PTX ISA, bar"],
        hint="let the warp wait for something that follows the last generation",
    )


def unborn(barrier: Mbarrier, op: Op, warp: Warp) -> SimulationFault:
    return fault(
        "E-5016",
        op,
        f"the barrier of `{barrier.name}` may be used before it is initialised",
        labels=[(barrier.event.span, "declared here")] if barrier.event.span is not None else [],
        notes=[f"nothing puts this use by warp {warp.index} behind the initialisation. PTX ISA, mbarrier.init"],
        hint="synchronise the CTA behind the initialisation",
    )


def unfenced_barrier(barrier: Mbarrier, op: Op) -> SimulationFault:
    return fault(
        "E-5016",
        op,
        f"the copy engine may use the barrier of `{barrier.name}` before it is initialised",
        notes=["the initialisation needs fence.mbarrier_init and a barrier behind it. PTX ISA, fence.mbarrier_init"],
    )
