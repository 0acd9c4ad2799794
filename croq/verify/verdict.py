"""What verification says: proved within stated bounds, a counterexample, or not decided and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from croq.diagnostics import Diagnostic, make
from croq.source import Span

Outcome = Literal["proved", "fault", "undecided"]


@dataclass(frozen=True)
class LoopCoverage:
    """The trip counts with which a loop was followed."""

    line: int
    trips: tuple[int, ...]
    constant: bool

    def __str__(self) -> str:
        return f"{f'line {self.line}' if self.line else 'a loop'}: {ranges(self.trips)}"


@dataclass(frozen=True)
class Coverage:
    """What the runs covered. `runs` differ in sizes, block and task lists; each stands for all its schedules."""

    runs: int = 0
    steps: int = 0
    loops: tuple[LoopCoverage, ...] = ()
    complete: bool = True  # False: the budget ended before all bindings in bounds had been followed


@dataclass(frozen=True)
class Verdict:
    """The answer for one kernel at one level of the IR. Iterating gives its diagnostics."""

    kernel: str
    level: str
    outcome: Outcome
    coverage: Coverage = field(default_factory=Coverage)
    found: tuple[Diagnostic, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()  # warnings about what is right all the same
    reason: str = ""  # of "undecided"
    span: Span | None = None  # of "undecided"
    timeline: tuple[str, ...] = ()  # of "fault"
    assumes: tuple[str, ...] = ()  # of "proved": what is taken for granted of this kernel
    bug: Exception | None = None  # of "undecided": the verifier itself has failed

    @property
    def proved(self) -> bool:
        return self.outcome == "proved"

    def diagnostics(self) -> list[Diagnostic]:
        """Remarks when proved; else one error with its counterexample, or the warning W-6000."""
        if self.outcome != "undecided":
            return [*self.found, *(self.remarks if self.proved else ())]
        hint = "the simulator still checks the schedules that it runs"
        message = f"the protocol of `{self.kernel}` is not decided: {self.reason}"
        return [make("W-6000", self.span, message, severity="warning", hint=hint)]

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.diagnostics())

    def __str__(self) -> str:
        if self.outcome == "undecided":
            return f"not decided: {self.reason}"
        if self.outcome == "fault":
            return f"{self.found[0].code}: {self.found[0].message}"
        loops = "; ".join(str(loop) for loop in self.coverage.loops if not loop.constant)
        bounds = f", trip counts {loops}" if loops else ""
        part = "" if self.coverage.complete else " (the budget ended before larger combinations)"
        return f"proved for all schedules{bounds}{part}"


def ranges(numbers: tuple[int, ...]) -> str:
    """`0..3, 7`."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(f"{a}..{b}" if b > a else str(a) for a, b in parts)
