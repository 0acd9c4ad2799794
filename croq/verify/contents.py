"""What scalars in shared memory hold, where control depends on them.

By M1 the store that an element was last written by is the same in every schedule, so a value belongs to that store: the
one that it is known to have written, or else any value at all, but one for everybody who reads it. A store that data
decide about leaves either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any


@dataclass(frozen=True)
class Store:
    """One execution of an operation that writes."""

    site: int
    agent: int
    number: int
    place: str

    def __str__(self) -> str:
        return f"stored at {self.place}, time {self.number}"


@dataclass(eq=False, slots=True)
class Content:
    """Of the elements `bits`: `value`, or None where it is not known; `before`: what they held in front of it."""

    bits: int
    store: Store
    value: int | None
    before: Content | None

    def usual(self, chosen: Callable[[Store], int | None]) -> int | None:
        """What was there last that is known or has been chosen."""
        found: Content | None = self.before
        while found is not None:
            value = found.value if found.value is not None else chosen(found.store)
            if value is not None:
                return value
            found = found.before
        return None


@dataclass(eq=False)
class Contents:
    """Of one slot of a buffer: disjoint sets of elements."""

    parts: list[Content] = field(default_factory=list)

    def write(self, bits: int, store: Store) -> None:
        """Something that is not known yet."""
        new = self._new(bits, lambda old, b: Content(b, store, None, old.before if old.store == store else old))
        rest = reduce(lambda left, part: left & ~part.bits, new, bits)
        if rest:
            self.parts.append(Content(rest, store, None, None))

    def know(self, bits: int, value: int) -> None:
        """What has just been written there."""
        self._new(bits, lambda old, touched: Content(touched, old.store, value, None))

    def _new(self, bits: int, make: Callable[[Content, int], Content]) -> list[Content]:
        """In place of what the elements held so far; the rest stays."""
        new = [make(old, old.bits & bits) for old in self.parts if old.bits & bits]
        self.parts = [replace(old, bits=old.bits & ~bits) for old in self.parts if old.bits & ~bits] + new
        return new

    def at(self, element: int) -> Content:
        return next(part for part in self.parts if part.bits >> element & 1)


Key = tuple[Any, ...]  # a scalar of memory: the array's name, its place, and the store that wrote it
