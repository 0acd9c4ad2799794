"""Many schedules of one simulation, in parallel processes, up to the first fault."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from croq.diagnostics import CroqError, Diagnostic, make
from croq.ir.objects import Kernel
from croq.simulate.aliases import copies
from croq.simulate.dtypes import Array
from croq.simulate.hostile import plans

MOST_JOBS = 2  # processes at once, where nobody asks for more
Result = tuple[str, tuple[Diagnostic, ...]]  # a digest of what was written, or what went wrong
Results = Generator[tuple[str, Result], None, None]
Simulate = Callable[[str, Mapping[str, Array]], object]  # runs a schedule on arrays, which it may write to


@dataclass(frozen=True)
class Exploration:
    """`schedules` were run, in this order; `schedule` is the first that went wrong, with its `diagnostics`."""

    schedules: tuple[str, ...]
    seconds: float
    schedule: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        return self.schedule is None


def choose_schedules(kernels: Sequence[Kernel], count: int) -> list[str]:
    """`count` schedules: eager, lazy, hostile plans (at most two thirds of the rest, spread evenly), random seeds."""
    known = max((len(plans(kernel)) for kernel in kernels), default=0)
    rest = max(count - 2, 0)
    hostile = min(known, -(-2 * rest // 3))
    numbers = dict.fromkeys(i * (known - 1) // max(hostile - 1, 1) for i in range(hostile))
    chosen = ["eager", "lazy", *(f"hostile:{number}" for number in numbers)][:count]
    return [*chosen, *(f"random:{seed}" for seed in range(count - len(chosen)))]


@dataclass(frozen=True)
class _Work:
    """What worker processes inherit."""

    simulate: Simulate
    arrays: Mapping[str, Array]
    written: frozenset[str]

    def __call__(self, schedule: str) -> Result:
        """Run one schedule on copies of what is written: a digest of the results, or what went wrong."""
        arrays = copies(self.arrays, self.written)
        try:
            self.simulate(schedule, arrays)
        except CroqError as fault:
            return "", fault.diagnostics
        return digest(arrays[name] for name in sorted(self.written)), ()


def digest(arrays: Iterable[Array]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).view(np.uint8).data)
    return found.hexdigest()


def explore(
    simulate: Simulate,
    arrays: Mapping[str, Array],
    written: frozenset[str],
    schedules: Sequence[str],
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Exploration:
    """Run `simulate(schedule, arrays)` for each schedule until one of them goes wrong.

    Each gets copies of the arrays named in `written`; afterwards those must be the same to the bit under every
    schedule. jobs: processes at once (two, or one on a machine with one core, when left out); 1 stays in this process.
    progress(done, total) is called after each. Of faults that are found at the same time the first schedule's is told.
    """
    start = time.perf_counter()
    work = _Work(simulate, arrays, written)
    first = ""
    done: list[str] = []
    results = _one_by_one(work, schedules) if _jobs(jobs) == 1 else _in_parallel(work, schedules, _jobs(jobs))
    for schedule, (found, diagnostics) in results:
        done.append(schedule)
        if progress is not None:
            progress(len(done), len(schedules))
        first = first or found
        if not diagnostics and found != first:
            diagnostics = (_differs(schedule, done[0]),)
        if diagnostics:
            results.close()
            return Exploration(tuple(done), time.perf_counter() - start, schedule, diagnostics)
    return Exploration(tuple(done), time.perf_counter() - start)


def _jobs(asked: int | None) -> int:
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1  # what is compiled cannot be sent to another process
    cores = os.cpu_count() or 1
    return min(asked, cores) if asked is not None else max(1, min(MOST_JOBS, cores))


def _differs(schedule: str, first: str) -> Diagnostic:
    return make(
        "E-5052",
        None,
        f"the results under schedule `{schedule}` are not those under `{first}`",
        notes=["they must be equal to the bit: sums are made in the same order under every schedule"],
        hint="something is read before it is written, or written twice; save the outputs of both and compare",
    )


def _one_by_one(work: _Work, schedules: Sequence[str]) -> Results:
    for schedule in schedules:
        yield schedule, work(schedule)


_inherited: _Work | None = None


def _worker(schedule: str) -> Result:
    assert _inherited is not None
    return _inherited(schedule)


def _in_parallel(work: _Work, schedules: Sequence[str], jobs: int) -> Results:
    """Results in the order of the schedules; little is begun before it is needed."""
    global _inherited
    _inherited = work
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"))
    try:
        ahead: dict[int, Future[Result]] = {}
        begun = 0
        for position, schedule in enumerate(schedules):
            while begun < len(schedules) and begun < position + 4 * jobs:
                ahead[begun] = pool.submit(_worker, schedules[begun])
                begun += 1
            yield schedule, ahead.pop(position).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _inherited = None
