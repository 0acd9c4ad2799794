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

from croq.ir.objects import Event
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
from croq.verify.sites import Site
from croq.verify.state import Clock, Closing, Epoch, State, Warp
from croq.verify.values import Scalar


@dataclass(eq=False)
class Bar:
    """One slot of an event that is an mbarrier."""

    event: Event
    slot: int
    component: int
    count: int = 0  # 0: not initialised
    pending: int = 0
    tx: int = 0
    done: int = 0  # completed phases
    arrived: Clock | None = None  # what the arrivals of this phase know
    last: Clock | None = None  # what a waiter for the last completed phase learns
    waits: list[tuple[int, int, int, Site, int]] = field(default_factory=list)  # completion, agent, time, site, moment
    asleep: list[Warp] = field(default_factory=list)
    born: tuple[Epoch, Epoch | None] | None = None  # initialisation, and its fence
    arrivals: list[tuple[int, Site, int]] = field(default_factory=list)  # warp, site, moment; of this phase
    landed: int = 0  # bytes of this phase
    expected: int = 0
    last_load: tuple[int, Site, int] | None = None  # completion it counts on, site, moment
    moment: int = -1  # of the last completion
    arrivers: Closing = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.event.name}[{self.slot}]" if self.event.array or self.event.slots > 1 else self.event.name


@dataclass(eq=False)
class Named:
    """A named barrier; `threads` have arrived in this generation."""

    number: int
    component: int
    done: int = 0
    threads: int = 0
    count: int = 0
    arrived: Clock | None = None
    warps: dict[int, tuple[Site, int]] = field(default_factory=dict)
    inside: list[tuple[Warp, tuple[int, ...]]] = field(default_factory=list)
    event: Event | None = None
    moment: int = -1
    arrivers: list[Epoch] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)

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
                self.bars[event] = [Bar(event, slot, self.component()) for slot in range(event.slots)]
        used = {0, *(s.objects["barrier"] for s in self.program.sites if "barrier" in s.objects)}
        self.named = {n: Named(n, self.component()) for n in sorted(used)}
        self.waited = {s.objects["event"] for s in self.program.sites if s.kind == "wait"}

    def bar(self, warp: Warp, agent: int, site: Site, slot: Scalar) -> Bar:
        event: Event = site.objects["event"]
        number = self.number(slot, agent, f"the slot of `{event.name}`", site.op)
        self.check_slot(event, number, site, warp)
        bar = self.bars[event][number]
        if bar.born is None or self.vc[agent][bar.born[0][0]] < bar.born[0][1]:
            raise unborn(self, bar, site, warp)
        return bar

    # -------------------------------------------------------------------------------------------------- mbarriers
    def init(self, warp: Warp, mask: int, site: Site) -> None:
        """B4."""
        for agent in self.acting(warp, mask):
            for bar in self.bars[site.objects["event"]]:
                if bar.born is not None or self.lanes[agent].bit_count() > 1:
                    raise born_twice(bar, site, warp)
                bar.born = ((agent, self.vc[agent][agent]), None)
                bar.count = bar.pending = site.objects["count"]
        self.note(warp, site, f"init {site.objects['event'].name} ({site.objects['count']})")

    def init_fence(self, warp: Warp, mask: int, site: Site) -> None:
        for agent in self.acting(warp, mask):
            now = self.vc[agent][agent]
            for bars in self.bars.values():
                for bar in bars:
                    if bar.born is not None and bar.born[0][0] == agent:
                        bar.born = (bar.born[0], (agent, now))
            self.step(agent)

    def arrive(self, warp: Warp, mask: int, site: Site, slot: Scalar, size: int = 0) -> None:
        """B1."""
        for agent in self.acting(warp, mask):
            bar = self.bar(warp, agent, site, slot)
            lanes = self.lanes[agent].bit_count()
            text = f"expect {size} bytes on {bar.name}" if size else f"arrive {bar.name}"
            moment = self.note(warp, site, f"{text} #{bar.done + 1}", (bar.moment,), {bar.event})
            if self.completed(agent, bar.component, bar.closings) < bar.done and bar.event in self.waited:
                raise mixed(bar, site, warp, moment)
            if lanes > bar.pending:
                raise too_many(bar, site, warp, moment)
            if bar.arrivers is not None:
                bar.arrivers.append((agent, self.vc[agent][agent]))
            bar.arrived = self.vc[agent] if bar.arrived is None else self.merged((bar.arrived, self.vc[agent]))
            self.step(agent)
            bar.arrivals.append((warp.index, site, moment))
            bar.pending -= lanes
            bar.tx += size * lanes
            bar.expected += size * lanes
            self.advance(bar, site, warp)

    def land(self, warp: Warp, agent: int, site: Site, bar: Bar, size: int, moment: int) -> Epoch:
        """A load that counts on `bar` is issued. Its bytes land at once: every other moment is as good (confluence).

        Returns when its writes are certainly over.
        """
        if self.completed(agent, bar.component, bar.closings) < bar.done:
            raise late_bytes(bar, site, warp, moment)
        assert bar.born is not None
        fence = bar.born[1]
        if fence is None or self.vc[agent][fence[0]] <= fence[1]:
            raise unfenced_init(bar, site, warp, moment)
        issued = [0] * self.half + self.vc[agent][self.half :]
        bar.arrived = issued if bar.arrived is None else self.merged((bar.arrived, issued))
        bar.arrivers = None
        self.step(agent)
        bar.tx -= size
        bar.landed += size
        end = (bar.component, bar.done + 1)
        bar.last_load = (bar.done + 1, site, moment)
        bar.arrivals.append((warp.index, site, moment))
        return end

    def advance(self, bar: Bar, site: Site, warp: Warp) -> None:
        """B3: complete the phase if it is complete."""
        if bar.pending:
            return
        if bar.tx < 0:
            raise mismatch(bar, site, warp)
        if bar.tx > 0:
            return
        clock = bar.arrived
        assert clock is not None
        for completion, agent, time, waiter, moment in bar.waits:
            if completion == bar.done and clock[self.half + agent] < time:
                raise lapped(self, bar, waiter, agent, moment, site)
        bar.done += 1
        clock = list(clock)
        clock[bar.component] = clock[self.half + bar.component] = bar.done
        bar.last, bar.arrived = clock, None
        bar.closings.append(bar.arrivers)
        bar.arrivers = []
        bar.moment = self.note(None, site, f"{bar.name} #{bar.done} completes", [m for *_, m in bar.arrivals])
        bar.waits, bar.arrivals = [], []
        bar.pending, bar.tx, bar.landed, bar.expected = bar.count, 0, 0, 0
        sleepers, bar.asleep = bar.asleep, []
        for sleeper in sleepers:
            self.wake(sleeper)

    def wait(self, warp: Warp, mask: int, site: Site, slot: Scalar, parity: Scalar) -> bool:
        """Whether the warp must wait; it is woken and asks again."""
        for agent in self.acting(warp, mask):
            bar = self.bar(warp, agent, site, slot)
            sign = self.number(parity, agent, f"the parity of the wait for `{bar.event.name}`", site.op)
            known = self.completed(agent, bar.component, bar.closings)
            target = known if known & 1 != sign & 1 else known + 1
            if bar.done < target:
                bar.asleep.append(warp)
                warp.blocked = (site, f"completion {target} of {bar.name}")
                return True
        for agent in self.acting(warp, mask):
            self._returned(warp, agent, site, self.bar(warp, agent, site, slot), parity)
        return False

    def _returned(self, warp: Warp, agent: int, site: Site, bar: Bar, parity: Scalar) -> None:
        """B2."""
        known = self.completed(agent, bar.component, bar.closings)
        sign = self.number(parity, agent, "the parity", site.op)
        target = known if known & 1 != sign & 1 else known + 1
        moment = self.note(
            warp,
            site,
            f"wait {bar.name} #{target}{' (starts ready)' if target == 0 else ''}",
            (bar.moment,),
            {bar.event},
        )
        if bar.done > target:
            raise lapped(self, bar, site, agent, moment, None)
        if target > self.vc[agent][bar.component]:
            assert bar.last is not None
            self.join(agent, bar.last)
        bar.waits.append((target, agent, self.vc[agent][agent], site, moment))

    # ---------------------------------------------------------------------------------------------- named barriers
    def bar_sync(self, warp: Warp, mask: int, site: Site, number: int, count: int) -> None:
        """Arrive; the warp is `held` until all have."""
        barrier = self._bar_arrive(warp, mask, site, number, count, "sync")
        warp.held = True
        warp.blocked = (site, f"{barrier.name} ({barrier.threads} of {count} threads are there)")
        barrier.inside.append((warp, self.acting(warp, mask)))
        self._bar_advance(barrier)

    def bar_arrive(self, warp: Warp, mask: int, site: Site, number: int, count: int) -> None:
        barrier = self._bar_arrive(warp, mask, site, number, count, "arrive")
        self._bar_advance(barrier)

    def _bar_arrive(self, warp: Warp, mask: int, site: Site, number: int, count: int, what: str) -> Named:
        """B5."""
        barrier = self.named[number]
        barrier.event = site.objects.get("event")
        moment = self.note(warp, site, f"{what} {barrier.title}", (barrier.moment,), {barrier.event or number})
        if mask != warp.base:
            raise partial(warp, site, f"{barrier.name} counts whole warps", moment)
        if warp.index in barrier.warps or any(
            self.completed(a, barrier.component, barrier.closings) < barrier.done for a in self.acting(warp, mask)
        ):
            raise named_mixed(barrier, site, warp, moment)
        if barrier.count not in (0, count) or barrier.threads + 32 > count:
            raise named_count(barrier, site, warp, moment, count)
        barrier.count = count
        barrier.threads += 32
        clocks = [self.vc[a] for a in self.acting(warp, mask)]
        barrier.arrived = self.merged(clocks if barrier.arrived is None else [barrier.arrived, *clocks])
        for agent in self.acting(warp, mask):
            barrier.arrivers.append((agent, self.vc[agent][agent]))
            self.step(agent)
        barrier.warps[warp.index] = (site, moment)
        return barrier

    def _bar_advance(self, barrier: Named) -> None:
        if barrier.threads < barrier.count:
            return
        barrier.done += 1
        barrier.closings.append(barrier.arrivers)
        barrier.arrivers = []
        clock = barrier.arrived
        assert clock is not None
        clock = list(clock)
        clock[barrier.component] = clock[self.half + barrier.component] = barrier.done
        barrier.moment = self.note(None, None, f"{barrier.name} completes", [m for _, m in barrier.warps.values()])
        inside, barrier.inside = barrier.inside, []
        barrier.arrived, barrier.threads, barrier.count, barrier.warps = None, 0, 0, {}
        for warp, agents in inside:
            for agent in agents:
                self.join(agent, clock)
            warp.synced += 1
            warp.held = False
            if self.history is not None:
                self.history.arrive(warp.index, barrier.moment)
            self.wake(warp)

    def warp_sync(self, warp: Warp, mask: int) -> None:
        agents = self.acting(warp, mask)
        if len(agents) > 1:
            clock = self.merged([self.vc[a] for a in agents])
            for agent in agents:
                self.vc[agent] = clock
                self.step(agent)
        warp.synced += 1
