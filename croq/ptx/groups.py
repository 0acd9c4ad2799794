"""Threads at one place of the program, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from croq.ptx.lanes import Lanes
from croq.ptx.syntax import Instruction


@dataclass(slots=True)
class Wait:
    """Why a group does not go on. `what`: "waits for ..". `finish` is called once when it goes on."""

    ready: Callable[[], bool]
    what: Callable[[], str]
    instruction: Instruction
    converging: bool = False  # the rest of a warp or a warpgroup is awaited
    finish: Callable[[Lanes], None] | None = None


@dataclass(slots=True, eq=False)
class Group:
    """`at`: the block that comes next. `calls`: the blocks of the calls that these threads are in, outermost first."""

    lanes: Lanes
    at: int
    calls: tuple[int, ...] = ()
    wait: Wait | None = None
    turn: int = 0  # grows when the group has used up a stretch

    @property
    def key(self) -> tuple[int, ...]:
        """Groups run in this order: who is behind in the program catches up with the others."""
        return (*self.calls, self.at)


@dataclass(slots=True)
class NamedBarrier:
    """One of the named barriers of a CTA. `generation` counts completions. PTX ISA, bar"""

    generation: int = 0
    arrived: int = 0  # threads, whole warps each
    expected: int | None = None  # None: all threads that live
    votes: list[bool] = field(default_factory=list)  # of bar.red, in this generation
    results: dict[int, list[bool]] = field(default_factory=dict)
