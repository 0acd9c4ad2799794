"""`run`: one attention kernel, end to end: inputs, execution, check against the reference, time and throughput."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.bench.check import CheckReport, check_attention
from croq.bench.inputs import make_inputs
from croq.bench.measure import Timing, interleave
from croq.bench.partial import Part, check_part, choose_blocks
from croq.bench.schedule import Schedule, build_schedule, encode
from croq.bench.suite import TILE, kernel_values
from croq.bench.workload import AttentionWorkload, Binding, Role, bind, persistent_blocks
from croq.cli.compiling import compile_session
from croq.cli.session import Session
from croq.diagnostics import EnvironmentFault, make
from croq.kernel import Kernel, simulate
from croq.simulate import spread_blocks

if TYPE_CHECKING:
    from croq.driver.device import DeviceInfo

PERSISTENT = "PERSISTENT_CTAS"  # the macro by which a persistent kernel is told how many blocks stay on the chip
SIMULATED_SMS = 132  # of an H200, where there is no GPU to ask
DEFAULT_TILES = 8  # query tiles that the simulator executes: the first, the last, six between
TASKS_A_BLOCK = 2  # of a persistent kernel in the simulator, so that the hand-over between tasks is executed too


@dataclass(frozen=True)
class Request:
    """The options of `run`."""

    seq: int
    batch: int
    heads: int
    dim: int
    causal: bool
    warmup: int
    repeat: int
    rounds: int
    device: str
    tiles: int | None
    schedule: str
    seed: int
    kernel: str | None
    watchdog: float | None = None  # seconds
    races: bool = False  # looked for by the simulator


def run_and_show(session: Session, file: str, request: Request) -> int:
    """Execute `file` and print the report; WrongResult when the check fails."""
    device, why_not = _device(request.device)
    kernel = compile_for(session, file, request.kernel, device, request.watchdog)
    binding = bind(kernel.params)
    workload = AttentionWorkload(request.batch, request.heads, request.seq, request.dim, causal=request.causal)
    workload = binding.adapt(workload)
    if device is not None:
        return _on_gpu(session, kernel, binding, workload, request, device)
    return _in_simulator(session, kernel, binding, workload, request, why_not)


def query_tile(kernel: Kernel, binding: Binding) -> int:
    """Rows of a query tile: the T of a grid dimension `cdiv(SEQ, T)`, else that of the shipped persistent kernels."""
    sequence = _dims(binding)[1]
    for dim in kernel.plan[0]["grid"]:
        match = re.fullmatch(r"cdiv\((\w+), (\d+)\)", str(dim))
        if match is not None and match[1] == sequence:
            return int(match[2])
    return TILE


def _device(wanted: str) -> tuple[DeviceInfo | None, str]:
    """The GPU to use, or None and why there is none. Raises EnvironmentFault E-3202 when one was asked for."""
    if wanted == "sim":
        return None, "the simulator was asked for"
    from croq.driver.device import probe_gpu

    device, reason = probe_gpu()
    if device is None and wanted == "gpu":
        hint = "--device sim executes the kernel on the CPU"
        raise EnvironmentFault([make("E-3202", None, "no Hopper GPU was found", notes=[reason], hint=hint)])
    return device, reason


def compile_for(
    session: Session, file: str, function: str | None, device: DeviceInfo | None, watchdog: float | None = None
) -> Kernel:
    """Compile for a device; a persistent kernel is told how many blocks the device holds, unless `-D` says so.

    `watchdog`: seconds, for a build that reports waits that last longer; it may be of a kernel that the protocol
    verifier refuses. Raises CompileError E-4200.
    """
    defines: dict[str, Any] = {}
    text = session.load(file).text
    if re.search(rf"^\s*#\s*define\s+{PERSISTENT}\b", text, re.MULTILINE) and PERSISTENT not in session.defines:
        defines[PERSISTENT] = device.multiprocessors if device is not None else SIMULATED_SMS
    made = compile_session(session, file, verify=watchdog is None, **defines)
    return Kernel(made if watchdog is None else made.watched(watchdog), function)


# ------------------------------------------------------------------------------------------------------------ on a GPU
def _on_gpu(
    session: Session, kernel: Kernel, binding: Binding, workload: AttentionWorkload, request: Request, info: DeviceInfo
) -> int:
    from croq.bench.gpu import Gpu

    console, gpu = session.console, Gpu(info)
    with console.busy("making inputs"):
        inputs = make_inputs(workload, seed=request.seed)
    values: dict[Role, Any] = {"q": inputs.q, "k": inputs.k, "v": inputs.v, "o": inputs.o}
    on_device = {role: gpu.upload(array) for role, array in (values | kernel_values(kernel, binding, workload)).items()}
    arguments = binding.arguments(on_device)
    with console.busy("executing and checking"):
        kernel(*arguments)
        report = check_attention(inputs, gpu.download(on_device["o"]))
    console.diagnostics(kernel.warnings)
    timing: Timing | None = None
    if request.watchdog is not None:
        console.note(f"no wait lasted {request.watchdog:g} s; a build with a watchdog is not timed")
    elif report.ok:
        with console.busy("timing"):
            timer = {
                kernel.name: lambda: gpu.time(lambda: kernel(*arguments), warmup=request.warmup, repeat=request.repeat)
            }
            timing = interleave(timer, request.rounds).timings[kernel.name]
    place = f"{info.name}, {info.multiprocessors} multiprocessors"
    _show(session, kernel, workload, place, report, timing, None)
    report.require()
    return 0


# ---------------------------------------------------------------------------------------------------- in the simulator
@dataclass(frozen=True)
class Simulated:
    """What the simulator executed of a workload, in words too, and how long it took."""

    part: Part
    described: str
    schedule: str
    seconds: float


def _in_simulator(
    session: Session, kernel: Kernel, binding: Binding, workload: AttentionWorkload, request: Request, why_not: str
) -> int:
    console = session.console
    reason = why_not.split(";")[0]
    console.note(f"no GPU is used ({reason}): the simulator executes a part of the work on the CPU")
    if request.watchdog is not None:
        console.note("--watchdog is for a GPU: the simulator finds every hang of its schedule without it")
    tile = query_tile(kernel, binding)
    count = request.tiles or DEFAULT_TILES
    lists: dict[Role, np.ndarray[Any, Any]] = {}
    if binding.persistent:
        tasks, described = some_tasks(persistent_blocks(kernel.plan), workload, tile, count)
        part = choose_blocks(kernel.plan, binding, workload, None, tasks, tile)
        lists = {"tasks": tasks.tasks, "offsets": tasks.offsets}
        lists = {role: array.astype(binding.list_dtype(role)) for role, array in lists.items()}
    else:
        part = choose_blocks(kernel.plan, binding, workload, count, tile=tile)
        described = f"{len(part.blocks)} of {part.total} blocks: {_listed(map(str, part.blocks))}"
    with console.busy("making inputs"):
        inputs = make_inputs(workload, part.slabs, seed=request.seed)
    values: dict[Role, Any] = {"q": inputs.q, "k": inputs.k, "v": inputs.v, "o": inputs.o, **lists}
    started = time.perf_counter()
    arguments = binding.arguments(values)
    with console.progress(f"simulating {described.split(':')[0]}") as progress:
        result = simulate(
            kernel, *arguments, schedule=request.schedule, blocks=part.blocks, progress=progress, races=request.races
        )
    console.diagnostics(result.warnings)
    done = Simulated(part, described, request.schedule, time.perf_counter() - started)
    with console.busy("checking"):
        report = check_part(inputs, part)
    _show(session, kernel, workload, "simulator", report, None, done)
    report.require()
    return 0


def some_tasks(blocks: int, workload: AttentionWorkload, tile: int, count: int) -> tuple[Schedule, str]:
    """A work list of `count` tasks spread over those of the workload, and what it leaves out, in words.

    As few blocks as possible get `TASKS_A_BLOCK` tasks each; the others get none.
    """
    tiles = -(-workload.seq // tile)
    full = build_schedule(workload.batch, workload.heads, tiles, blocks)
    chosen = spread_blocks((tiles, workload.heads, workload.batch), count)
    each = max(TASKS_A_BLOCK, -(-len(chosen) // blocks))
    busy = -(-len(chosen) // each)
    words = np.asarray([encode(*task) for task in chosen], np.int32)
    offsets = np.minimum(np.arange(blocks + 1) * each, len(chosen)).astype(np.int32)
    names = (f"tile {t} of head {h}, batch {b}" for t, h, b in chosen)
    described = f"{len(chosen)} of {len(full.tasks)} tasks on {busy} of {blocks} persistent blocks: {_listed(names)}"
    return Schedule(words, offsets, (0,) * blocks), described


def _dims(binding: Binding) -> tuple[Any, ...]:
    """The dimensions of Q as its parameter declares them: batch, sequence, heads, dim."""
    shape = binding.params[binding.roles.index("q")].shape
    return tuple(shape or ())


def _listed(items: Iterable[str], most: int = 6) -> str:
    every = list(items)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return "; ".join(every[:most]) + more


# ---------------------------------------------------------------------------------------------------------- the report
def _show(
    session: Session,
    kernel: Kernel,
    workload: AttentionWorkload,
    place: str,
    report: CheckReport,
    timing: Timing | None,
    simulated: Simulated | None,
) -> None:
    console = session.console
    if console.json:
        w = workload
        sizes = {"batch": w.batch, "heads": w.heads, "seq": w.seq, "dim": w.dim, "dtype": w.dtype, "causal": w.causal}
        part = None
        if simulated is not None:
            blocks = [list(block) for block in simulated.part.blocks]
            part = {"blocks": blocks, "what": simulated.described, "seconds": round(simulated.seconds, 3)}
            part["schedule"] = simulated.schedule
        console.data(
            {
                "kernel": kernel.name,
                "file": kernel.compilation.file.name,
                "workload": sizes,
                "device": place,
                "check": report.to_json(),
                "timing": None if timing is None else timing.to_json(workload),
                "simulated": part,
            }
        )
        return
    console.result(f"{kernel.compilation.file.name} ({kernel.name}): {workload.describe()}")
    console.result(f"  device  {place}")
    if simulated is not None:
        console.result(f"  part    {simulated.described}")
    console.result(f"  check   {report.describe()}")
    if timing is not None:
        samples = ", ".join(f"{sample:.4f}" for sample in timing.samples)
        console.result(f"  time    {timing.median:.4f} ms (rounds: {samples})")
        console.result(f"  speed   {workload.tflops(timing.median):.1f} TFLOPS")
    if simulated is not None:
        console.result(
            f"  time    {simulated.seconds:.1f} s in the simulator (schedule {simulated.schedule}), no measure of a GPU"
        )
