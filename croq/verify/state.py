"""The state of one run: warps, what each group of lanes certainly knows, what has been seen.

Happens-before is kept by vector clocks. A component counts the releases of one agent - lanes of a warp that always act
together - or the completed phases of one barrier. `known(vc[a], c) >= n` says: whatever carries the epoch (c, n)
certainly happened before the next step of agent a.

Each clock has two halves. The first is about memory: what may be relied on to be seen, carried by releases and acquires
alone. The second (component + `self.half`) is about time: what must have taken place, carried also from the issue of a
load to its completion. Phases need the second, data need the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.ir.core import Op, Value
from croq.ir.lanes import lane_flags
from croq.ir.objects import Buffer, Event, Param
from croq.target.cuda import WARP
from croq.target.handshakes import CommitGroups, completed
from croq.verify.clocks import MOST, WIDTH, Clock, field, guards, joined, known
from croq.verify.faults import Fault, Refine
from croq.verify.history import History
from croq.verify.program import Program
from croq.verify.regions import Regions
from croq.verify.sites import MOST_SAMPLES, Decision, Load, Loop, Sample, Site
from croq.verify.values import FULL, UNKNOWN, Scalar, TooLong, Undecided, split

if TYPE_CHECKING:
    from croq.verify.barriers import Counted
    from croq.verify.tensor import Mma

FUEL = 200_000  # iterations of all loops of a run


class Warp:
    """One warp: where its generator stands, and what is in flight on its behalf."""

    def __init__(self, index: int, base: int, classes: list[tuple[int, int]]) -> None:
        self.index = index
        self.base = base  # the lanes that exist
        self.classes = classes  # (lane mask, agent)
        self.by_mask: dict[int, tuple[int, ...]] = {}
        self.run: Generator[None, None, object] | None = None
        self.held = False  # inside a named barrier
        self.blocked: tuple[Site, str] | None = None  # what it waits for
        self.synced = 0  # how often all its lanes have synchronised
        self.counts: dict[Site, int] = {}  # executions of collective operations
        self.mmas: CommitGroups[Mma] = CommitGroups()
        self.fenced = False  # a wgmma.fence has been executed
        self.dirty: set[Any] = set()  # fragments touched by ordinary code since the last wgmma.fence
        self.live: set[Any] = set()  # fragments with defined contents
        self.trace: list[Site] = []  # warpgroup collectives
        self.reads: dict[Value, Any] = {}  # where each scalar of global memory was read last
        self.paths: dict[Any, int] = {}  # tile level: generations of waits without an order
        self.values: list[Scalar] = []  # what is followed of its own (croq/verify/coder.py)
        self.loop_masks: list[int] = []  # the lanes in each loop around
        self.perhaps = 0  # blocks around that data decide about
        self.perhaps_live: set[Any] = set()  # fragments that such blocks have written
        self.done = False


class State:
    """What the parts of the machine share."""

    def __init__(
        self,
        program: Program,
        partition: list[list[int]],
        symbols: dict[str, int],
        place: tuple[int, int, int],
        oracle: Oracle,
        record: bool = False,
    ) -> None:
        kernel = program.kernel
        self.program, self.kernel, self.oracle, self.place = program, kernel, oracle, place
        self.sizes = symbols
        self.symbols: dict[str, Scalar] = _Symbols(symbols)
        self.regions = Regions(symbols, program.boxes)
        self.history = History() if record else None
        self.warps: list[Warp] = []
        self.owner: list[Warp] = []  # of each agent
        self.lanes: list[int] = []  # of each agent
        self.threads: list[int] = []  # how many these are
        for index, classes in enumerate(partition):
            numbered = [(mask, len(self.owner) + n) for n, mask in enumerate(classes)]
            warp = Warp(index, sum(classes), numbered)
            self.warps.append(warp)
            self.owner += [warp] * len(classes)
            self.lanes += classes
            self.threads += map(int.bit_count, classes)
        self.agents = len(self.owner)
        self.components = self.agents
        self.half = 0
        self.vc: list[Clock] = []
        self.times: list[int] = []  # of each agent its own component
        self.fences: list[list[int]] = [[] for _ in range(self.agents)]
        self.ready: deque[Warp] = deque()
        self.work = 0
        self.fresh: list[tuple[Decision, int, int, int]] = []  # sides that no run took before this one
        self.fuel = FUEL
        self.limit: int | None = None  # operations after which the run is given up
        self.start()

    def start(self) -> None:
        """What each part has at the beginning of a run."""

    def component(self) -> int:
        self.components += 1
        return self.components - 1

    def start_clocks(self) -> None:
        """Once all components are known. An agent's own clock starts at 1, so that epoch 0 is known to nobody else."""
        self.half = self.components
        self.guards = guards(2 * self.half)
        self.later_half = self.half * WIDTH
        self.own = [self.both(agent, MOST) for agent in range(self.agents)]  # the fields of each agent
        self.steps = [self.both(agent, 1) for agent in range(self.agents)]
        self.vc = list(self.steps)
        self.times = [1] * self.agents

    # ------------------------------------------------------------------------------------------------------ agents
    def acting(self, warp: Warp, mask: int) -> tuple[int, ...]:
        """The agents of the active lanes."""
        self.work += 1
        found = warp.by_mask.get(mask)
        if found is None:
            for lanes, _ in warp.classes:
                if lanes & mask not in (0, lanes):
                    raise Refine(warp.index, mask)
            found = warp.by_mask[mask] = tuple(agent for lanes, agent in warp.classes if lanes & mask)
        return found

    def join(self, agent: int, other: Clock) -> None:
        self.vc[agent] = joined(self.vc[agent], other, self.guards)

    def join_met(self, agent: int, other: Clock) -> None:
        """Learn what others knew who met, and all that the agent itself knew before its last step is of it."""
        self.vc[agent] = other ^ (other ^ self.vc[agent]) & self.own[agent]

    def who(self, agent: int) -> str:
        """The threads of an agent, in words."""
        warp, lanes = self.owner[agent], self.lanes[agent]
        if lanes == warp.base:
            return f"warp {warp.index}"
        first = WARP * warp.index
        threads = [first + lane for lane in range(WARP) if lanes >> lane & 1]
        if len(threads) == 1:
            return f"thread {threads[0]}"
        dense = threads[-1] - threads[0] + 1 == len(threads)
        return f"threads {threads[0]} to {threads[-1]}" if dense else f"{len(threads)} lanes of warp {warp.index}"

    def step(self, agent: int) -> None:
        """What the agent does from here on comes after what it has released so far."""
        self.vc[agent] += self.steps[agent]
        self.times[agent] += 1

    def both(self, component: int, value: int) -> Clock:
        """A clock that knows of one component, in memory and in time."""
        return field(component, value) | field(self.half + component, value)

    def issued(self, agent: int) -> Clock:
        """What the agent knows in time, and nothing of memory: what a load takes along."""
        return self.vc[agent] >> self.later_half << self.later_half

    def merged(self, clock: Clock | None, agents: Iterable[int]) -> Clock:
        """What somebody knows, and what the agents know."""
        found = clock or 0
        for agent in agents:
            found = joined(found, self.vc[agent], self.guards) if found else self.vc[agent]
        return found

    def completing(self, clock: Clock, component: int, number: int) -> Clock:
        """With the knowledge that so many phases of a barrier are complete."""
        return joined(clock, self.both(component, number), self.guards)

    def wake(self, warp: Warp) -> None:
        warp.blocked = None
        self.ready.append(warp)

    def completed(self, agent: int, of: Counted) -> int:
        """How many phases have certainly completed by now, as far as the agent can tell."""
        clock, half = self.vc[agent], self.half
        begun = known(clock, half + of.component)
        if begun == of.done:
            return begun
        number = completed(begun, of.closings, lambda epoch: known(clock, half + epoch[0]) >= epoch[1])
        if number > begun:
            self.vc[agent] = joined(clock, field(half + of.component, number), self.guards)
        return number

    # ------------------------------------------------------------------------------------- what its steps call
    def tick(self) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise Undecided("a loop does not end")

    def loop(self, loop: Loop, count: Scalar) -> int:
        if count is UNKNOWN:
            raise Undecided("how often this loop runs depends on data that is not followed", loop.op)
        trips = max(int(count), 0)
        loop.trips.add(trips)
        self.fuel -= trips
        if self.fuel < 0 or (self.limit is not None and self.work > self.limit):
            raise TooLong(f"this loop runs {trips} times, more than can be followed", loop.op)
        return trips

    def trips(self, loop: Loop, count: int) -> None:
        loop.trips.add(count)

    def known(self, site: Site | Loop, value: Scalar) -> Scalar:
        if value is UNKNOWN:
            raise Undecided("this condition depends on data that is not followed", site.op)
        return value

    def choice(self, site: Site, value: Scalar) -> bool:
        decided = bool(self.known(site, value))
        site.objects["taken" if decided else "skipped"] = True
        return decided

    def forget(self) -> None:
        """The run did not come to its end: what it took has not been followed."""
        for decision, side, warp, taken in self.fresh:
            decision.forget(side, warp, taken)

    def uniform(self, loop: Loop, mask: int, condition: Scalar) -> bool:
        self.known(loop, condition)
        if isinstance(condition, np.ndarray):
            active = condition[lane_flags(mask)] != 0
            if active.any() != active.all():
                raise Undecided("lanes of a warp leave this loop at different times", loop.op)
            return bool(active.any())
        return bool(condition)

    def together(self, site: Site, mask: int, loop_mask: int) -> None:
        if mask != loop_mask:
            raise Undecided("lanes of a warp leave this loop at different times", site.op)

    def load(self, load: Load, warp: Warp, mask: int, at: tuple[Scalar, ...]) -> Scalar:
        """A scalar of global memory: any value, but the same for all who read it."""
        for x in at:
            if x is UNKNOWN:
                return UNKNOWN
        param = load.op.view.root
        assert isinstance(param, Param)
        if any(isinstance(x, np.ndarray) for x in at):
            columns = [np.broadcast_to(np.asarray(x), (WARP,)) for x in at]
            keys = [(param.name, *(int(c[lane]) for c in columns)) for lane in range(WARP)]
            warp.reads[load.op.result] = keys
            return np.array(
                [self.oracle.value(self, load, key, warp) if mask >> n & 1 else 0 for n, key in enumerate(keys)]
            )
        key = warp.reads[load.op.result] = (param.name, *map(int, at))
        return self.oracle.value(self, load, key, warp)

    def decide(self, decision: Decision, warp: Warp, mask: int, value: Scalar) -> None:
        """Take down which sides are taken by whom, and where the warp stood when lanes took only one of them."""
        if value is UNKNOWN:
            return
        sides = [(side, lanes) for side, lanes in zip((1, 0), split(mask, value), strict=True) if lanes]
        for side, lanes in sides:
            new = decision.take(side, warp.index, lanes)
            if new:
                self.fresh.append((decision, side, warp.index, new))
        for side, lanes in sides:
            if lanes & decision.missing(1 - side, warp.index):
                self._sample(decision, side, warp, lanes)

    def _sample(self, decision: Decision, side: int, warp: Warp, taking: int) -> None:
        key = (side, warp.index)
        samples, sampled = decision.samples.setdefault(key, []), decision.sampled.get(key, 0)
        again = len(samples) >= 2 and samples[-2].memory is self.oracle.values
        if taking & ~sampled or (len(samples) < MOST_SAMPLES and not again):
            decision.sampled[key] = sampled | taking
            place = (self.place[0], self.place[1], self.place[2])
            values = list(warp.values)
            samples.append(Sample(self.sizes, place, self.oracle.values, values, dict(warp.reads), taking))

    def number(self, value: Scalar, agent: int, what: str, op: Op) -> int:
        """The one value that the lanes of an agent have."""
        if value is UNKNOWN:
            raise Undecided(f"{what} depends on data that is not followed", op)
        if type(value) is int:
            return value
        if isinstance(value, np.ndarray):
            own = value[lane_flags(self.lanes[agent])]
            if (own != own[0]).any():
                raise Undecided(f"{what} differs between lanes that act together", op)
            return int(own[0])
        return int(value)

    def numbers(self, values: tuple[Scalar, ...], agent: int, what: str, op: Op) -> tuple[int, ...]:
        """The values that the lanes of an agent have."""
        if all(type(value) is int for value in values):
            return values
        return tuple([self.number(value, agent, what, op) for value in values])

    def note(
        self, warp: Warp | None, site: Site | None, text: str, before: Iterable[int] = (), about: Iterable[object] = ()
    ) -> int:
        """Record a moment; its index, or -1 when nothing is recorded."""
        if self.history is None:
            return -1
        return self.history.add(None if warp is None else warp.index, site, text, before, about)

    def check_slot(self, owner: Event | Buffer, slot: int, site: Site, warp: Warp) -> None:
        if not 0 <= slot < owner.slots:
            what = "event" if isinstance(owner, Event) else "buffer"
            raise Fault(
                "E-6010",
                f"slot {slot} of `{owner.name}` is used, which has {owner.slots}",
                site,
                labels=[(owner.span, f"the {what} is declared here")],
                hint=f"reduce the index modulo {owner.slots}, or give `{owner.name}` more slots",
                moments=[self.note(warp, site, f"slot {slot} of {owner.name}")],
                about={owner},
                warp=warp.index,
            )


class _Symbols(dict[str, Scalar]):
    """Values of symbols; one that was not chosen (a floating-point parameter) is not followed."""

    def __missing__(self, key: str) -> Scalar:
        return UNKNOWN


class Oracle:
    """Values of scalars in memory that data decide: chosen when they are first read, then fixed."""

    def __init__(self) -> None:
        self.values: dict[tuple[Any, ...], int] = {}

    def value(self, state: State, load: Load, key: tuple[Any, ...], warp: Warp, usual: int | None = None) -> int:
        """`usual`: what to try first, where that is known."""
        if key not in self.values:
            self.values[key] = self.choose(state, load, warp, usual)
        return self.values[key]

    def choose(self, state: State, load: Load, warp: Warp, usual: int | None) -> int:
        return 0


def initial_partition(threads: int) -> list[list[int]]:
    """One group of lanes a warp: those that exist."""
    return [[(1 << min(WARP, threads - first)) - 1 & FULL] for first in range(0, threads, WARP)]
