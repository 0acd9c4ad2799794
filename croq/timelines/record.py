"""Records what each warp of one block does, in program order, while the simulator runs it.

The recorder wraps the compiled code of the operations that take modelled time (`Compiler.operation` asks it). A record
names what it depends on by meaning, not by time: a wait names the phase of its barrier, an arrival the phase that it
counts for. That makes records of an eager run good for any other order of the same handshakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

from croq.ir import hw, scalar
from croq.ir.core import Op, Value
from croq.ir.dispatch import Rules
from croq.ir.objects import Buffer, Event, View
from croq.ir.types import BYTES
from croq.simulate.barriers import Mbarrier, NamedBarrier
from croq.simulate.compiler import Code, Compiler, Handler
from croq.simulate.machine import Warp
from croq.target.cuda import CTA_BARRIER
from croq.timelines import costs
from croq.timelines.costs import NOTHING, Work

Kind = Literal[
    "work", "fetch", "fetch_wait", "copy", "pause", "wait", "arrive", "sync", "sync_arrive",
    "load", "store", "store_commit", "store_wait", "mma", "mma_commit", "mma_wait",
]  # fmt: skip


@dataclass(eq=False)
class Loop:
    """A loop of the program. `inner`: no other loop in it has anything to record."""

    op: Op
    inner: bool = True


@dataclass(frozen=True)
class Place:
    """Where an operation stands: the roles around it as the source names them, and the loops, outermost first."""

    roles: tuple[str, ...]
    loops: tuple[Loop, ...]


@dataclass(slots=True, eq=False)
class Step:
    """One execution of an operation by one warp.

    `barrier` and `generation` (from 0; -1: complete from the start) say which phase it waits for or counts for.
    `amount`: arrivals, bytes of a copy, depth of a wait, cycles of a pause. `slot`: of the buffer
    that a copy or an MMA uses. `trips`: iteration of each loop in `place`. `after`: of a fetch (a load of one element)
    the fetches that its address comes from. `number`: the warp's iteration of inner loops that it belongs to or comes
    after, from 1; 0 before the first.
    """

    op: Op
    kind: Kind
    place: Place
    trips: tuple[int, ...] = ()
    work: Work = NOTHING
    barrier: Mbarrier | NamedBarrier | None = None
    generation: int = -1
    amount: float = 0
    slot: int | None = None
    after: frozenset[Op] = frozenset()
    number: int = 0


Make = Callable[[Warp], list[Step]]


@dataclass
class _Probe:
    """What to record of an operation: `make` looks at the warp before the operation runs, or `after` it."""

    make: Make
    after: bool = False


@dataclass(eq=False)
class _Counter:
    """Counts the iterations of a `while`, which has no induction value: by its first recorded operation."""

    loop: Loop
    leader: Op | None = None
    counts: dict[int, int] = field(default_factory=dict)


class Recorder:
    """Collects the steps of the warps of one block: `steps[warp]`."""

    def __init__(self) -> None:
        self.steps: dict[int, list[Step]] = {}
        self._roles: list[str] = []
        self._loops: list[Loop] = []
        self._trips: list[Callable[[Warp], int]] = []
        self._counters: list[_Counter] = []

    # ------------------------------------------------------------------------------------------- while compiling
    def operation(self, c: Compiler, op: Op, handler: Handler) -> Code | None:
        """Compile an operation by its handler; what it returns records too, if it takes time."""
        match op:
            case hw.Section() if op.role:
                self._roles.append(op.label)
                code = handler(c, op)
                self._roles.pop()
                return code
            case scalar.For() | scalar.While():
                return self._loop(c, op, handler)
        probe = probes[op](c, op, Place(tuple(self._roles), tuple(self._loops)))
        code = handler(c, op)
        if probe is None or code is None:
            return code
        for loop in self._loops[:-1]:
            loop.inner = False
        for counter in self._counters:
            counter.leader = counter.leader or op
        return self._wrap(code, probe, op)

    def _loop(self, c: Compiler, op: scalar.For | scalar.While, handler: Handler) -> Code | None:
        loop = Loop(op)
        self._loops.append(loop)
        if isinstance(op, scalar.For):
            slot = c.result(op.iv)
            self._trips.append(lambda warp: int(warp.v[slot]))
            code = handler(c, op)
        else:
            counter = _Counter(loop)
            self._counters.append(counter)
            self._trips.append(lambda warp: counter.counts.get(warp.index, 0) - 1)
            code = handler(c, op)
            self._counters.remove(counter)
        self._trips.pop()
        self._loops.pop()
        return code

    def _wrap(self, code: Code, probe: _Probe, op: Op) -> Code:
        note = self._note(probe.make, op)
        before, after = (_no_note, note) if probe.after else (note, _no_note)
        plain = code.plain
        if plain is None:
            waits = code.as_blocking()

            def run_blocking(warp: Warp) -> Generator[Any, None, None]:
                before(warp)
                yield from waits(warp)
                after(warp)

            return Code(blocking=run_blocking, exits=code.exits)

        def run(warp: Warp) -> None:
            before(warp)
            plain(warp)
            after(warp)

        return Code(run, exits=code.exits)

    def _note(self, make: Make, op: Op) -> Callable[[Warp], None]:
        """Adds to the record what `make` says of an operation."""
        trips = tuple(self._trips)
        leads = [counter for counter in self._counters if counter.leader is op]

        def note(warp: Warp) -> None:
            for counter in leads:
                counter.counts[warp.index] = counter.counts.get(warp.index, 0) + 1
            now = tuple(trip(warp) for trip in trips)
            for step in make(warp):
                step.trips = now
                self.steps.setdefault(warp.index, []).append(step)

        return note


def _no_note(warp: Warp) -> None:
    pass


# -------------------------------------------------------------------------------------------------- what is recorded
def _free(c: Compiler, op: Op, place: Place) -> None:
    """It takes no modelled time."""


Record = Callable[[Compiler, Any, Place], _Probe | None]
probes = Rules[Record]("timelines", general=lambda kind: _free if kind.ORDINARY else None)
probes(hw.Section, hw.Elect, hw.WarpSync, hw.MbarrierInitFence, scalar.FragDeclare, scalar.Cpp)(_free)


@probes(hw.RegFill, hw.RegCopy, hw.RegMap, hw.RegReduceRow, hw.RegShuffleReduce, hw.RegLoad, hw.RegStore)
@probes(scalar.Call)
def _work(c: Compiler, op: Op, place: Place, kind: Kind = "work") -> _Probe | None:
    work = costs.of_statement(c.kernel.target, op)
    return _Probe(lambda warp: [Step(op, kind, place, work=work)]) if work != NOTHING else None


@probes(scalar.StoreElement)
def _element(c: Compiler, op: Op, place: Place) -> _Probe | None:
    return _work(c, op, place, "copy")


@probes(scalar.LoadElement)
def _fetch(c: Compiler, op: scalar.LoadElement, place: Place) -> _Probe | None:
    work, after = costs.of_statement(c.kernel.target, op), frozenset(_fetches(op))
    return _Probe(lambda warp: [Step(op, "fetch", place, work=work, after=after)]) if work != NOTHING else None


def _fetches(op: Op) -> set[Op]:
    """The loads of elements that an operation's operands are computed from."""
    found: set[Op] = set()
    todo = [value.op for value in op.operands()]
    seen: set[Op] = set()
    while todo:
        source = todo.pop()
        if source is None or source in seen:
            continue
        seen.add(source)
        if isinstance(source, scalar.LoadElement):
            found.add(source)
        todo += [value.op for value in source.operands()]
    return found


def _always(kind: Kind, amount: Callable[[Any], float]) -> Callable[[Compiler, Op, Place], _Probe]:
    """Operations that are recorded the same every time."""
    return lambda c, op, place: _Probe(lambda warp: [Step(op, kind, place, amount=amount(op))])


def _pause(name: str) -> Callable[[Compiler, Op, Place], _Probe]:
    """Operations that take as long as the target says under `name`."""
    return lambda c, op, place: _always("pause", lambda op: c.kernel.target.cycles(name))(c, op, place)


probes(hw.SetMaxNReg)(_pause("setmaxnreg"))
probes(hw.ProxyFence, hw.MbarrierInit)(_pause("fence"))
probes(hw.WgmmaFence)(_pause("wgmma.fence"))
probes(hw.WgmmaCommit)(_always("mma_commit", lambda op: 0))
probes(hw.WgmmaWait)(_always("mma_wait", lambda op: op.depth))
probes(hw.BulkCommit)(_always("store_commit", lambda op: 0))
probes(hw.BulkWait)(_always("store_wait", lambda op: op.depth))


@probes(hw.MbarrierArrive, hw.MbarrierExpectTx, hw.MbarrierWait)
def _mbarrier(c: Compiler, op: hw.MbarrierArrive | hw.MbarrierExpectTx | hw.MbarrierWait, place: Place) -> _Probe:
    find = _barriers(c, op.event, op.slot, op)
    if isinstance(op, hw.MbarrierWait):
        return _Probe(lambda w: [Step(op, "wait", place, barrier=b, generation=b.phase - 1) for b in find(w)], True)

    def arrive(warp: Warp) -> list[Step]:
        found = find(warp).items()
        return [Step(op, "arrive", place, barrier=b, generation=b.phase, amount=count) for b, count in found]

    return _Probe(arrive)


def _barriers(c: Compiler, event: Event, slot: Value | None, op: Op) -> Callable[[Warp], dict[Mbarrier, int]]:
    """The barriers that the active lanes name, and how many lanes name each."""
    number = c.getter(slot)

    def find(warp: Warp) -> dict[Mbarrier, int]:
        at = number(warp)
        slots = [at] * warp.mask.bit_count()
        if hasattr(at, "flat"):
            slots = [at.flat[lane] for lane in range(len(at.flat)) if warp.mask >> lane & 1]
        counts = Counter(map(int, slots))
        return {warp.cta.barriers.slot(event, number, op): count for number, count in counts.items()}

    return find


@probes(hw.NamedBarrierSync, hw.NamedBarrierArrive, hw.CtaSync)
def _named(c: Compiler, op: hw.NamedBarrierSync | hw.NamedBarrierArrive | hw.CtaSync, place: Place) -> _Probe:
    kind: Kind = "sync_arrive" if isinstance(op, hw.NamedBarrierArrive) else "sync"
    event: Event | None = None if isinstance(op, hw.CtaSync) else op.event
    number = CTA_BARRIER if isinstance(op, hw.CtaSync) else op.barrier

    def make(warp: Warp) -> list[Step]:
        barrier = warp.cta.barriers.barrier(number, event)
        return [Step(op, kind, place, barrier=barrier, generation=barrier.generation)]

    return _Probe(make)


@probes(hw.BulkTensorLoad)
def _load(c: Compiler, op: hw.BulkTensorLoad, place: Place) -> _Probe:
    find, slot, size = _barriers(c, op.event, op.slot, op), _slot(c, op.dest), _box_bytes(op)
    return _Probe(
        lambda warp: [
            Step(op, "load", place, barrier=b, generation=b.phase, amount=size, slot=slot(warp))
            for b, count in find(warp).items()
            for _ in range(count)
        ]
    )


@probes(hw.BulkTensorStore)
def _store(c: Compiler, op: hw.BulkTensorStore, place: Place) -> _Probe:
    slot, size = _slot(c, op.source), _box_bytes(op)
    return _Probe(lambda warp: [Step(op, "store", place, amount=size, slot=slot(warp))])


@probes(hw.WgmmaIssue)
def _mma(c: Compiler, op: hw.WgmmaIssue, place: Place) -> _Probe:
    slot = _slot(c, op.b)
    return _Probe(lambda warp: [Step(op, "mma", place, slot=slot(warp))])


@probes(hw.CopyTile, hw.FillTile)
def _copy(c: Compiler, op: hw.CopyTile | hw.FillTile, place: Place) -> _Probe:
    elements = prod(c.extent(extent, op) for extent in op.dest.shape)
    size = BYTES[op.dest.root.type]
    vector = op.vector if isinstance(op, hw.CopyTile) else size
    pieces = -(-elements * size // (vector * op.count))
    roots = [op.dest.root, *([op.source.root] if isinstance(op, hw.CopyTile) else [])]
    shared = any(isinstance(root, Buffer) for root in roots)
    loads = isinstance(op, hw.CopyTile) and not isinstance(op.source.root, Buffer)
    work = costs.of_copy(c.kernel.target, pieces, vector, loads=loads, shared=shared)
    slot = _slot(c, op.dest)
    return _Probe(lambda warp: [Step(op, "copy", place, work=work, amount=elements * size, slot=slot(warp))])


def _slot(c: Compiler, view: View) -> Callable[[Warp], int | None]:
    if not isinstance(view.root, Buffer) or view.slot is None:
        return lambda warp: None
    find, first = c.getter(view.slot), _first
    return lambda warp: first(find(warp))


def _first(value: Any) -> int:
    """Of a value that all lanes share."""
    return int(value.flat[0]) if hasattr(value, "flat") else int(value)


def _box_bytes(op: hw.BulkTensorLoad | hw.BulkTensorStore) -> int:
    return prod(op.map.box) * BYTES[op.map.param.type]
