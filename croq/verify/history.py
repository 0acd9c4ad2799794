"""What happened in a run, as a partial order: kept only when a run is repeated to show a fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from croq.verify.sites import Site


@dataclass(eq=False)
class Moment:
    """One step of a warp, or (`warp` None) one that hardware takes: a phase completes."""

    index: int
    warp: int | None
    site: Site | None
    text: str
    before: tuple[int, ...]  # what certainly happened before it, beside the warp's own previous step
    about: frozenset[object]
    count: int = 1


class History:
    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.last: dict[int, int] = {}  # of each warp
        self.after: dict[int, int] = {}  # what a barrier has put before a warp's next step

    def add(
        self, warp: int | None, site: Site | None, text: str, before: Iterable[int] = (), about: Iterable[object] = ()
    ) -> int:
        index = len(self.moments)
        known = [i for i in before if i >= 0]
        if warp is not None:
            if warp in self.last:
                known.append(self.last[warp])
            if warp in self.after:
                known.append(self.after.pop(warp))
            self.last[warp] = index
        self.moments.append(Moment(index, warp, site, text, tuple(known), frozenset(about)))
        return index

    def arrive(self, warp: int, moment: int) -> None:
        """The warp's last step is over only behind `moment`."""
        self.after[warp] = moment

    def ancestors(self, ends: Iterable[int]) -> set[int]:
        """The moments that must have happened before the given ones, and these themselves."""
        found: set[int] = set()
        work = [i for i in ends if i >= 0]
        while work:
            index = work.pop()
            if index not in found:
                found.add(index)
                work.extend(self.moments[index].before)
        return found
