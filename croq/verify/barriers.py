"""mbarriers and named barriers: phases, what completes them, and the rules that keep phases apart.

Rules (docs/memory-model.md)
    B1  An arrival belongs to phase k only if the completion of phase k-1 certainly happened before it; else schedules
        disagree about its phase (E-6005). The same holds for the bytes of a load (E-6007).
    B2  A wait for the completion T must have returned before completion T+1 can happen: parity cannot tell T from T+2,
        and a waiter that comes too late waits for a phase that may never complete (E-6006).
    B3  Bytes expected and bytes landed of a phase are equal (E-6007).
    B4  A barrier is initialised once, and before everything else that touches it (E-6009).
    B5  Named barriers: whole warps, one count, one arrival a warp and generation, generations kept apart as in B1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from croq.ir.objects import Event, slot_name
from croq.target import handshakes
from croq.target.cuda import WARP
from croq.target.handshakes import Closing, Epoch
from croq.verify.barrier_faults import (
    born_twice,
    lapped,
    late_bytes,
    mismatch,
    mixed,
    named_count,
    named_mixed,
    partial,
    too_many,
    unborn,
    unfenced_init,
)
from croq.verify.clocks import Clock, joined, known
from croq.verify.sites import Site
from croq.verify.state import State, Warp
from croq.verify.values import Scalar

Inside = list[tuple[Warp, tuple[int, ...]]]  # warps that are held, and their agents


@dataclass(eq=False)
class Counted:
    """What has phases that complete, and who knows of them."""

    component: int
    arrived: Clock | None = None  # what the arrivals of this phase know
    arrivers: Closing = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)  # of completed phases
    done: int = 0  # completed phases
    moment: int = -1  # of the last completion


@dataclass(eq=False)
class Slot(Counted):
    """One slot of an event."""

    event: Event = field(kw_only=True)
    slot: int = field(kw_only=True)
    asleep: list[Warp] = field(default_factory=list)
    arrivals: list[tuple[int, Site, int]] = field(default_factory=list)  # warp, site, moment; of this phase

    @cached_property
    def name(self) -> str:
        return slot_name(self.event, self.slot)


@dataclass(eq=False)
class Bar(Slot):
    """One that is an mbarrier."""

    state: handshakes.Mbarrier = field(default_factory=handshakes.Mbarrier)
    last: Clock | None = None  # what a waiter for the last completed phase learns
    waits: list[tuple[int, int, int, Site, int]] = field(default_factory=list)  # completion, agent, time, site, moment
    born: tuple[Epoch, Epoch | None] | None = None  # initialisation, and its fence
    met: int = 0  # bits of the agents that know of it
    landed: int = 0  # bytes of this phase
    announced: int = 0
    last_load: tuple[int, Site, int] | None = None  # completion it counts on, site, moment


@dataclass(eq=False)
class Named(Counted):
    number: int = field(kw_only=True)
    state: handshakes.NamedBarrier = field(default_factory=handshakes.NamedBarrier)
    warps: dict[int, tuple[Site, int]] = field(default_factory=dict)
    inside: Inside = field(default_factory=list)
    event: Event | None = None

    @property
    def name(self) -> str:
        return f"`{self.event.name}`" if self.event is not None else self.title

    @property
    def title(self) -> str:
        if self.event is not None:
            return self.event.name
        return f"barrier {self.number}" if self.number else "the CTA's barrier"


class Barriers(State):
    bars: dict[Event, list[Bar]]
    named: dict[int, Named]
    waited: set[Event | None]

    def start_barriers(self) -> None:
        self.bars = {}
        for event in self.kernel.events:
            if event.lowering == "mbarrier":
                self.bars[event] = [Bar(self.component(), event=event, slot=n) for n in range(event.slots)]
        used = {0, *(s.objects["barrier"] for s in self.program.sites if "barrier" in s.objects)}
        self.named = {n: Named(self.component(), number=n) for n in sorted(used)}
        self.waited = {s.objects["event"] for s in self.program.sites if s.kind == "wait"}

    def bar(self, warp: Warp, agent: int, site: Site, slot: Scalar) -> Bar:
        event: Event = site.objects["event"]
        number = slot if type(slot) is int else self.number(slot, agent, f"the slot of `{event.name}`", site.op)
        if not 0 <= number < event.slots:
            self.check_slot(event, number, site, warp)
        bar = self.bars[event][number]
        if not bar.met >> agent & 1:
            if bar.born is None or known(self.vc[agent], bar.born[0][0]) < bar.born[0][1]:
                raise unborn(self, bar, site, warp)
            bar.met |= 1 << agent
        return bar

    # -------------------------------------------------------------------------------------------------- mbarriers
    def init(self, warp: Warp, mask: int, site: Site) -> None:
        """B4."""
        for agent in self.acting(warp, mask):
            for bar in self.bars[site.objects["event"]]:
                if bar.born is not None or self.lanes[agent].bit_count() > 1:
                    raise born_twice(bar, site, warp)
                bar.born = ((agent, self.times[agent]), None)
                bar.state.start(site.objects["count"])
        self.note(warp, site, f"init {site.objects['event'].name} ({site.objects['count']})")

    def init_fence(self, warp: Warp, mask: int, site: Site) -> None:
        for agent in self.acting(warp, mask):
            now = self.times[agent]
            for bars in self.bars.values():
                for bar in bars:
                    if bar.born is not None and bar.born[0][0] == agent:
                        bar.born = (bar.born[0], (agent, now))
            self.step(agent)

    def arrive(self, warp: Warp, mask: int, site: Site, slot: Scalar, size: int = 0) -> None:
        """B1."""
        for agent in self.acting(warp, mask):
            bar = self.bar(warp, agent, site, slot)
            lanes, moment = self.threads[agent], -1
            if self.history is not None:
                text = f"expect {size} bytes on {bar.name}" if size else f"arrive {bar.name}"
                moment = self.note(warp, site, f"{text} #{bar.done + 1}", (bar.moment,), {bar.event})
            if self.completed(agent, bar) < bar.done and bar.event in self.waited:
                raise mixed(bar, site, warp, moment)
            if lanes > bar.state.pending:
                raise too_many(bar, site, warp, moment)
            self.release(agent, bar)
            bar.arrivals.append((warp.index, site, moment))
            bar.state.expect(size * lanes)
            bar.state.arrive(lanes)
            bar.announced += size * lanes
            self.advance(bar, site, warp)

    def release(self, agent: int, counted: Counted) -> None:
        """What an arrival passes on."""
        if counted.arrivers is not None:
            counted.arrivers.append((agent, self.times[agent]))
        counted.arrived = self.merged(counted.arrived, (agent,))
        self.step(agent)

    def land(self, warp: Warp, agent: int, site: Site, bar: Bar, size: int, moment: int) -> Epoch:
        """A load that counts on `bar` is issued. Its bytes land at once: every other moment is as good (confluence).

        Returns when its writes are certainly over.
        """
        if self.completed(agent, bar) < bar.done:
            raise late_bytes(bar, site, warp, moment)
        assert bar.born is not None
        fence = bar.born[1]
        if fence is None or known(self.vc[agent], fence[0]) <= fence[1]:
            raise unfenced_init(bar, site, warp, moment)
        issued = self.issued(agent)
        bar.arrived = issued if bar.arrived is None else joined(bar.arrived, issued, self.guards)
        bar.arrivers = None
        self.step(agent)
        bar.state.land(size)
        bar.landed += size
        end = (bar.component, bar.done + 1)
        bar.last_load = (bar.done + 1, site, moment)
        bar.arrivals.append((warp.index, site, moment))
        return end

    def advance(self, bar: Bar, site: Site, warp: Warp) -> None:
        """B3: complete the phase if it is complete."""
        if bar.state.overdrawn:
            raise mismatch(bar, site, warp)
        if not bar.state.advance():
            return
        clock = bar.arrived
        assert clock is not None
        for completion, agent, time, waiter, moment in bar.waits:
            if completion == bar.done and known(clock, self.half + agent) < time:
                raise lapped(self, bar, waiter, agent, moment, site)
        bar.last = self.close(bar)
        bar.waits, bar.landed, bar.announced = [], 0, 0
        self.completes(bar, site)

    def close(self, counted: Counted) -> Clock:
        """The phase is over. Returns what those learn who wait for it."""
        assert counted.arrived is not None
        counted.closings.append(counted.arrivers)
        counted.done += 1
        clock = self.completing(counted.arrived, counted.component, counted.done)
        counted.arrived, counted.arrivers = None, []
        return clock

    def completes(self, at: Slot, site: Site) -> None:
        """Wake those who wait for the completion."""
        if self.history is not None:
            moments = [moment for *_, moment in at.arrivals]
            at.moment = self.note(None, site, f"{at.name} #{at.done} completes", moments)
        at.arrivals = []
        sleepers, at.asleep = at.asleep, []
        for sleeper in sleepers:
            self.wake(sleeper)

    def wait(self, warp: Warp, mask: int, site: Site, slot: Scalar, parity: Scalar) -> bool:
        """Whether the warp must wait; it is woken and asks again."""
        returning = []
        for agent in self.acting(warp, mask):
            bar = self.bar(warp, agent, site, slot)
            sign = parity
            if type(parity) is not int:
                sign = self.number(parity, agent, f"the parity of the wait for `{bar.event.name}`", site.op)
            target = handshakes.awaited(self.completed(agent, bar), sign)
            if bar.done < target:
                bar.asleep.append(warp)
                warp.blocked = (site, f"completion {target} of {bar.name}")
                return True
            returning.append((agent, bar, target))
        self.work += 1
        for agent, bar, target in returning:
            self._returned(warp, agent, site, bar, target)
        return False

    def _returned(self, warp: Warp, agent: int, site: Site, bar: Bar, target: int) -> None:
        """B2."""
        moment = -1
        if self.history is not None:
            ready = " (starts ready)" if target == 0 else ""
            moment = self.note(warp, site, f"wait {bar.name} #{target}{ready}", (bar.moment,), {bar.event})
        if bar.done > target:
            raise lapped(self, bar, site, agent, moment, None)
        if target > known(self.vc[agent], bar.component):
            assert bar.last is not None
            self.join(agent, bar.last)
        bar.waits.append((target, agent, self.times[agent], site, moment))

    # ---------------------------------------------------------------------------------------------- named barriers
    def bar_sync(self, warp: Warp, mask: int, site: Site, number: int, count: int) -> None:
        """Arrive; the warp is `held` until all have."""
        barrier = self._bar_arrive(warp, mask, site, number, count, "sync")
        warp.held = True
        warp.blocked = (site, f"{barrier.name} ({barrier.state.arrived} of {count} threads are there)")
        barrier.inside.append((warp, self.acting(warp, mask)))
        self._bar_advance(barrier)

    def bar_arrive(self, warp: Warp, mask: int, site: Site, number: int, count: int) -> None:
        barrier = self._bar_arrive(warp, mask, site, number, count, "arrive")
        self._bar_advance(barrier)

    def _bar_arrive(self, warp: Warp, mask: int, site: Site, number: int, count: int, what: str) -> Named:
        """B5."""
        barrier = self.named[number]
        barrier.event = site.objects.get("event")
        agents, moment = self.acting(warp, mask), -1
        self.work += 1  # it is dearer than other steps
        if self.history is not None:
            moment = self.note(warp, site, f"{what} {barrier.title}", (barrier.moment,), {barrier.event or number})
        if mask != warp.base:
            raise partial(warp, site, f"{barrier.name} counts whole warps", moment)
        if warp.index in barrier.warps or any(self.completed(agent, barrier) < barrier.done for agent in agents):
            raise named_mixed(barrier, site, warp, moment)
        if not barrier.state.fits(count) or barrier.state.arrived + WARP > count:
            raise named_count(barrier, site, warp, moment, count)
        barrier.state.arrive(count)
        for agent in agents:
            self.release(agent, barrier)
        barrier.warps[warp.index] = (site, moment)
        return barrier

    def _bar_advance(self, barrier: Named) -> None:
        if not barrier.state.advance():
            return
        clock = self.close(barrier)
        if self.history is not None:
            moments = [moment for _, moment in barrier.warps.values()]
            barrier.moment = self.note(None, None, f"{barrier.name} completes", moments)
        inside, barrier.inside = barrier.inside, []
        barrier.warps = {}
        self.let_go(inside, clock, barrier.moment)

    def let_go(self, inside: Inside, clock: Clock, moment: int) -> None:
        """All whom a warp has met go on, and know what each of them knew."""
        for warp, agents in inside:
            for agent in agents:
                self.join_met(agent, clock)
            warp.synced += 1
            warp.held = False
            if self.history is not None:
                self.history.arrive(warp.index, moment)
            self.wake(warp)

    def warp_sync(self, warp: Warp, mask: int) -> None:
        agents = self.acting(warp, mask)
        if len(agents) > 1:
            clock = self.merged(None, agents)
            for agent in agents:
                self.vc[agent] = clock
                self.step(agent)
        warp.synced += 1
