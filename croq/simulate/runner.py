"""Runs a lowered kernel on arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from croq.diagnostics import CroqError, Diagnostic, make
from croq.ir.objects import Kernel, Param
from croq.simulate import (  # noqa: F401  importing them registers how operations are compiled
    hostile,
    ops_barrier,
    ops_call,
    ops_control,
    ops_copy,
    ops_map,
    ops_memory,
    ops_mma,
    ops_registers,
    ops_scalar,
)
from croq.simulate import schedule as schedules
from croq.simulate.aliases import places, shares
from croq.simulate.binding import Block, bind_symbols, check_blocks, check_scalars, grid_of
from croq.simulate.compiler import Compiler, Program, Recorder
from croq.simulate.dtypes import Array
from croq.simulate.faults import SimulationFault, argument_fault, fault
from croq.simulate.machine import Cta
from croq.simulate.memory import GlobalData
from croq.simulate.races import Races
from croq.simulate.races.areas import Memory
from croq.simulate.races.guards import Guards
from croq.simulate.watch import Watcher

HOSTILE = "hostile"
STEP_LIMIT = 20_000_000  # iterations of loops that one warp may make in one block


@dataclass(frozen=True, repr=False)
class Report:
    """What a simulation did. `blocks` of `grid` were run; `steps` are iterations of loops, over all warps."""

    kernel: str
    schedule: str
    grid: Block
    blocks: tuple[Block, ...]
    steps: int
    seconds: float
    warnings: tuple[Diagnostic, ...] = ()

    def __repr__(self) -> str:
        """One line for a person at a prompt; warnings, if any, below it."""
        what = f"{len(set(self.blocks)):,} of {self.total_blocks:,} blocks"
        line = f"<{self.kernel}: {what}, schedule {self.schedule}, {self.steps:,} steps in {self.seconds:.2f} s>"
        return "\n".join([line, *map(repr, self.warnings)])

    @property
    def total_blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def complete(self) -> bool:
        return len(set(self.blocks)) == self.total_blocks


def run(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float] | None = None,
    *,
    symbols: Mapping[str, int] | None = None,
    schedule: str = "eager",
    blocks: Sequence[Block] | None = None,
    progress: Callable[[int, int], None] | None = None,
    limit: int = STEP_LIMIT,
    races: bool = False,
    watch: Callable[[Block], Watcher] | None = None,
    recorder: Recorder | None = None,
) -> Report:
    """Execute a lowered kernel; what it writes is in `arrays` afterwards.

    arrays: a NumPy array for each data parameter, by name, of the parameter's element type (ml_dtypes for bf16 and
    8-bit floats) and of any strides. scalars: a value for each scalar parameter. symbols: values of symbolic
    dimensions; they are bound from the arrays' shapes when left out. schedule: `eager`, `lazy`, `random:SEED`,
    `hostile:K`, or `hostile` for all plans of the kernel one after the other. blocks: which blocks of the grid to run,
    one after the other; all when left out. progress(done, total) is called after each block, or plan. limit: loop
    iterations a warp may make in one block. races: report accesses that nothing orders (E-5040 and up). watch: makes
    another watcher of a block. recorder: is told what the warps do, of one block; see `timeline`.

    Raises LaunchError (E-5001 to E-5007) for arguments that do not fit, SimulationFault (E-5010 and up) for what goes
    wrong on the simulated machine.
    """
    if schedule == HOSTILE:
        again = partial(run, scalars=scalars, symbols=symbols, blocks=blocks, limit=limit, races=races, watch=watch)
        return _all_plans(kernel, arrays, again, progress)
    policy = schedules.parse(schedule)
    bound = {**bind_symbols(kernel, arrays), **(symbols or {})}
    check_scalars(kernel, scalars or {})
    grid = grid_of(kernel, {**bound, **_integers(scalars)})
    chosen = check_blocks(blocks, grid) if blocks is not None else _all_blocks(grid)
    data = {p: _data(p, arrays[p.name], bound) for p in kernel.params if p.shape is not None}
    memory = _memory(kernel, data, arrays)
    watch = Races(kernel, memory) if races and watch is None else watch
    start = time.perf_counter()
    steps = 0
    with np.errstate(all="ignore"):
        program = _guarded(
            lambda: Compiler(kernel, policy, data, {**bound, **(scalars or {})}, recorder).compile(), kernel, "", ""
        )
        named = f"`{policy.name}`" + (f" ({program.plan.what})" if program.plan is not None else "")
        for done, block in enumerate(chosen, start=1):
            cta = Cta(program, block, limit, watch(block) if watch is not None else None)
            _guarded(partial(_run, program, cta), kernel, named, block)
            steps += cta.steps
            if progress is not None:
                progress(done, len(chosen))
    for param, used in data.items():
        if used.array is not arrays[param.name]:
            arrays[param.name][...] = used.array
    return Report(kernel.name, policy.name, grid, tuple(chosen), steps, time.perf_counter() - start)


def _all_plans(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    again: Callable[..., Report],
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Every plan of `hostile`, each on what the arrays held at first; the last one's results stay."""
    written = [param.name for param in Guards(kernel).written if param.name in arrays]
    before = {name: arrays[name].copy() for name in written}
    count, reports = len(hostile.plans(kernel)), []
    for number in range(count):
        for name in written:
            arrays[name][...] = before[name]
        reports.append(again(kernel, arrays, schedule=f"{HOSTILE}:{number}"))
        if progress is not None:
            progress(number + 1, count)
    steps, seconds = sum(r.steps for r in reports), sum(r.seconds for r in reports)
    return replace(reports[-1], schedule=HOSTILE, steps=steps, seconds=seconds)


def _run(program: Program, cta: Cta) -> None:
    for warp in cta.warps:
        program.start(warp)
    schedules.run_cta(cta)
    if cta.watch is not None:
        cta.watch.end(cta)


def _guarded(act: Callable[[], Any], kernel: Kernel, schedule: str, block: Any) -> Any:
    """Add to a fault how to see it again; anything unforeseen is the simulator's own fault."""
    try:
        return act()
    except SimulationFault as found:
        if not schedule:
            raise
        raise found.with_notes(f"kernel `{kernel.name}`, block {block}, schedule {schedule} shows it again") from None
    except CroqError:
        raise
    except Exception as error:
        where = f", block {block}, schedule {schedule}" if schedule else ""
        raise fault(
            "E-5099",
            None,
            f"the simulator failed: {type(error).__name__}: {error}",
            notes=[f"kernel `{kernel.name}`{where}", "this is a fault of croq, not of the program"],
        ) from error


def _data(param: Param, array: Array, symbols: Mapping[str, int]) -> GlobalData:
    assert param.shape is not None
    return GlobalData(param, np.ascontiguousarray(array), tuple(dim.evaluate(symbols) for dim in param.shape))


def _memory(kernel: Kernel, data: Mapping[Param, GlobalData], arrays: Mapping[str, Array]) -> Memory:
    """Which parameters share memory. Raises LaunchError E-5008 where one is changed and one simulated on a copy."""
    found: Memory = places({param: arrays[param.name] for param in data})
    changed = Guards(kernel).written
    for param, (group, _) in found.items():
        if data[param].array is arrays[param.name] or not changed & set(group):
            continue
        for other in group:
            if other is not param and (param in changed or other in changed):
                _check_apart(param, other, arrays)
    return found


def _check_apart(param: Param, other: Param, arrays: Mapping[str, Array]) -> None:
    if not shares(arrays[param.name], arrays[other.name]):
        return
    message = f"`{param.name}` shares memory with `{other.name}` and is not contiguous"
    notes = ["the simulator executes on a copy of an array with gaps, which would not see the other's changes"]
    raise argument_fault([make("E-5008", param.span, message, notes=notes, hint="pass a contiguous copy")])


def _integers(scalars: Mapping[str, int | float] | None) -> dict[str, int]:
    return {name: int(value) for name, value in (scalars or {}).items() if isinstance(value, (int, np.integer))}


def _all_blocks(grid: Block) -> list[Block]:
    x, y, z = grid
    return [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
