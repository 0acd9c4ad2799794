"""Timelines: one block of a kernel on a modelled time axis, as tracks of spans.

The block is executed once, eagerly, to record what each warp does (record.py); the record is laid out in time by a cost
model (replay.py, costs.py); trace.py and svg.py show it. Cycles are modelled,
not measured: a timeline shows what can overlap with what, and what waits for what, not how fast a kernel is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from croq.diagnostics import make
from croq.ir import hw
from croq.ir.core import Op
from croq.ir.dispatch import Rules, lowered
from croq.ir.objects import Buffer, FragRef, Kernel, View
from croq.ir.scalar import Call, Cpp, FragDeclare, FragWrite, LoadElement, StoreElement
from croq.ir.types import warps_in_words
from croq.simulate.barriers import Mbarrier, NamedBarrier
from croq.simulate.binding import Block
from croq.simulate.dtypes import Array
from croq.simulate.faults import argument_fault
from croq.simulate.runner import run
from croq.target.cuda import CTA_BARRIER
from croq.timelines import costs
from croq.timelines.record import Kind, Recorder, Step
from croq.timelines.replay import WARPGROUP, Executed, Flight, Replayed, replay

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
    for sequence in recorder.steps.values():
        _number(sequence)
    done = replay(kernel.target, recorder.steps)
    end = _end(done, steps)
    tracks = _limited([*_warp_tracks(done), *_async_tracks(done)], end)
    shown = max((s.end for track in tracks for s in track.spans), default=0.0)
    busy = tuple((a, min(b, shown)) for a, b in done.busy if a < shown)
    all_steps = max((sequence[-1].number for sequence in recorder.steps.values()), default=0)
    return Timeline(
        kernel.name, kernel.file.name, block, tuple(tracks), shown, done.end, min(steps, all_steps), all_steps, busy
    )


# --------------------------------------------------------------------------------------------------- which part of it
def _number(sequence: Sequence[Step]) -> None:
    """Number the iterations of a warp's inner loops, and with them its steps."""
    count = 0
    last: Any = None
    for step in sequence:
        loops = step.place.loops
        here = (loops, step.trips) if loops and loops[-1].inner else None
        if here is not None and here != last:
            count += 1
            last = here
        step.number = count


def _end(done: Replayed, steps: int) -> float:
    """When the last warp begins what comes after `steps` inner iterations; the end for a block that makes no more."""
    longer = [executed for executed in done.steps.values() if executed and executed[-1].step.number > steps]
    if not longer:
        return done.end
    return max(max((e.end for e in executed if e.step.number <= steps), default=0.0) for executed in longer)


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
def _warp_tracks(done: Replayed) -> list[Track]:
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
            roles = _roles(done.steps[speaker])
            # Warps that are there without playing the role are not worth a mention.
            warps = tuple(sorted(w for w in speakers[speaker] if w == speaker or roles in _all_roles(done.steps[w])))
            name = f"{roles[-1]}: {warps_in_words(warps, to='-')}" if roles else warps_in_words(warps, to="-")
            spans = [_span(e) for e in done.steps[speaker] if e.end > e.start]
            tracks.append(Track(name, "warps", warps, tuple(spans)))
    return tracks


def _part_of(small: Sequence[Executed], large: Sequence[Executed]) -> bool:
    """Whether a warp's operations are some of another's, in the same order."""
    rest = iter(large)
    mine = (e.step.op for e in small if e.step.kind != "fetch_wait")
    return all(any(op is theirs.step.op for theirs in rest) for op in mine)


def _all_roles(executed: Sequence[Executed]) -> Counter[tuple[str, ...]]:
    return Counter(e.step.place.roles for e in executed)


def _roles(executed: Sequence[Executed]) -> tuple[str, ...]:
    """The roles that a warp plays most of the time, the innermost last."""
    return max(_all_roles(executed).items(), key=lambda item: (item[1], len(item[0])), default=((), 0))[0]


def _async_tracks(done: Replayed) -> list[Track]:
    """The MMAs of each warpgroup; loads and stores, in as many tracks as are under way at once."""
    tracks = []
    for leader in sorted({flight.warp for flight in done.mmas}):
        spans = [_mma_span(f) for f in done.mmas if f.warp == leader]
        warps = tuple(range(leader, leader + WARPGROUP))
        tracks.append(Track(f"tensor cores for {warps_in_words(warps, to='-')}", "mma", warps, tuple(spans)))
    for group, flights in (("load", done.loads), ("store", done.stores)):
        lanes = _lanes([_move_span(f) for f in flights])
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
def _span(executed: Executed) -> Span:
    step = executed.step
    category, label = _described(step)
    details: dict[str, Any] = {"operation": step.op.NAME}
    if step.number:
        details["step"] = step.number
    if step.barrier is not None:
        slot = {"slot": step.barrier.slot} if isinstance(step.barrier, Mbarrier) else {}
        details |= {"event": step.barrier.name, **slot, "generation": step.generation}
    if executed.completes is not None:
        details["completes"] = executed.completes
    return _placed(step.op, category, label, executed.start, executed.end, details)


def _mma_span(flight: Flight) -> Span:
    op = flight.step.op
    assert isinstance(op, hw.WgmmaIssue)
    details = {
        "operation": op.NAME, "accumulator": op.acc.frag.name, "from_registers": isinstance(op.a, FragRef),
        "issued": flight.issued, "completes": flight.done.when, "instructions": costs.mma_instructions(op),
    }  # fmt: skip
    if flight.step.number:
        details["step"] = flight.step.number
    return _placed(op, "mma", words[op](op, flight.step.slot), flight.start, flight.end, details)


def _move_span(flight: Flight) -> Span:
    step = flight.step
    details: dict[str, Any] = {"operation": step.op.NAME, "bytes": int(step.amount), "transfer_starts": flight.start}
    if step.number:
        details["step"] = step.number
    if step.barrier is not None:
        details |= {"event": step.barrier.name, "generation": step.generation}
    category, label = _described(step)
    return _placed(step.op, category, label, flight.issued, flight.end, details)


def _placed(op: Op, category: Category, label: str, start: float, end: float, details: Mapping[str, Any]) -> Span:
    line = op.span.line if op.span is not None else 0
    text = " ".join(op.span.text.split()) if op.span is not None else ""
    return Span(category, label, start, end, line, text if len(text) <= 100 else f"{text[:97]}...", details)


CATEGORIES: dict[Kind, Category] = {
    "wait": "wait", "sync": "wait", "fetch_wait": "wait", "mma_wait": "wait", "store_wait": "wait",
    "arrive": "sync", "sync_arrive": "sync", "pause": "sync", "store_commit": "sync",
    "mma": "issue", "mma_commit": "issue", "load": "load", "store": "store", "copy": "copy", "fetch": "copy",
}  # fmt: skip


def _described(step: Step) -> tuple[Category, str]:
    """What kind of thing a step is, and its name on the track."""
    if step.kind == "work":
        return ("math" if step.work.xu >= 1 else "work"), words[step.op](step.op, step.slot)
    return CATEGORIES[step.kind], _label(step)


def _label(step: Step) -> str:
    match step.kind:
        case "wait" | "arrive":
            assert step.barrier is not None
            return f"{step.kind} {step.barrier.name}"
        case "sync" | "sync_arrive":
            return f"{step.kind.removeprefix('sync_')} {_barrier_name(step)}"
        case "fetch_wait":
            return f"wait {words[step.op](step.op, None).removeprefix('load ')}"
        case "mma_wait":
            return f"wait MMA, {int(step.amount)} left"
        case "store_wait":
            return "wait store"
        case "mma" | "mma_commit":
            return "issue MMA"
        case "pause" | "store_commit":
            return step.op.NAME
    return words[step.op](step.op, step.slot)


def _barrier_name(step: Step) -> str:
    """Of a named barrier: what it is for, else its number."""
    event = next(iter(step.op.events), None)
    if event is not None:
        return str(event.name)
    assert isinstance(step.barrier, NamedBarrier)
    return f"barrier {step.barrier.id}" if step.barrier.id != CTA_BARRIER else "CTA"


def _tile(view: View, slot: int | None) -> str:
    root = view.root
    return f"{root.name}[{slot}]" if isinstance(root, Buffer) and slot is not None else root.name


# ------------------------------------------------------------------------------------------- names of moves and of work
Words = Callable[[Any, int | None], str]  # of the operation, and the slot of its buffer


def _told(kind: type[Op]) -> bool:
    """Whether a track says of a step what it does to which data."""
    return lowered(kind) and (kind.REGISTERS or kind.OPAQUE or (bool(kind.ACCESSES) and not kind.ORDINARY))


words = Rules[Words]("words of timelines", _told)
words.without("it takes no modelled time", FragDeclare, Cpp)
words(hw.BulkTensorLoad)(lambda op, slot: f"load {_tile(op.dest, slot)}")
words(hw.BulkTensorStore)(lambda op, slot: f"store {op.map.param.name}")
words(hw.CopyTile, hw.FillTile)(lambda op, slot: f"copy {_tile(op.dest, slot)}")
words(hw.RegReduceRow)(lambda op, slot: f"{op.kind} {op.dest.frag.name}")
words(hw.RegShuffleReduce)(lambda op, slot: f"shuffle {op.frag.frag.name}")
words(hw.RegCopy)(lambda op, slot: op.dest.frag.name)
words(hw.RegFill)(lambda op, slot: op.frag.frag.name)
words(hw.RegLoad)(lambda op, slot: f"load {op.frag.frag.name}")
words(hw.RegStore)(lambda op, slot: f"store {op.dest.root.name}")
words(LoadElement)(lambda op, slot: f"load {op.view.root.name}")
words(StoreElement)(lambda op, slot: f"store {op.view.root.name}")
words(Call)(lambda op, slot: op.callee)


@words(hw.RegMap)
def _written(op: hw.RegMap, slot: int | None) -> str:
    written = [o.frag.frag.name for o in op.body.walk() if isinstance(o, FragWrite)]
    return ", ".join(dict.fromkeys(written)) or op.domain.frag.name


@words(hw.WgmmaIssue)
def _product(op: hw.WgmmaIssue, slot: int | None) -> str:
    a = op.a.frag.name if isinstance(op.a, FragRef) else op.a.root.name
    return f"{op.acc.frag.name} {'+=' if op.accumulate else '='} {a} x {_tile(op.b, slot)}"
