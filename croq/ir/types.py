"""Element and scalar types, sets of threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import croq.numbers as numbers
from croq.target.cuda import WARP, WARPGROUP

BYTES, FLOATS, INTEGERS = numbers.BYTES, numbers.FLOATS, numbers.INTEGERS
FUTURE = "future"  # the type of a handle to an asynchronous operation


@dataclass(frozen=True)
class ThreadSet:
    """Threads of a CTA by linear index: sorted, disjoint, half-open ranges."""

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def all(count: int) -> ThreadSet:
        return ThreadSet(((0, count),)) if count else ThreadSet(())

    @staticmethod
    def of(threads: Iterable[int]) -> ThreadSet:
        ranges: list[list[int]] = []
        for t in sorted(set(threads)):
            if ranges and ranges[-1][1] == t:
                ranges[-1][1] = t + 1
            else:
                ranges.append([t, t + 1])
        return ThreadSet(tuple((a, b) for a, b in ranges))

    def __iter__(self) -> Iterator[int]:
        for a, b in self.ranges:
            yield from range(a, b)

    def __len__(self) -> int:
        return sum(b - a for a, b in self.ranges)

    def __contains__(self, thread: int) -> bool:
        return any(a <= thread < b for a, b in self.ranges)

    def __and__(self, other: ThreadSet) -> ThreadSet:
        return ThreadSet.of(t for t in self if t in other)

    def __or__(self, other: ThreadSet) -> ThreadSet:
        return ThreadSet.of([*self, *other])

    def __sub__(self, other: ThreadSet) -> ThreadSet:
        return ThreadSet.of(t for t in self if t not in other)

    @property
    def first(self) -> int:
        return self.ranges[0][0]

    def warps(self) -> tuple[int, ...]:
        """Warps that hold at least one of the threads."""
        return tuple(sorted({t // WARP for t in self}))

    def warpgroups(self) -> tuple[ThreadSet, ...]:
        """The threads of each warpgroup apart."""
        parts: dict[int, list[int]] = {}
        for t in self:
            parts.setdefault(t // WARPGROUP, []).append(t)
        return tuple(ThreadSet.of(part) for part in parts.values())

    def whole_warps(self) -> bool:
        return all(a % WARP == 0 and b % WARP == 0 for a, b in self.ranges)

    def whole_warpgroups(self) -> bool:
        return all(a % WARPGROUP == 0 and b % WARPGROUP == 0 for a, b in self.ranges)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{a}..{b}" for a, b in self.ranges) + "}"


def warps_in_words(indices: Iterable[int], to: str = " to ") -> str:
    """`warp 3`, `warps 0 to 3`, `warps 0, 2, 5`."""
    warps = sorted(indices)
    if len(warps) == 1:
        return f"warp {warps[0]}"
    if warps == list(range(warps[0], warps[-1] + 1)):
        return f"warps {warps[0]}{to}{warps[-1]}"
    return "warps " + ", ".join(map(str, warps))
