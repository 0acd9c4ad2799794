"""What barriers and commit groups count, and when a count is full. PTX ISA: "mbarrier", "bar, barrier", "wgmma groups".

The simulator gives these counts their time, the protocol verifier gives them clocks. What no program may do is asked
here and worded by who asks: `pending` before an arrival, `overdrawn` behind one. (croq/ptx counts for itself: it is the
witness of both; tests/target/test_handshakes.py holds them together.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from croq.target.cuda import WARP

Epoch = tuple[int, int]  # a component of a vector clock, and a value of it
Closing = list[Epoch] | None  # the arrivals that completed a phase; None where loads did
_T = TypeVar("_T")


class Mbarrier:
    """`phase` counts completed phases; its parity is what waits are about.

    A phase completes when no arrival is pending and the transaction count is zero. The transaction count may go below
    zero for a while: bytes may land before they are expected, as long as an arrival is still pending.
    """

    expected = 0  # arrivals of a phase; 0: not initialised
    pending = 0  # arrivals that the current phase still waits for
    tx = 0
    phase = 0

    def start(self, count: int) -> None:
        self.expected = self.pending = count

    def expect(self, size: int) -> None:
        self.tx += size

    def arrive(self, count: int) -> None:
        self.pending -= count

    def land(self, size: int) -> None:
        self.tx -= size

    @property
    def overdrawn(self) -> bool:
        """More bytes than were expected, and no arrival left that could expect them: the phase can never complete."""
        return not self.pending and self.tx < 0

    def advance(self) -> bool:
        """Complete the phase, if it is complete."""
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.expected
        return True

    def done(self, parity: int) -> bool:
        """mbarrier.try_wait.parity: the phase of that parity has completed."""
        return (self.phase & 1) != (parity & 1)


class NamedBarrier:
    """bar.sync / bar.arrive with one id. Arrivals count whole warps: 32 threads each."""

    count = 0  # threads of the generation under way; 0: nobody has arrived
    arrived = 0
    generation = 0

    def fits(self, count: int) -> bool:
        """Whether those who have arrived in this generation wait for as many."""
        return self.count in (0, count)

    def arrive(self, count: int) -> None:
        self.count = count
        self.arrived += WARP

    def advance(self) -> bool:
        if self.arrived < self.count:
            return False
        self.arrived = self.count = 0
        self.generation += 1
        return True


class CommitGroups(Generic[_T]):
    """Asynchronous operations of one kind that one warp or thread has started: groups complete in order."""

    def __init__(self) -> None:
        self.open: list[_T] = []  # not committed yet
        self.groups: deque[list[_T]] = deque()  # committed, and not waited for
        self.committed = 0

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []
        self.committed += 1

    def due(self, depth: int) -> Iterator[list[_T]]:
        """The groups that a wait for at most `depth` pending ones waits for, each forgotten behind its turn."""
        while len(self.groups) > depth:
            yield self.groups[0]
            self.groups.popleft()

    def __iter__(self) -> Iterator[_T]:
        """All that is in flight."""
        for group in self.groups:
            yield from group
        yield from self.open


def completed(known: int, closings: list[Closing], knows: Callable[[Epoch], bool]) -> int:
    """How many phases of a barrier have certainly completed by now, as far as somebody can tell who knows of `known`.

    Who knows of every arrival of a phase knows that it is complete, without having waited for it; where bytes of a load
    complete a phase, only a wait tells.
    """
    while known < len(closings):
        closing = closings[known]
        if closing is None or not all(map(knows, closing)):
            break
        known += 1
    return known


def awaited(known: int, parity: int) -> int:
    """The completion that a wait is for, as the waiter sees it: the last one that it knows of, or the next."""
    return known if known & 1 != parity & 1 else known + 1
