"""`sim`: executes any kernel on the CPU, with random or given arguments, and says what came out."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from croq.binding import bind
from croq.cli import output
from croq.cli.arguments import fill_arguments, known_names, outputs_of, plan_arguments, view_of
from croq.cli.compiling import compile_session
from croq.cli.options import refused
from croq.cli.session import Session
from croq.cli.timelines import TimelineRequest, write_timelines
from croq.kernel import Kernel, explore, simulate
from croq.simulate import SimulationFault, spread_blocks

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SimRequest:
    """The options of `sim` that are not about arguments. `schedules`: how many, None for `schedule` alone."""

    schedule: str
    schedules: int | None
    races: bool
    jobs: int | None
    tiles: int | None
    seed: int
    timeline: TimelineRequest
    level: Literal["ir", "ptx"] = "ir"

    def __post_init__(self) -> None:
        if self.level == "ptx" and self.schedules is not None:
            raise refused("--schedules", "many schedules are of the level `ir`")
        if self.level == "ptx" and self.timeline.files:
            raise refused("--timeline", "timelines are of the level `ir`")


def simulate_and_show(
    session: Session,
    file: str,
    function: str | None,
    shapes: Sequence[str],
    given: Sequence[str],
    saves: Sequence[str],
    request: SimRequest,
) -> int:
    symbols = _numbers(shapes)
    texts, targets = _pairs(given, "--arg"), _pairs(saves, "--save")
    kernel = Kernel(compile_session(session, file), function)
    known_names([*targets], [param.name for param in kernel.params if param.shape is not None], "--save")
    planned = plan_arguments(kernel, symbols, texts)
    bound = bind(kernel.devices, [view_of(item) for item in planned])  # refuses before anything large is made
    arguments = fill_arguments(kernel, planned, request.seed)
    names = [param.name for param in kernel.params]
    grid = bound.grids[0]
    blocks = spread_blocks(grid, request.tiles) if request.tiles is not None else None
    described = _part(grid, blocks)
    written = outputs_of(kernel)
    by_name = dict(zip(names, arguments, strict=True))
    before = {name: by_name[name].copy() for name in names if name in written}
    shown = write_timelines(session, kernel, bound, by_name, request.timeline) if request.timeline.files else []
    started = time.perf_counter()
    if request.schedules is not None:
        _explore(session, kernel, arguments, blocks, described, request)
    said = io.StringIO()  # what `printf` prints is a part of the JSON, and no text between
    apart = contextlib.redirect_stdout(said) if session.console.json else contextlib.nullcontext()
    with apart, session.console.progress(f"simulating {described.split(':')[0]}") as progress:
        report = simulate(
            kernel, *arguments, schedule=request.schedule, blocks=blocks, progress=progress, races=request.races,
            level=request.level,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    printed = [said.getvalue()]
    for done in report if isinstance(report, list) else [report]:
        session.console.diagnostics(done.warnings)
        printed.append(getattr(done, "output", ""))
    results = {name: _describe(by_name[name], old) for name, old in before.items()}
    for name, target in targets.items():
        _save(Path(target), by_name[name])
        session.console.note(f"wrote {target}")
    _show(session, kernel, bound.symbols, described, request, seconds, results, shown, "".join(printed))
    return 0


def _explore(
    session: Session,
    kernel: Kernel,
    arguments: Sequence[Any],
    blocks: Sequence[tuple[int, int, int]] | None,
    described: str,
    request: SimRequest,
) -> None:
    """Many schedules. Raises SimulationFault for the first that goes wrong, with the option that shows it again."""
    count = request.schedules or 1
    with session.console.progress(f"simulating {described.split(':')[0]} under {count} schedules") as progress:
        found = explore(
            kernel, *arguments, schedules=count, blocks=blocks, progress=progress, races=request.races,
            jobs=request.jobs,
        )  # fmt: skip
    if not found.ok:
        note = f"found with schedule {len(found.schedules)} of {count}; the same command with `--schedule "
        note += f"{found.schedule}` in place of `--schedules {count}` shows it again"
        raise SimulationFault(found.diagnostics).with_notes(note)


def _part(grid: tuple[int, int, int], blocks: Sequence[tuple[int, int, int]] | None) -> str:
    total = grid[0] * grid[1] * grid[2]
    if blocks is None or len(blocks) == total:
        return f"all {total} blocks" if total > 1 else "the only block"
    more = f" and {len(blocks) - 8} more" if len(blocks) > 8 else ""
    return f"{len(blocks)} of {total} blocks: {'; '.join(map(str, blocks[:8]))}{more}"


def _save(path: Path, array: Array) -> None:
    """Write a .npy file at once; element types that the format cannot name are stored as unsigned integers."""
    stream = io.BytesIO()
    plain = array if array.dtype.isbuiltin == 1 else array.view(np.dtype(f"u{array.dtype.itemsize}"))
    np.save(stream, plain, allow_pickle=False)
    output.write(path, stream.getvalue())


def _describe(array: Array, before: Array) -> dict[str, Any]:
    """What became of an output: how much of it changed, and the range of what is finite."""
    raw = [np.ascontiguousarray(a).view(np.dtype(f"u{a.dtype.itemsize}")) for a in (array, before)]
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "changed": int((raw[0] != raw[1]).sum()),
        "not_finite": int(values.size - finite.size),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
    }


def _show(
    session: Session, kernel: Kernel, symbols: Mapping[str, int], described: str, request: SimRequest, seconds: float,
    results: Mapping[str, dict[str, Any]], timelines: Sequence[Mapping[str, Any]], printed: str,
) -> None:  # fmt: skip
    console = session.console
    if console.json:
        console.data(
            {"kernel": kernel.name, "symbols": dict(symbols), "part": described, "schedule": request.schedule}
            | ({"schedules": request.schedules} if request.schedules is not None else {})
            | ({"races": request.races} if request.level == "ir" else {"level": request.level})
            | {"seconds": round(seconds, 3), "outputs": dict(results)}
            | ({"timelines": list(timelines)} if timelines else {})
            | ({"printed": printed} if printed else {})
        )
        return
    if printed:
        console.result(printed)
    shown = ", ".join(f"{name}={value}" for name, value in symbols.items())
    console.result(f"{kernel.compilation.file.name} ({kernel.name}): {shown}")
    under = f"schedule {request.schedule}" if request.schedules is None else f"{request.schedules} schedules"
    looked = "no race was found" if request.races else "races were not looked for"
    if request.level == "ptx":
        looked = "PTX of the emitted CUDA"
    console.result(f"  simulated {described}, {under}, in {seconds:.1f} s; nothing went wrong, {looked}")
    for shown_part in timelines:
        busy = shown_part["tensor_cores_busy"]
        use = f", tensor cores busy {busy:.0%} of the {shown_part['cycles']:,} shown" if busy is not None else ""
        block, total = tuple(shown_part["block"]), shown_part["total"]
        console.result(f"  timeline of block {block}: {total:,} modelled cycles, no measure of a GPU{use}")
    for name, facts in results.items():
        size = int(np.prod(facts["shape"]))
        numbers = (
            "nothing finite"
            if facts["min"] is None
            else f"min {facts['min']:.6g}, max {facts['max']:.6g}, mean {facts['mean']:.6g}"
        )
        console.result(
            f"  {name}: {facts['changed']} of {size} elements changed, {facts['not_finite']} not finite, {numbers}"
        )


# ------------------------------------------------------------------------------------------------------- command line
def _pairs(values: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name or not text:
            raise refused(option, f"`{value}`: write NAME=VALUE")
        if name in pairs:
            raise refused(option, f"`{name}` is given twice")
        pairs[name] = text
    return pairs


def _numbers(values: Sequence[str]) -> dict[str, int]:
    numbers = {}
    for name, text in _pairs(values, "--shape").items():
        if not text.isdecimal() or int(text) < 1:
            raise refused("--shape", f"`{name}={text}`: a dimension is a positive whole number")
        numbers[name] = int(text)
    return numbers
