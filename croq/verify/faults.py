"""What a run can find, before it is made into a diagnostic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from croq.source import Span

if TYPE_CHECKING:
    from croq.verify.sites import Site


@dataclass(eq=False)
class Fault(Exception):
    """A rule of the memory model that some schedule breaks.

    `site` is where it shows; `moments` are the moments of the history (indices) that must be in the counterexample, and
    `ending` is its last line.
    """

    code: str
    message: str
    site: Site | None
    labels: list[tuple[Span | None, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hint: str | None = None
    moments: list[int] = field(default_factory=list)
    ending: str = ""
    about: set[object] = field(default_factory=set)  # buffers and events, to choose what a timeline shows
    warp: int | None = None

    def __post_init__(self) -> None:
        super().__init__(self.message)


class Refine(Exception):
    """The lanes of a warp part where the partition of its lanes does not: split it by `mask` and run again."""

    def __init__(self, warp: int, mask: int) -> None:
        super().__init__(f"warp {warp}: {mask:08x}")
        self.warp = warp
        self.mask = mask
