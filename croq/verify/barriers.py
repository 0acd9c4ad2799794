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

from croq.ir.core import Op
from croq.ir.objects import Event
from croq.verify.faults import Fault, listed
from croq.verify.program import Site
from croq.verify.state import Clock, Epoch, State, Warp
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
    reader: Site | None = None

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

    @property
    def name(self) -> str:
        return f"`{self.event.name}`" if self.event is not None else f"barrier {self.number}"


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
            raise self._unborn(bar, site, warp)
        return bar

    # -------------------------------------------------------------------------------------------------- mbarriers
    def init(self, warp: Warp, mask: int, site: Site) -> None:
        for agent in self.acting(warp, mask):
            for bar in self.bars[site.objects["event"]]:
                if bar.born is not None or self.lanes[agent].bit_count() > 1:
                    raise self._born_twice(bar, site, warp)
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
        for agent in self.acting(warp, mask):
            bar = self.bar(warp, agent, site, slot)
            lanes = self.lanes[agent].bit_count()
            text = f"expect {size} bytes on {bar.name}" if size else f"arrive {bar.name}"
            moment = self.note(warp, site, f"{text} #{bar.done + 1}", (bar.moment,), {bar.event})
            if self.vc[agent][self.half + bar.component] < bar.done and bar.event in self.waited:
                raise self._mixed(bar, site, warp, moment)
            if lanes > bar.pending:
                raise self._too_many(bar, site, warp, moment)
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
        if self.vc[agent][self.half + bar.component] < bar.done:
            raise self._late_bytes(bar, site, warp, moment)
        assert bar.born is not None
        fence = bar.born[1]
        if fence is None or self.vc[agent][fence[0]] <= fence[1]:
            raise self._unfenced_init(bar, site, warp, moment)
        issued = [0] * self.half + self.vc[agent][self.half :]
        bar.arrived = issued if bar.arrived is None else self.merged((bar.arrived, issued))
        bar.tx -= size
        bar.landed += size
        end = (bar.component, bar.done + 1)
        bar.last_load = (bar.done + 1, site, moment)
        bar.arrivals.append((warp.index, site, moment))
        return end

    def advance(self, bar: Bar, site: Site, warp: Warp) -> None:
        """Complete the phase if it is complete."""
        if bar.pending:
            return
        if bar.tx < 0:
            raise self.mismatch(bar, site, warp)
        if bar.tx > 0:
            return
        clock = bar.arrived
        assert clock is not None
        for completion, agent, time, waiter, moment in bar.waits:
            if completion == bar.done and clock[self.half + agent] < time:
                raise self._lapped(bar, waiter, agent, moment, site)
        bar.done += 1
        clock = list(clock)
        clock[bar.component] = clock[self.half + bar.component] = bar.done
        bar.last, bar.arrived = clock, None
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
            known = self.vc[agent][self.half + bar.component]
            target = known if known & 1 != sign & 1 else known + 1
            if bar.done < target:
                bar.asleep.append(warp)
                warp.blocked = (site, f"completion {target} of {bar.name}")
                return True
        for agent in self.acting(warp, mask):
            self._returned(warp, agent, site, self.bar(warp, agent, site, slot), parity)
        return False

    def _returned(self, warp: Warp, agent: int, site: Site, bar: Bar, parity: Scalar) -> None:
        known = self.vc[agent][self.half + bar.component]
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
            raise self._lapped(bar, site, agent, moment, None)
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
        barrier = self.named[number]
        barrier.event = site.objects.get("event")
        moment = self.note(
            warp, site, f"{what} {barrier.name.strip('`')}", (barrier.moment,), {barrier.event or number}
        )
        if mask != warp.base:
            raise self.partial(warp, site, f"{barrier.name} counts whole warps", moment)
        if warp.index in barrier.warps or any(
            self.vc[a][self.half + barrier.component] < barrier.done for a in self.acting(warp, mask)
        ):
            raise self._named_mixed(barrier, site, warp, moment)
        if barrier.count not in (0, count) or barrier.threads + 32 > count:
            raise self._named_count(barrier, site, warp, moment, count)
        barrier.count = count
        barrier.threads += 32
        clocks = [self.vc[a] for a in self.acting(warp, mask)]
        barrier.arrived = self.merged(clocks if barrier.arrived is None else [barrier.arrived, *clocks])
        for agent in self.acting(warp, mask):
            self.step(agent)
        barrier.warps[warp.index] = (site, moment)
        return barrier

    def _bar_advance(self, barrier: Named) -> None:
        if barrier.threads < barrier.count:
            return
        barrier.done += 1
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

    # ------------------------------------------------------------------------------------------------------ faults
    def partial(self, warp: Warp, site: Site, why: str, moment: int = -1) -> Fault:
        op: Op = site.op
        return Fault(
            "E-6011",
            f"a part of warp {warp.index} executes `{op.NAME}`, which takes the whole warp",
            site,
            notes=[why],
            hint="move it out of the code that only some lanes run",
            moments=[moment],
            warp=warp.index,
        )

    def _unborn(self, bar: Bar, site: Site, warp: Warp) -> Fault:
        return Fault(
            "E-6009",
            f"the barrier of `{bar.name}` may be used before it is initialised",
            site,
            labels=[(bar.event.span, "the event is declared here")],
            notes=["initialisation and a barrier of the CTA must come before every use. PTX ISA, mbarrier.init"],
            moments=[self.note(warp, site, f"use {bar.name}", (), {bar.event})],
            about={bar.event},
            warp=warp.index,
        )

    def _born_twice(self, bar: Bar, site: Site, warp: Warp) -> Fault:
        return Fault(
            "E-6005",
            f"the barrier of `{bar.name}` is initialised more than once",
            site,
            notes=["one thread initialises a barrier, once. PTX ISA, mbarrier.init"],
            about={bar.event},
            warp=warp.index,
        )

    def _unfenced_init(self, bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
        return Fault(
            "E-6004",
            f"the copy engine may see `{bar.name}` before it is initialised",
            site,
            notes=[
                "the initialisation needs `fence.mbarrier_init` and a barrier behind it. PTX ISA, fence.mbarrier_init"
            ],
            moments=[moment],
            about={bar.event},
            warp=warp.index,
        )

    def _mixed(self, bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
        return Fault(
            "E-6005",
            f"`{bar.event.name}` is triggered again before everybody is past its last generation",
            site,
            notes=[
                f"nothing makes this arrival of warp {warp.index} come after completion {bar.done} of {bar.name}, so it "
                f"may count as a second arrival of the same generation",
                f"a generation of `{bar.event.name}` has {bar.count} arrival{'s' if bar.count != 1 else ''}",
            ],
            hint=f"let it wait for something that follows completion {bar.done} of `{bar.event.name}`",
            moments=[moment, bar.moment],
            ending=f"may count for generation {bar.done} or {bar.done + 1} of {bar.name}",
            about={bar.event},
            warp=warp.index,
        )

    def _too_many(self, bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
        return Fault(
            "E-6005",
            f"a generation of `{bar.event.name}` gets more arrivals than the {bar.count} it has",
            site,
            moments=[moment],
            ending=f"{bar.pending} arrivals are left",
            about={bar.event},
            warp=warp.index,
        )

    def _late_bytes(self, bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
        return Fault(
            "E-6007",
            f"bytes of this load may count for generation {bar.done} of `{bar.event.name}`, which does not expect them",
            site,
            notes=[f"nothing makes the load come after completion {bar.done} of {bar.name}"],
            hint="announce the bytes of all loads of a generation with its arrival, and wait before the next one",
            moments=[moment, bar.moment],
            ending=f"lands in generation {bar.done} or {bar.done + 1} of {bar.name}",
            about={bar.event},
            warp=warp.index,
        )

    def mismatch(self, bar: Bar, site: Site, warp: Warp | None) -> Fault:
        moments = [m for *_, m in bar.arrivals]
        more = "more" if bar.landed > bar.expected else "fewer"
        return Fault(
            "E-6007",
            f"a generation of `{bar.event.name}` expects {bar.expected} bytes, and its loads bring {bar.landed}",
            site,
            labels=[(s.span, "part of this generation") for s in dict.fromkeys(s for _, s, _ in bar.arrivals)][:4],
            notes=[
                "with more bytes than announced the phase completes while a load is in flight"
                if more == "more"
                else "the phase never completes"
            ],
            hint="announce exactly the bytes of the loads that count on the barrier",
            moments=moments,
            ending=f"{bar.name} expects {bar.expected} bytes and gets {bar.landed}",
            about={bar.event},
            warp=warp.index if warp else None,
        )

    def _lapped(self, bar: Bar, waiter: Site, agent: int, moment: int, over: Site | None) -> Fault:
        """`over`: whose arrival completes the next phase; None when the waiter comes too late in this very run."""
        target = bar.done if over is not None else bar.done - 1
        ends = [m for *_, m in bar.arrivals] if over is not None else [bar.moment]
        who = self.who(agent)
        return Fault(
            "E-6006",
            f"{who} can miss a generation of `{bar.event.name}` and wait for ever",
            waiter,
            labels=[(over.span, "the next generation completes here without it")] if over is not None else [],
            notes=[
                f"completion {target + 1} of {bar.name} does not depend on this wait for completion {target}: a thread that "
                "comes here too late finds a parity that means another generation",
                "an mbarrier shows one bit of its phase. PTX ISA, mbarrier.test_wait, phaseParity",
            ],
            hint=f"let only threads wait for `{bar.event.name}` whose work the next trigger depends on, or keep the others "
            "in step with a barrier",
            moments=[*ends, *([moment] if over is None else [])],
            ending=f"{bar.name} #{target + 1} completes, and {who} may not have seen #{target}",
            about={bar.event},
            warp=self.owner[agent].index,
        )

    def _named_mixed(self, barrier: Named, site: Site, warp: Warp, moment: int) -> Fault:
        return Fault(
            "E-6005",
            f"warp {warp.index} may arrive twice in one generation of {barrier.name}",
            site,
            labels=[(barrier.warps[warp.index][0].span, "it has arrived here")] if warp.index in barrier.warps else [],
            notes=["a named barrier counts arrivals only, it does not tell generations apart. PTX ISA, barrier"],
            hint="let it wait for something that follows the last generation",
            moments=[moment, barrier.moment],
            ending=f"second arrival at {barrier.name}",
            about={barrier.event or barrier.number},
            warp=warp.index,
        )

    def _named_count(self, barrier: Named, site: Site, warp: Warp, moment: int, count: int) -> Fault:
        return Fault(
            "E-6005",
            f"{barrier.name} is used with {count} threads, and {barrier.threads} of {barrier.count or count} are there",
            site,
            labels=[(s.span, f"warp {w} arrived here") for w, (s, _) in list(barrier.warps.items())[:2]],
            moments=[moment, *(m for _, m in barrier.warps.values())],
            about={barrier.event or barrier.number},
            warp=warp.index,
        )

    def deadlock(self) -> Fault:
        """What every warp that is left waits for. Mismatched bytes and missing arrivals are the causes worth naming."""
        for bars in self.bars.values():
            for bar in bars:
                if bar.asleep and not bar.pending and bar.tx > 0:
                    return self.mismatch(bar, bar.arrivals[-1][1], None)
        stuck: dict[tuple[Site, str], list[Warp]] = {}
        for warp in self.warps:
            if not warp.done and warp.blocked is not None:
                stuck.setdefault(warp.blocked, []).append(warp)
        (site, text), *others = stuck
        first = [w.index for w in stuck[site, text]]
        notes = [f"{listed(first)} waits for {text}"]
        notes += [f"{listed([w.index for w in stuck[key]])} waits for {key[1]}" for key in others]
        ended = [w.index for w in self.warps if w.done]
        if ended:
            notes.append(f"{listed(ended)} {'has' if len(ended) == 1 else 'have'} ended")
        notes += list(self._missing())
        return Fault(
            "E-6008",
            f"deadlock: {listed([w.index for group in stuck.values() for w in group])} can never go on",
            site,
            labels=[
                (s.span, f"{listed([w.index for w in stuck[s, t]])} waits here") for s, t in others if s is not site
            ],
            notes=notes,
            hint="an event is waited for more often than it is triggered, or the handshakes wait for one another",
            moments=[self.history.last[w.index] for w in self.warps if self.history and w.index in self.history.last],
            ending="all that are left wait",
            about={s.objects.get("event") for s, _ in stuck} - {None},
        )

    def _missing(self) -> list[str]:
        found = []
        for bars in self.bars.values():
            for bar in bars:
                if bar.asleep:
                    there = sorted({w for w, *_ in bar.arrivals})
                    have = f"{listed(there)} arrived" if there else "nobody arrived"
                    found.append(f"{bar.name} lacks {bar.pending} of {bar.count} arrivals: {have} in this generation")
        return found
