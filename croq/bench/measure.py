"""Timing statistics, and the order in which contestants are timed.

Clocks and temperature drift during a run, so contestants are never timed one after the other to the end: each round
times each of them once, every second round in the opposite order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from croq.bench.workload import AttentionWorkload
from croq.diagnostics import CroqError

WARMUP, REPEAT, ROUNDS = 50, 200, 3


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one execution, one sample a round (each the mean over the round's executions)."""

    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples:
            raise ValueError("a timing needs at least one sample")

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def worst(self) -> float:
        return max(self.samples)

    @property
    def spread(self) -> float:
        """(worst - best) / median: how far the rounds lie apart."""
        return (self.worst - self.best) / self.median

    def to_json(self, workload: AttentionWorkload) -> dict[str, Any]:
        return {
            "samples_ms": list(self.samples),
            "median_ms": self.median,
            "min_ms": self.best,
            "max_ms": self.worst,
            "spread": self.spread,
            "tflops": workload.tflops(self.median),
        }


@dataclass(frozen=True)
class Rounds:
    """What interleaved rounds gave: a timing for each contestant that finished, the reason for each that did not."""

    timings: Mapping[str, Timing] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


def interleave(timers: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> Rounds:
    """Time every contestant once a round. A timer returns milliseconds; one that raises is left out from then on."""
    samples: dict[str, list[float]] = {name: [] for name in timers}
    failures: dict[str, str] = {}
    names = list(timers)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            if name in failures:
                continue
            try:
                samples[name].append(timers[name]())
            except (CroqError, RuntimeError) as error:
                failures[name] = reason(error)
    done = {name: Timing(tuple(times)) for name, times in samples.items() if times and name not in failures}
    return Rounds(done, failures)


def reason(error: BaseException) -> str:
    """One line that says why something failed."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
