"""What a program says about order, before anything is decided about barriers: events with generations, futures, moves
and MMAs as the language defines them.

Differences from the machine below (docs/memory-model.md, "The source"): a wait names its generation, so that some of
its threads may lag behind others; an operation of several threads begins and ends with all of them; proxies and
register fences do not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from croq.ir.objects import Event, Kernel, View
from croq.ir.tile import EventTrigger
from croq.ir.types import ThreadSet
from croq.passes.analysis.generations import Remainders, generations
from croq.passes.analysis.threads import ThreadAnalysis
from croq.target.cuda import WARP
from croq.target.handshakes import Epoch
from croq.verify.barrier_faults import again, other_generation, ran_ahead, surplus
from croq.verify.barriers import Inside, Slot
from croq.verify.clocks import Clock, known
from croq.verify.explain import in_flight_at_end
from croq.verify.machine import Machine
from croq.verify.memory import Access
from croq.verify.sites import Site
from croq.verify.state import Warp
from croq.verify.tensor import Mma
from croq.verify.values import Scalar, Undecided


@dataclass(eq=False)
class Generations(Slot):
    """One whose event is not lowered: completions are told apart."""

    required: int = field(kw_only=True)  # threads that complete a generation
    pending: int = field(kw_only=True)
    clocks: list[Clock] = field(default_factory=list)  # of completions 1, 2, ..
    returned: dict[Site, list[Epoch]] = field(default_factory=dict)  # from waits for the last completion
    seen: set[tuple[Site, int]] = field(default_factory=set)  # waits, and completions from which somebody has returned


@dataclass(eq=False)
class Flight:
    """A move in flight: one execution of an asynchronous move."""

    site: Site
    number: int
    component: int
    access: Access | None = None
    clock: Clock | None = None  # what its issue knows, in time
    asleep: list[Warp] = field(default_factory=list)
    moment: int = -1


@dataclass(eq=False)
class Meeting:
    """Threads of one operation that wait for one another."""

    arrived: int = 0
    clock: Clock | None = None
    inside: Inside = field(default_factory=list)
    moments: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Room:
    """Which of the groups of an operation a warp belongs to, its size, and what the warp waits for, in words."""

    number: int
    threads: int
    missed: str


@dataclass(frozen=True)
class Handle:
    """A future as one warp holds it."""

    site: Site
    number: int
    mma: Mma | None = None


class TileMachine(Machine):
    proxies = False

    def start_barriers(self) -> None:
        super().start_barriers()
        self.generations = {
            event: [
                Generations(self.component(), event=event, slot=n, required=count, pending=count)
                for n, count in enumerate(counts)
            ]
            for event, counts in self._required().items()
        }
        self.flights: dict[tuple[Site, int], Flight] = {}
        self.components_of = {s: self.component() for s in self.program.sites if s.objects.get("flies")}
        self.meetings: dict[tuple[Site, str, int], Meeting] = {}
        self.rooms: dict[tuple[Site, int], Room] = self.program.facts.setdefault("rooms", {})

    def _required(self) -> dict[Event, list[int]]:
        facts = self.program.facts
        if "required" not in facts:
            facts["required"] = required(self.kernel)
        found: dict[Event, list[int]] = facts["required"]
        return found

    # ------------------------------------------------------------------------------------------------------ events
    def slot_of(
        self, warp: Warp, agent: int, site: Site, slot: Scalar, order: Scalar
    ) -> tuple[Generations, int | None]:
        """The slot, and the generation where an order names it."""
        event: Event = site.objects["event"]
        generation = None
        if site.objects["ordered"]:
            at = order if type(order) is int else self.number(order, agent, f"the order of `{event.name}`", site.op)
            generation, number = divmod(at, event.slots)
        else:
            number = slot if type(slot) is int else self.number(slot, agent, f"the slot of `{event.name}`", site.op)
        if not 0 <= number < event.slots:
            self.check_slot(event, number, site, warp)
        return self.generations[event][number], generation

    def event_wait(self, warp: Warp, mask: int, site: Site, slot: Scalar, order: Scalar) -> bool:
        agents = self.acting(warp, mask)
        targets = []
        for agent in agents:
            state, generation = self.slot_of(warp, agent, site, slot, order)
            if generation is None:
                generation = warp.paths.get((agent, site.objects["path"], state), 0)
            target = generation + (0 if state.event.ready else 1)
            done = self.completed(agent, state)
            if target < done:  # an order may be given modulo two rounds
                target = done + (done - target) % 2
            if state.done < target:
                state.asleep.append(warp)
                warp.blocked = (site, f"completion {target} of {state.name}")
                return True
            targets.append((agent, state, target))
        for agent, state, target in targets:
            moment = -1
            if self.history is not None:
                ready = " (starts ready)" if target == 0 else ""
                moment = self.note(warp, site, f"wait {state.name} #{target}{ready}", (state.moment,), {state.event})
            if target:
                self.join(agent, state.clocks[target - 1])
            if 0 < target < state.done and (site, target) not in state.seen:
                raise ran_ahead(state, target, site, warp, moment)
            state.seen.add((site, target))
            if target == state.done:
                state.returned.setdefault(site, []).append((agent, self.times[agent]))
            path = (agent, site.objects["path"], state)
            warp.paths[path] = warp.paths.get(path, 0) + 1
        return False

    def event_trigger(self, warp: Warp, mask: int, site: Site, slot: Scalar, order: Scalar) -> None:
        for agent in self.acting(warp, mask):
            state, generation = self.slot_of(warp, agent, site, slot, order)
            moment = -1
            if self.history is not None:
                text = f"trigger {state.name} #{state.done + 1}"
                moment = self.note(warp, site, text, (state.moment,), {state.event})
            self._current(warp, agent, site, state, generation, moment)
            lanes = self.threads[agent]
            if lanes > state.pending:
                raise surplus(state, site, warp, moment)
            self.release(agent, state)
            state.pending -= lanes
            state.arrivals.append((warp.index, site, moment))
            if not state.pending:
                self._complete(state)

    def event_after(self, warp: Warp, mask: int, site: Site, slot: Scalar, order: Scalar, *futures: Handle) -> None:
        """`trigger e after f, ..`: the loads complete the generation."""
        for agent in self.acting(warp, mask):
            state, generation = self.slot_of(warp, agent, site, slot, order)
            text = f"trigger {state.name} #{state.done + 1} after loads"
            moment = self.note(warp, site, text, (state.moment,), {state.event})
            self._current(warp, agent, site, state, generation, moment)
            state.arrivals.append((warp.index, site, moment))
            clock = self.issued(agent)
            for handle in futures:
                flight = self.flights[handle.site, handle.number]
                clock = self.completing(clock, flight.component, flight.number)
                if flight.access is not None:
                    flight.access.until = f"until completion {state.done + 1} of {state.name}"
            self.step(agent)
            state.arrived, state.arrivers = clock, None
            self._complete(state)

    def _current(
        self, warp: Warp, agent: int, site: Site, state: Generations, generation: int | None, moment: int
    ) -> None:
        """B1, and the order that the program gives."""
        if self.completed(agent, state) < state.done and state.event in self.waited:
            raise again(state, site, warp, moment)
        if generation is not None and (generation - state.done) % 2:
            site.objects.setdefault("remark", other_generation(state, generation, site))

    def _complete(self, state: Generations) -> None:
        self._waiters_are_near(state)
        state.clocks.append(self.close(state))
        state.pending = state.required
        self.completes(state, state.arrivals[-1][1])

    def _waiters_are_near(self, state: Generations) -> None:
        """B2 of the source: of those who wait for the last completion at one place, somebody has returned from it."""
        clock = state.arrived
        assert clock is not None
        for site, returned in state.returned.items():
            if state.done and not any(known(clock, self.half + who) >= when for who, when in returned):
                raise ran_ahead(state, state.done, site, self.owner[returned[0][0]], state.moment)
        state.returned = {}

    # ----------------------------------------------------------------------------------------------------- meetings
    def meet(self, warp: Warp, mask: int, site: Site, door: str, groups: tuple[ThreadSet, ...]) -> None:
        """The threads of the warp's group wait for one another; the warp is `held` until all are there."""
        agents = self.acting(warp, mask)
        first = WARP * warp.index + (mask & -mask).bit_length() - 1
        room = self.rooms.get((site, first)) or self._room(site, first, groups)
        meeting = self.meetings.get((site, door, room.number))
        if meeting is None:
            meeting = self.meetings[site, door, room.number] = Meeting()
        meeting.clock = self.merged(meeting.clock, agents)
        for agent in agents:
            meeting.arrived += self.threads[agent]
            self.step(agent)
        meeting.inside.append((warp, agents))
        if self.history is not None:
            meeting.moments.append(self.history.last.get(warp.index, -1))
        warp.held = True
        warp.blocked = (site, room.missed)
        if meeting.arrived < room.threads:
            return
        del self.meetings[site, door, room.number]
        moment = self.note(None, site, "all threads of the operation are there", meeting.moments)
        self.let_go(meeting.inside, meeting.clock, moment)

    def _room(self, site: Site, first: int, groups: tuple[ThreadSet, ...]) -> Room:
        number = next((n for n, group in enumerate(groups) if first in group), None)
        if number is None:
            raise Undecided("a thread executes this that the analysis does not count", site.op)
        room = Room(number, len(groups[number]), f"the other threads of {groups[number]}")
        self.rooms[site, first] = room
        return room

    # ------------------------------------------------------------------------------------------------------- moves
    def launch(
        self, warp: Warp, mask: int, site: Site, leads: Scalar, slot: Scalar, starts: tuple[Scalar, ...]
    ) -> Handle:
        """An asynchronous move begins; the thread of the lane mask `leads` stands for all. Gives the future."""
        number = warp.counts[site] = warp.counts.get(site, 0) + 1
        flight = self.flights.get((site, number))
        if flight is None:
            flight = self.flights[site, number] = Flight(site, number, self.components_of[site])
        leading = mask & leads
        if leading:
            view: View = site.objects["view"]
            (agent,) = self.acting(warp, leading)
            tile = self.tile(view, slot, agent, site, warp)
            bits = self.box(view, starts, agent, site, warp)
            verb = "load" if site.objects["write"] else "store"
            flight.moment = self.note(warp, site, f"{verb} {tile.name}", (), {tile.buffer})
            ends = [(flight.component, number)]
            access = Access(site, warp, agent, bits, site.objects["write"], True, ends, flight.moment)
            access.until = "until its future is waited for"
            self.touch(tile, access, (agent,))
            flight.access = access
            flight.clock = self.completing(self.issued(agent), flight.component, number)
            self.step(agent)
            sleepers, flight.asleep = flight.asleep, []
            for sleeper in sleepers:
                self.wake(sleeper)
        return Handle(site, number)

    def land_future(self, warp: Warp, mask: int, site: Site, handle: Handle) -> bool:
        """`wait f` of a move; whether the warp must wait until it has been issued."""
        flight = self.flights[handle.site, handle.number]
        if flight.clock is None:
            flight.asleep.append(warp)
            warp.blocked = (site, "a move that has not been issued")
            return True
        self.note(warp, site, "wait for the move", (flight.moment,))
        for agent in self.acting(warp, mask):
            self.join(agent, flight.clock)
        return False

    # -------------------------------------------------------------------------------------------------------- MMAs
    def mma(
        self,
        warp: Warp,
        mask: int,
        site: Site,
        acc_slot: Scalar,
        a: tuple[Scalar, tuple[Scalar, ...]],
        b: tuple[Scalar, tuple[Scalar, ...]],
    ) -> Handle:
        """`a`, `b`: slot and place; a tile has no descriptors yet."""
        self.wgmma_fence(warp, mask, site)
        self.wgmma_issue(warp, mask, site, acc_slot, (*a, (), 0), (*b, (), 0))
        issued = warp.mmas.open[-1]
        self.wgmma_commit(warp, mask, site)
        return Handle(site, 0, issued)

    def mma_wait(self, warp: Warp, mask: int, site: Site, handle: Handle) -> None:
        """That MMA and all older ones are complete."""
        self.note(warp, site, "wait for the MMA")
        younger = next((n for n, group in enumerate(reversed(warp.mmas.groups)) if handle.mma in group), None)
        if younger is not None:
            self.complete(warp, mask, younger)

    def check_ends(self) -> None:
        super().check_ends()
        for flight in self.flights.values():
            access = flight.access
            if access is not None and not any(known(clock, flight.component) >= flight.number for clock in self.vc):
                raise in_flight_at_end(self, flight.site, access.warp, flight.moment, "wait for it")


def required(kernel: Kernel) -> dict[Event, list[int]]:
    """Threads that complete a generation of each slot: those of the triggers that can act in it; 1 where loads do."""
    triggers: dict[Event, list[EventTrigger]] = {}
    found: dict[Event, list[int]] = {event: [1] * event.slots for event in kernel.events}
    for op in kernel.walk():
        if isinstance(op, EventTrigger) and not op.after:
            for ref in op.refs:
                triggers.setdefault(ref.event, []).append(op)
    remainders = Remainders(kernel, ThreadAnalysis(kernel))
    for event, ops in triggers.items():
        classes = generations(event, ops, remainders)
        for number, threads in classes.items():
            every = number is None or len(classes) < event.slots
            for slot in range(event.slots) if every else [(number or 0) % event.slots]:
                found[event][slot] = max(found[event][slot], len(threads))
    return found


def groups_of(threads: ThreadSet, keys: Any) -> tuple[ThreadSet, ...]:
    """The threads that move one tile: all, or (where `keys` differ) those of each warpgroup."""
    return (threads,) if len({keys[t] for t in threads}) <= 1 else threads.warpgroups()
