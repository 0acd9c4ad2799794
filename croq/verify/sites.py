"""Places in a program that runs speak of: operations of the protocol, loops, decisions, scalars that are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from croq.ir import scalar
from croq.ir.core import Op, Value
from croq.source import Span


@dataclass(eq=False)
class Site:
    """An operation of the protocol in the program, and what the machine needs to know of it."""

    op: Op
    number: int
    role: str
    kind: str  # what the operation does, in words: "load", "wait"
    objects: dict[str, Any] = field(default_factory=dict)

    @property
    def span(self) -> Span | None:
        return self.op.span

    @property
    def place(self) -> str:
        return f"{self.span.line}:{self.span.column}" if self.span is not None else "-"


@dataclass(eq=False)
class Loop:
    op: scalar.For | scalar.While
    number: int
    trips: set[int] = field(default_factory=set)  # seen over all runs


@dataclass(eq=False)
class Sample:
    """A run in which a decision fell, and the values of the warp at that moment."""

    symbols: dict[str, int]
    place: tuple[int, int, int]
    memory: dict[tuple[Any, ...], int]  # scalars of global memory that were read
    values: list[Any]  # by their number in `Program.slots`
    reads: dict[Value, Any]  # where each scalar was read last: one place, or one a lane
    lanes: int  # those that took the side


MOST_SAMPLES = 6


@dataclass(eq=False)
class Decision:
    """Something that has two sides: a branch, whether a loop is entered, a choice, a comparison, a place inside or not.

    Of each side (0: false, 1: true) and warp: `taken` are the lanes that some run led there, `samples` how.
    """

    op: Op
    condition: Value  # of a loop its count
    what: str  # "branch", "loop", "choice", "comparison", "place", "slot"
    warps: list[int]  # the lanes that exist
    taken: tuple[list[int], list[int]] = field(init=False)
    samples: dict[tuple[int, int], list[Sample]] = field(default_factory=dict)  # by side and warp
    sampled: dict[tuple[int, int], int] = field(default_factory=dict)  # the lanes of these samples
    done: list[bool] = field(init=False)  # all lanes of the warp have taken both sides

    def __post_init__(self) -> None:
        self.taken = ([0] * len(self.warps), [0] * len(self.warps))
        self.done = [False] * len(self.warps)

    def missing(self, side: int, warp: int) -> int:
        """Lanes that have come here and never taken the side."""
        return self.taken[1 - side][warp] & ~self.taken[side][warp]

    def take(self, side: int, warp: int, lanes: int) -> int:
        """Give those that are new."""
        new = lanes & ~self.taken[side][warp]
        self.taken[side][warp] |= new
        self.done[warp] = self.taken[0][warp] == self.taken[1][warp] == self.warps[warp]
        return new

    def forget(self, side: int, warp: int, lanes: int) -> None:
        self.taken[side][warp] &= ~lanes
        self.done[warp] = False


@dataclass(eq=False)
class Load:
    """A scalar that the kernel reads from global or shared memory."""

    op: scalar.LoadElement
    number: int
