"""Vector clocks over agents, barriers and pipelines.

An *agent* is a set of lanes of a warp that have done everything together so far. It splits when a part of it acts alone
and becomes one again where the lanes synchronise. A *component* of a clock counts the releases of one agent, the
completed phases of one barrier, or the groups of one pipeline (a warp's MMAs, a thread's bulk stores) that have been
waited for. `clock[c] >= n`: what carries the epoch (c, n) certainly happened before the agent's next step.

There are two clocks. `seen` is about memory: what may be relied on to be visible, carried by releases and acquires
alone. `past` is about time: what must have taken place, carried also from the issue of a load to the completion that
counts it. Data need the first, phases need the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from croq.target.handshakes import Epoch

Clock = list[int]


class Agent:
    __slots__ = ("component", "lanes", "past", "seen", "synced", "warp")

    def __init__(self, warp: int, lanes: int, component: int, seen: Clock, past: Clock, synced: int) -> None:
        self.warp = warp
        self.lanes = lanes
        self.component = component
        self.seen = seen
        self.past = past
        self.synced = synced  # the last synchronisation of its lanes: equal numbers, none in between

    @property
    def now(self) -> Epoch:
        return self.component, self.seen[self.component]

    def step(self, component: int | None = None) -> None:
        """What follows comes after what has been released so far."""
        own = self.component if component is None else component
        self.seen[own] += 1
        self.past[own] += 1

    def join(self, seen: Sequence[int], past: Sequence[int]) -> None:
        join(self.seen, seen)
        join(self.past, past)


class Clocks:
    """The agents of one CTA. `lanes[w]`: the lanes that warp w has."""

    def __init__(self, lanes: Sequence[int]) -> None:
        count = len(lanes)
        self._size = count
        self.agents = [[Agent(w, mask, w, [0] * count, [0] * count, w)] for w, mask in enumerate(lanes)]
        self._synchronisations = count
        self._retired: list[list[int]] = [[] for _ in lanes]
        for (agent,) in self.agents:
            agent.step()

    def __iter__(self) -> Iterator[Agent]:
        for group in self.agents:
            yield from group

    def component(self) -> int:
        """A new component, 0 in every clock."""
        self._size += 1
        for group in self.agents:
            for agent in group:
                agent.seen.append(0)
                agent.past.append(0)
        return self._size - 1

    # ------------------------------------------------------------------------------------------------------- lanes
    def acting(self, warp: int, lanes: int) -> list[Agent]:
        """The agents that together are these lanes of a warp."""
        group = self.agents[warp]
        if len(group) == 1 and group[0].lanes == lanes:
            return group
        for agent in list(group):
            common = agent.lanes & lanes
            if common and common != agent.lanes:
                self._split(agent, common)
        return [agent for agent in group if agent.lanes & lanes]

    def _split(self, agent: Agent, lanes: int) -> None:
        retired = self._retired[agent.warp]
        component = retired.pop() if retired else self.component()
        part = Agent(agent.warp, lanes, component, list(agent.seen), list(agent.past), agent.synced)
        agent.lanes &= ~lanes
        agent.step()
        part.step()
        self.agents[agent.warp].append(part)

    def converge(self, warp: int, lanes: int) -> Agent:
        """These lanes synchronise: they are one agent from here on."""
        first, *others = self.acting(warp, lanes)
        for other in others:
            first.join(other.seen, other.past)
            first.lanes |= other.lanes
            self._retired[warp].append(other.component)
            self.agents[warp].remove(other)
        self._synchronisations += 1
        first.synced = self._synchronisations
        return first

    def absorbed(self, agent: Agent) -> Sequence[int]:
        """Components of former agents that have become a part of this one, where it is the whole warp again: what it
        executes, their lanes execute."""
        return self._retired[agent.warp] if len(self.agents[agent.warp]) == 1 else ()


def join(clock: Clock, other: Sequence[int]) -> None:
    """Take in what `other` (which may be shorter) knows."""
    for i, value in enumerate(other):
        if value > clock[i]:
            clock[i] = value


def merged(clocks: Iterable[Clock]) -> Clock:
    """What all of them know together."""
    found: Clock = []
    for clock in clocks:
        if len(clock) > len(found):
            found.extend([0] * (len(clock) - len(found)))
        join(found, clock)
    return found


def knows(clock: Sequence[int], ends: Iterable[Epoch]) -> bool:
    """Whether all epochs are past."""
    size = len(clock)
    return all(component < size and clock[component] >= value for component, value in ends)
