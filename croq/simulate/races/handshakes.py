"""Barriers: what is released and acquired, and the rules that keep their phases apart.

The rules are those of the protocol verifier, for the phases of one run: barriers.B1, barriers.B2 and barriers.B4
(croq/verify/barriers.py, docs/memory-model.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from croq.ir.core import Op
from croq.simulate.barriers import Mbarrier, NamedBarrier
from croq.simulate.machine import Warp
from croq.simulate.races import reports
from croq.simulate.races.clocks import Agent, Clock, Clocks, knows, merged
from croq.simulate.races.guards import Guards
from croq.simulate.watch import Watcher
from croq.target.cuda import WARP
from croq.target.handshakes import Closing, Epoch, awaited, completed

Waiter = tuple[int, Agent, int, Op]  # the completion that is waited for, by whom, when it was over (0: not yet), where


@dataclass(eq=False)
class _Counter:
    """What the two kinds of barriers have in common."""

    component: int
    seen: Clock = field(default_factory=list)  # what the arrivals of this phase know
    past: Clock = field(default_factory=list)
    arrivers: Closing = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)

    def arrive(self, agent: Agent) -> None:
        if self.arrivers is not None:
            self.arrivers.append(agent.now)
        self.seen, self.past = merged((self.seen, agent.seen)), merged((self.past, agent.past))
        agent.step()

    def close(self, completion: int) -> tuple[Clock, Clock]:
        """The phase is over. Returns what those learn who wait for it."""
        for clock in (self.seen, self.past):
            clock += [0] * (self.component + 1 - len(clock))
            clock[self.component] = completion
        self.closings.append(self.arrivers)
        learnt = self.seen, self.past
        self.seen, self.past, self.arrivers = [], [], []
        return learnt

    def known(self, agent: Agent) -> int:
        """How many phases have certainly completed by now, as far as the agent can tell."""
        past, own = agent.past, self.component
        past[own] = completed(past[own], self.closings, lambda epoch: past[epoch[0]] >= epoch[1])
        return past[own]

    def target(self, agent: Agent, parity: int) -> int:
        return awaited(self.known(agent), parity)


@dataclass(eq=False)
class _Bar(_Counter):
    barrier: Mbarrier = field(kw_only=True)
    born: Epoch | None = None
    fenced: Epoch | None = None
    last: tuple[Clock, Clock] = ([], [])  # what a waiter for the last completion learns
    waits: list[Waiter] = field(default_factory=list)
    arrivals: list[tuple[Op, Warp]] = field(default_factory=list)


@dataclass(eq=False)
class _Named(_Counter):
    warps: dict[int, Op] = field(default_factory=dict)
    done: dict[int, tuple[Clock, Clock]] = field(default_factory=dict)  # what those learn who leave, by generation


class Handshakes(Watcher):
    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        threads = guards.kernel.threads
        self.clocks = Clocks([(1 << min(WARP, threads - first)) - 1 for first in range(0, threads, WARP)])
        self.fences: dict[int, list[int]] = {}  # by component: when it executed a proxy fence
        self._bars: dict[Mbarrier, _Bar] = {}
        self._named: dict[int, _Named] = {}

    def _bar(self, barrier: Mbarrier) -> _Bar:
        found = self._bars.get(barrier)
        if found is None:
            found = self._bars[barrier] = _Bar(self.clocks.component(), barrier=barrier)
        return found

    def barrier_of(self, component: int) -> Mbarrier:
        return next(bar.barrier for bar in self._bars.values() if bar.component == component)

    # ---------------------------------------------------------------------------------------------- initialisation
    def initialise(self, warp: Warp, op: Op, barrier: Mbarrier) -> None:
        (agent, *_) = self.clocks.acting(warp.index, warp.mask)
        self._bar(barrier).born = agent.now

    def initialised(self, warp: Warp, op: Op) -> None:
        for agent in self.clocks.acting(warp.index, warp.mask):
            for bar in self._bars.values():
                if bar.born is not None and bar.born[0] == agent.component:
                    bar.fenced = agent.now
            agent.step()

    def _check_born(self, bar: _Bar, clock: Clock, warp: Warp, op: Op) -> None:
        if bar.born is not None and not knows(clock, (bar.born,)):
            raise reports.unborn(bar.barrier, op, warp)

    # -------------------------------------------------------------------------------------------------- mbarriers
    def arrive(self, warp: Warp, op: Op, barrier: Mbarrier, lanes: int) -> None:
        bar = self._bar(barrier)
        for agent in self.clocks.acting(warp.index, lanes):
            self._check_born(bar, agent.seen, warp, op)
            if bar.known(agent) < barrier.phase and barrier.event in self.guards.waits:
                raise reports.may_count_twice(self.guards, barrier, op, warp)
            bar.arrive(agent)
        bar.arrivals.append((op, warp))

    def counted(self, warp: Warp, op: Op, barrier: Mbarrier, agent: Agent) -> Epoch:
        """A load is issued whose bytes count on the barrier. Returns when it is over."""
        bar = self._bar(barrier)
        self._check_born(bar, agent.seen, warp, op)
        if bar.born is not None and (bar.fenced is None or agent.seen[bar.fenced[0]] <= bar.fenced[1]):
            raise reports.unfenced_barrier(barrier, op)
        if bar.known(agent) < barrier.phase:
            raise reports.bytes_may_come_late(barrier, op, warp)
        bar.past, bar.arrivers = merged((bar.past, agent.past)), None
        agent.step()
        bar.arrivals.append((op, warp))
        return bar.component, barrier.phase + 1

    def complete(self, op: Op, barrier: Mbarrier) -> None:
        bar, done = self._bar(barrier), barrier.phase
        for target, agent, time, waiter in bar.waits:
            if target == done - 1 and not (time and knows(bar.past, ((agent.component, time),))):
                raise reports.may_be_missed(self.guards, barrier, waiter, agent, target, bar.arrivals)
        bar.last = bar.close(done)
        bar.waits, bar.arrivals = [w for w in bar.waits if w[0] >= done], []

    def wait(self, warp: Warp, op: Op, barrier: Mbarrier, parity: int, lanes: int) -> None:
        bar = self._bar(barrier)
        for agent in self.clocks.acting(warp.index, lanes):
            self._check_born(bar, agent.seen, warp, op)
            target = bar.target(agent, parity)
            if barrier.phase > target:
                raise reports.missed(self.guards, barrier, op, agent, target)
            bar.waits.append((target, agent, 0, op))

    def passed(self, warp: Warp, op: Op, barrier: Mbarrier, parity: int, lanes: int) -> None:
        bar = self._bar(barrier)
        for agent in self.clocks.acting(warp.index, lanes):
            target = bar.target(agent, parity)
            if target > agent.seen[bar.component]:
                agent.join(*bar.last)
            bar.waits = [w for w in bar.waits if w[1] is not agent or w[2]]
            bar.waits.append((target, agent, agent.now[1], op))

    # ---------------------------------------------------------------------------------------------- named barriers
    def join(self, warp: Warp, op: Op, barrier: NamedBarrier) -> None:
        named = self._named.get(barrier.id)
        if named is None:
            named = self._named[barrier.id] = _Named(self.clocks.component())
        agents = self.clocks.acting(warp.index, warp.mask)
        if warp.index in named.warps or any(named.known(agent) < barrier.generation for agent in agents):
            raise reports.may_join_twice(barrier, op, warp, named.warps.get(warp.index))
        for agent in agents:
            named.arrive(agent)
        named.warps[warp.index] = op

    def joined(self, op: Op, barrier: NamedBarrier) -> None:
        named = self._named[barrier.id]
        named.done[barrier.generation - 1] = named.close(barrier.generation)
        named.done.pop(barrier.generation - 4, None)
        named.warps = {}

    def leave(self, warp: Warp, op: Op, barrier: NamedBarrier, generation: int) -> None:
        agent = self.clocks.converge(warp.index, warp.mask)
        agent.join(*self._named[barrier.id].done[generation])

    # ------------------------------------------------------------------------------------------------------ others
    def converge(self, warp: Warp, op: Op) -> None:
        self.clocks.converge(warp.index, warp.mask)

    def fence(self, warp: Warp, op: Op) -> None:
        for agent in self.clocks.acting(warp.index, warp.mask):
            for component in (agent.component, *self.clocks.absorbed(agent)):
                self.fences.setdefault(component, []).append(agent.seen[component])
                agent.step(component)
