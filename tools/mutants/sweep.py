"""Many mutants over a few processes, in an order and with results that do not depend on how many there are."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.mutants.baseline import baseline_of
from tools.mutants.check import examine
from tools.mutants.model import Kind, Mutant, Outcome

KINDS: tuple[Kind, ...] = ("source", "lowered")


@dataclass(frozen=True)
class Task:
    mutant: Mutant
    every: bool


def plan(kernels: Sequence[str], kinds: Sequence[Kind] = KINDS, sample: int | None = None) -> list[Mutant]:
    """The mutants of these kernels; of them `sample`, chosen by their ids, when that is given."""
    found = [m for name in kernels for kind in kinds for m in baseline_of(name).mutants(kind)]
    if sample is None or sample >= len(found):
        return found
    chosen = set(sorted((m.id for m in found), key=lambda i: hashlib.sha256(i.encode()).digest())[:sample])
    return [m for m in found if m.id in chosen]


def sweep(
    wanted: Sequence[Mutant],
    processes: int = 2,
    every: bool = False,
    progress: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """What became of each, in order."""
    found: list[Outcome] = []
    tasks = [Task(mutant, every) for mutant in wanted]
    if processes <= 1:
        for task in tasks:
            found.append(_examine(task))
            if progress is not None:
                progress(found[-1])
        return found
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for outcome in pool.imap(_examine, tasks, chunksize=4):
            found.append(outcome)
            if progress is not None:
                progress(outcome)
    return found


def _examine(task: Task) -> Outcome:
    mutant = task.mutant
    return examine(baseline_of(mutant.kernel), mutant.kind, mutant.number, task.every)
