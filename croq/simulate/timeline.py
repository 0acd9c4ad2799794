"""Timelines: one block of a kernel on a modelled time axis, as tracks of spans, and as a Chrome/Perfetto trace.

The block is executed once, eagerly, to record what each warp does (`timeline_record`); the record is laid out in time by
a cost model (`timeline_replay`, `timeline_costs`). Cycles are modelled, not measured: a timeline shows what can overlap
with what, and what waits for what, not how fast a kernel is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from croq.diagnostics import make
from croq.ir import hw
from croq.ir.core import Op
from croq.ir.objects import Buffer, FragRef, Kernel, View
from croq.ir.scalar import Call, FragWrite, LoadElement, StoreElement
from croq.simulate import timeline_costs as costs
from croq.simulate.barriers import Mbarrier
from croq.simulate.binding import Block
from croq.simulate.dtypes import Array
from croq.simulate.faults import argument_fault
from croq.simulate.runner import run
from croq.simulate.timeline_record import Recorder, Step
from croq.simulate.timeline_replay import WARPGROUP, Executed, Flight, Replayed, replay

Category = Literal["work", "math", "wait", "sync", "issue", "mma", "load", "store", "copy"]
MODEL = "modelled cycles, not measured"
STEPS = 8  # iterations of inner loops that a timeline shows
MOST_SPANS = 20_000  # of a timeline; what comes later is cut off


@dataclass(frozen=True)
class Span:
    """What a track does from `start` to `end`, in cycles. `label`: a word or two; `line`: of the source, 0 for none.

    `details`: what else is known: `step` (iteration of an inner loop, by track), `event`, `slot`, `generation`,
    `completes` (when what it waited for was complete), `issued`, `bytes`, `accumulator`, `operation`.
    """

    category: Category
    label: str
    start: float
    end: float
    line: int
    text: str  # the statement
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cycles(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Track:
    """Spans in order, none of which overlap. `group`: what it is a track of. `warps`: whose it is, () for the TMA."""

    name: str
    group: Literal["warps", "mma", "load", "store"]
    warps: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Timeline:
    """One block of one launch. `cycles` are shown of the `total` that the block takes; `busy`: the tensor cores."""

    kernel: str
    file: str
    block: Block
    tracks: tuple[Track, ...]
    cycles: float
    total: float
    steps: int  # iterations of inner loops that are shown, of the track that makes most
    all_steps: int
    busy: tuple[tuple[float, float], ...]

    @property
    def utilisation(self) -> float:
        """Part of the shown time for which the tensor cores work."""
        return sum(end - start for start, end in self.busy) / self.cycles if self.cycles else 0.0


def timeline(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float] | None = None,
    *,
    symbols: Mapping[str, int] | None = None,
    block: Block = (0, 0, 0),
    steps: int = STEPS,
) -> Timeline:
    """Execute one block and lay it out in modelled time. Arguments as for `run`; outputs are written as it does.

    `steps`: iterations of each warp's inner loops to show; what all warps do until the last of them has made so many.
    Raises what `run` raises, and LaunchError E-5008 for a number of steps below 1.
    """
    if steps < 1:
        message = f"a timeline of {steps} steps"
        raise argument_fault([make("E-5008", None, message, hint="show 1 or more iterations of the inner loops")])
    recorder = Recorder()
    run(kernel, arrays, scalars, symbols=symbols, schedule="eager", blocks=[block], recorder=recorder)
    numbers = {warp: _numbered(sequence) for warp, sequence in recorder.steps.items()}
    done = replay(recorder.steps)
    end = _end(done, numbers, steps)
    tracks = _limited([*_warp_tracks(done, numbers), *_async_tracks(done, numbers)], end)
    shown = max((s.end for track in tracks for s in track.spans), default=0.0)
    busy = tuple((a, min(b, shown)) for a, b in done.busy if a < shown)
    all_steps = max((n[-1] for n in numbers.values() if n), default=0)
    return Timeline(
        kernel.name, kernel.file.name, block, tuple(tracks), shown, done.end, min(steps, all_steps), all_steps, busy
    )


# --------------------------------------------------------------------------------------------------- which part of it
def _numbered(sequence: Sequence[Step]) -> list[int]:
    """For each step of a warp the number of the inner iteration that it belongs to or comes after, from 1; 0 before."""
    numbers, count = [], 0
    last: Any = None
    for step in sequence:
        loops = step.place.loops
        here = (loops, step.trips) if loops and loops[-1].inner else None
        if here is not None and here != last:
            count += 1
            last = here
        numbers.append(count)
    return numbers


def _end(done: Replayed, numbers: Mapping[int, list[int]], steps: int) -> float:
    """When the last warp begins what comes after `steps` inner iterations; the end for a block that makes no more."""
    if all(not counted or counted[-1] <= steps for counted in numbers.values()):
        return done.end
    return max(
        max((e.end for e, n in zip(executed, numbers[warp], strict=True) if n <= steps), default=0.0)
        for warp, executed in done.steps.items()
        if numbers[warp] and numbers[warp][-1] > steps
    )


def _limited(tracks: Sequence[Track], end: float) -> list[Track]:
    """Only what begins before `end`, cut there; and no more than `MOST_SPANS`, the earliest of all tracks."""
    starts = sorted(span.start for track in tracks for span in track.spans if span.start < end)
    if len(starts) > MOST_SPANS:
        end = starts[MOST_SPANS]
    found = []
    for track in tracks:
        spans = [s if s.end <= end else replace(s, end=end, details={**s.details, "cut": True}) for s in track.spans]
        kept = tuple(span for span in spans if span.start < end)
        if kept:
            found.append(replace(track, spans=kept))
    return found


# ------------------------------------------------------------------------------------------------------------ tracks
def _warp_tracks(done: Replayed, numbers: Mapping[int, list[int]]) -> list[Track]:
    """A track for each warpgroup; several where its warps do different things."""
    tracks = []
    for group in sorted({warp // WARPGROUP for warp in done.steps}):
        members = [warp for warp in done.steps if warp // WARPGROUP == group]
        # The warp that does most speaks for those that do a part of the same.
        members.sort(key=lambda warp: (-len(done.steps[warp]), warp))
        speakers: dict[int, list[int]] = {}
        for warp in members:
            for speaker in speakers:
                if _part_of(done.steps[warp], done.steps[speaker]):
                    speakers[speaker].append(warp)
                    break
            else:
                speakers[warp] = [warp]
        for speaker in sorted(speakers):
            warps = tuple(sorted(speakers[speaker]))
            name = f"{_role(done.steps[speaker])}{_warps(warps)}"
            spans = [_span(e, n) for e, n in zip(done.steps[speaker], numbers[speaker], strict=True) if e.end > e.start]
            tracks.append(Track(name, "warps", warps, tuple(spans)))
    return tracks


def _part_of(small: Sequence[Executed], large: Sequence[Executed]) -> bool:
    """Whether a warp's operations are some of another's, in the same order."""
    rest = iter(large)
    return all(any(mine.step.op is theirs.step.op for theirs in rest) for mine in small)


def _role(executed: Sequence[Executed]) -> str:
    """The innermost role that a warp plays, as the source says it."""
    roles = max((e.step.place.roles for e in executed), key=len, default=())
    return f"{roles[-1]}: " if roles else ""


def _warps(warps: Sequence[int]) -> str:
    if len(warps) == 1:
        return f"warp {warps[0]}"
    whole = list(warps) == list(range(warps[0], warps[-1] + 1))
    return f"warps {warps[0]}-{warps[-1]}" if whole else f"warps {', '.join(map(str, warps))}"


def _async_tracks(done: Replayed, numbers: Mapping[int, list[int]]) -> list[Track]:
    """The MMAs of each warpgroup; loads and stores, in as many tracks as are under way at once."""
    tracks = []
    first = {id(e.step): n for warp, es in done.steps.items() for e, n in zip(es, numbers[warp], strict=True)}
    for leader in sorted({flight.warp for flight in done.mmas}):
        spans = [_mma_span(f, first[id(f.step)]) for f in done.mmas if f.warp == leader]
        warps = tuple(range(leader, leader + WARPGROUP))
        tracks.append(Track(f"tensor cores for {_warps(warps)}", "mma", warps, tuple(spans)))
    for group, flights in (("load", done.loads), ("store", done.stores)):
        lanes = _lanes([_move_span(f, first[id(f.step)]) for f in flights])
        for index, lane in enumerate(lanes):
            name = f"TMA {group}s" if index == 0 else f"TMA {group}s {index + 1}"
            tracks.append(Track(name, group, (), tuple(lane)))  # type: ignore[arg-type]
    return tracks


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans in as few lists as there can be without an overlap in one, the earlier in the first that is free."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: s.start):
        lane = next((lane for lane in lanes if lane[-1].end <= span.start), None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    return lanes


# ------------------------------------------------------------------------------------------------------------- spans
def _span(executed: Executed, number: int) -> Span:
    step = executed.step
    category, label = _described(step)
    details: dict[str, Any] = {"operation": step.op.NAME}
    if number:
        details["step"] = number
    if step.barrier is not None:
        slot = {"slot": step.barrier.slot} if isinstance(step.barrier, Mbarrier) else {}
        details |= {"event": step.barrier.name, **slot, "generation": step.generation}
    if executed.completes is not None:
        details["completes"] = executed.completes
    return _placed(step.op, category, label, executed.start, executed.end, details)


def _mma_span(flight: Flight, number: int) -> Span:
    op = flight.step.op
    assert isinstance(op, hw.WgmmaIssue)
    b = _tile(op.b, flight.step.slot)
    a = op.a.frag.name if isinstance(op.a, FragRef) else op.a.root.name
    details = {
        "operation": op.NAME, "accumulator": op.acc.frag.name, "from_registers": isinstance(op.a, FragRef),
        "issued": flight.issued, "completes": flight.done.when, "instructions": costs.mma_instructions(op)[0],
    }  # fmt: skip
    if number:
        details["step"] = number
    label = f"{op.acc.frag.name} {'+=' if op.accumulate else '='} {a} x {b}"
    return _placed(op, "mma", label, flight.start, flight.end, details)


def _move_span(flight: Flight, number: int) -> Span:
    step = flight.step
    details: dict[str, Any] = {"operation": step.op.NAME, "bytes": int(step.amount), "transfer_starts": flight.start}
    if number:
        details["step"] = number
    if step.barrier is not None:
        details |= {"event": step.barrier.name, "generation": step.generation}
    category, label = _described(step)
    return _placed(step.op, category, label, flight.issued, flight.end, details)


def _placed(op: Op, category: Category, label: str, start: float, end: float, details: Mapping[str, Any]) -> Span:
    line = op.span.line if op.span is not None else 0
    text = " ".join(op.span.text.split()) if op.span is not None else ""
    return Span(category, label, start, end, line, text if len(text) <= 100 else f"{text[:97]}...", details)


def _described(step: Step) -> tuple[Category, str]:
    """What kind of thing a step is, and its name on the track."""
    op = step.op
    name = step.barrier.name if step.barrier is not None else ""
    match step.kind:
        case "wait":
            return "wait", f"wait {name}"
        case "arrive":
            return "sync", f"arrive {name}"
        case "sync" | "sync_arrive":
            return ("wait" if step.kind == "sync" else "sync"), f"{'sync' if step.kind == 'sync' else 'arrive'} {name}"
        case "mma_wait":
            return "wait", f"wait MMA, {int(step.amount)} left"
        case "store_wait":
            return "wait", "wait store"
        case "mma" | "mma_commit":
            return "issue", "issue MMA"
    if isinstance(op, hw.BulkTensorLoad):
        return "load", f"load {_tile(op.dest, step.slot)}"
    if isinstance(op, hw.BulkTensorStore):
        return "store", f"store {op.map.param.name}"
    if isinstance(op, (hw.CopyTile, hw.FillTile)):
        return "copy", f"copy {_tile(op.dest, step.slot)}"
    if step.kind == "work":
        return ("math" if step.work.xu >= 1 else "work"), _worked_on(op)
    return "sync", op.NAME


def _tile(view: View, slot: int | None) -> str:
    root = view.root
    return f"{root.name}[{slot}]" if isinstance(root, Buffer) and slot is not None else root.name


def _worked_on(op: Op) -> str:
    """What a register statement writes."""
    named: Callable[[FragRef], str] = lambda ref: ref.frag.name  # noqa: E731
    match op:
        case hw.RegMap():
            written = [named(o.frag) for o in op.body.walk() if isinstance(o, FragWrite)]
            return ", ".join(dict.fromkeys(written)) or named(op.domain)
        case hw.RegReduceRow():
            return f"{op.kind} {named(op.dest)}"
        case hw.RegShuffleReduce():
            return f"shuffle {named(op.frag)}"
        case hw.RegCopy():
            return named(op.dest)
        case hw.RegFill():
            return named(op.frag)
        case hw.RegStore():
            return f"store {op.dest.root.name}"
        case LoadElement() | StoreElement():
            return f"{'load' if isinstance(op, LoadElement) else 'store'} {op.view.root.name}"
        case Call():
            return op.callee
    return op.NAME


# ------------------------------------------------------------------------------------------------------------- trace
def to_trace(timelines: Sequence[Timeline]) -> str:
    """Chrome's trace format, which Perfetto reads (ui.perfetto.dev): a process a launch, a thread a track.

    A cycle is written as a nanosecond. Equal timelines give equal bytes.
    """
    events: list[dict[str, Any]] = []
    for process, shown in enumerate(timelines):
        name = f"{shown.kernel}, block {shown.block}: {MODEL}"
        events.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        for thread, track in enumerate(shown.tracks):
            place = {"pid": process, "tid": thread}
            events.append({"ph": "M", **place, "name": "thread_name", "args": {"name": track.name}})
            events.append({"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": thread}})
            events += [{"ph": "X", **place, **_event(span)} for span in track.spans]
    facts = [
        {
            "kernel": t.kernel, "file": t.file, "block": list(t.block), "cycles": round(t.cycles), "total": round(t.total),
            "steps": t.steps, "all_steps": t.all_steps, "tensor_cores_busy": round(t.utilisation, 4),
        }
        for t in timelines
    ]  # fmt: skip
    head = {"model": MODEL, "unit": "a nanosecond is a cycle", "launches": facts}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    return f'{{"displayTimeUnit":"ns","otherData":{json.dumps(head)},"traceEvents":[\n{lines}\n]}}\n'


def _event(span: Span) -> dict[str, Any]:
    start, end = round(span.start, 1), round(span.end, 1)
    times = ("completes", "issued", "transfer_starts")
    args = {key: round(value, 1) if key in times else value for key, value in span.details.items()}
    source = {"line": span.line, "source": span.text} if span.line else {}
    # Microseconds with four decimals hold tenths of nanoseconds exactly.
    ts, dur = round(start / 1000, 4), round((end - start) / 1000, 4)
    return {"name": span.label, "cat": span.category, "ts": ts, "dur": dur, "args": {**source, **args}}
