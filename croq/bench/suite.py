"""`croq bench`: kernels x sizes x peers in one run. Checks each implementation, then times them in interleaved rounds.

An implementation that fails its check is not timed; one that is missing or breaks is marked with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from croq.bench.check import CheckReport, check_attention
from croq.bench.inputs import AttentionInputs, make_inputs
from croq.bench.measure import REPEAT, ROUNDS, WARMUP, Timing, interleave, reason
from croq.bench.peers import PEERS, Peer
from croq.bench.schedule import build_schedule
from croq.bench.workload import Array, AttentionWorkload, Binding, Kernel, Role, bind, persistent_blocks
from croq.diagnostics import CroqError, LaunchError, make

Status = Literal["ok", "wrong", "missing", "failed"]
TILE = 128  # query rows of a task in the shipped persistent kernels


class Device(Protocol):
    """What the suite needs of a GPU. Everything runs on the default stream of the device's primary context."""

    def upload(self, array: Array) -> Any:
        """A device copy that speaks DLPack."""
        ...

    def download(self, array: Any) -> Array:
        """The host copy of a DLPack device array, with its element type (bf16 as ml_dtypes.bfloat16)."""
        ...

    def time(self, launch: Callable[[], Any], *, warmup: int, repeat: int) -> float:
        """Mean milliseconds of one `launch` over `repeat`, after `warmup` that are not counted, by device events."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Name, number of SMs, memory, driver version."""
        ...


@dataclass(frozen=True)
class Result:
    """One implementation at one size. `timing` is there exactly when `status` is "ok"."""

    name: str
    workload: AttentionWorkload
    status: Status
    reason: str = ""
    check: CheckReport | None = None
    timing: Timing | None = None

    def to_json(self) -> dict[str, Any]:
        w = self.workload
        return {
            "implementation": self.name,
            "workload": {"batch": w.batch, "heads": w.heads, "seq": w.seq, "dim": w.dim, "dtype": w.dtype}
            | {"causal": w.causal},
            "status": self.status,
            "reason": self.reason,
            "check": None if self.check is None else self.check.to_json(),
            "timing": None if self.timing is None else self.timing.to_json(w),
        }


@dataclass(frozen=True)
class Settings:
    """Executions before timing, executions a round, rounds."""

    warmup: int = WARMUP
    repeat: int = REPEAT
    rounds: int = ROUNDS


@dataclass(frozen=True)
class _Prepared:
    launch: Callable[[], Any]
    output: Callable[[], Any]  # the device array that holds the last result


def kernel_values(kernel: Kernel, binding: Binding, workload: AttentionWorkload, tile: int = TILE) -> dict[Role, Array]:
    """The host arrays that a kernel needs beside Q, K, V and O: its work list, or nothing."""
    if not binding.persistent:
        return {}
    tiles = -(-workload.seq // tile)
    schedule = build_schedule(workload.batch, workload.heads, tiles, persistent_blocks(kernel.plan))
    return {
        "tasks": schedule.tasks.astype(binding.list_dtype("tasks")),
        "offsets": schedule.offsets.astype(binding.list_dtype("offsets")),
    }


def run_suite(
    kernels: Mapping[str, Kernel],
    workloads: Iterable[AttentionWorkload],
    device: Device,
    *,
    peers: Sequence[Peer] = PEERS,
    settings: Settings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """Measure every kernel and peer at every size; one `Result` for each, in the order of the table."""
    results: list[Result] = []
    for workload in workloads:
        progress(workload.describe())
        results += _one_size(kernels, workload, device, peers, settings or Settings(), progress)
    return results


def _one_size(
    kernels: Mapping[str, Kernel],
    workload: AttentionWorkload,
    device: Device,
    peers: Sequence[Peer],
    settings: Settings,
    progress: Callable[[str], None],
) -> list[Result]:
    inputs = make_inputs(workload)
    arrays = {"q": device.upload(inputs.q), "k": device.upload(inputs.k), "v": device.upload(inputs.v)}
    makers: dict[str, Callable[[], _Prepared]] = {
        name: partial(_prepare_kernel, kernel, workload, inputs, arrays, device) for name, kernel in kernels.items()
    }
    results: dict[str, Result] = {}
    for peer in peers:
        why = peer.missing(workload)
        if why is None:
            makers[peer.name] = partial(_prepare_peer, peer, workload, arrays)
        else:
            results[peer.name] = Result(peer.name, workload, "missing", why)

    ready: dict[str, tuple[_Prepared, CheckReport]] = {}
    for name, maker in makers.items():
        outcome = _checked(name, maker, workload, inputs, device)
        if isinstance(outcome, Result):
            results[name] = outcome
            progress(f"{name}: {outcome.status}: {outcome.reason}")
        else:
            ready[name] = outcome

    timers = {name: _timer(device, prepared.launch, settings) for name, (prepared, _) in ready.items()}
    rounds = interleave(timers, settings.rounds)
    for name, (_, report) in ready.items():
        if name in rounds.timings:
            timing = rounds.timings[name]
            results[name] = Result(name, workload, "ok", check=report, timing=timing)
            progress(f"{name}: {timing.median:.4f} ms, {workload.tflops(timing.median):.1f} TFLOPS")
        else:
            why = rounds.failures.get(name, "no round was asked for")
            results[name] = Result(name, workload, "failed", why, check=report)
    return [results[name] for name in (*kernels, *(peer.name for peer in peers))]


def _timer(device: Device, launch: Callable[[], Any], settings: Settings) -> Callable[[], float]:
    return lambda: device.time(launch, warmup=settings.warmup, repeat=settings.repeat)


def _checked(
    name: str,
    maker: Callable[[], _Prepared],
    workload: AttentionWorkload,
    inputs: AttentionInputs,
    device: Device,
) -> tuple[_Prepared, CheckReport] | Result:
    """Execute once and check; the reason in a `Result` when that fails."""
    try:
        prepared = maker()
        prepared.launch()
        report = check_attention(inputs, device.download(prepared.output()))
    except (CroqError, RuntimeError) as error:
        return Result(name, workload, "failed", reason(error))
    if not report.ok:
        return Result(name, workload, "wrong", report.describe(), check=report)
    return prepared, report


def _prepare_kernel(
    kernel: Kernel, workload: AttentionWorkload, inputs: AttentionInputs, arrays: Mapping[str, Any], device: Device
) -> _Prepared:
    binding = bind(kernel.params)
    if binding.adapt(workload) != workload:
        message = f"the kernel computes in `{binding.dtype}`, and this run measures `{workload.dtype}`"
        raise LaunchError([make("E-4152", None, message)])
    output = device.upload(inputs.o)  # poisoned: what the kernel does not write fails the check
    values: dict[Role, Any] = {"q": arrays["q"], "k": arrays["k"], "v": arrays["v"], "o": output}
    values |= {role: device.upload(array) for role, array in kernel_values(kernel, binding, workload).items()}
    arguments = binding.arguments(values)
    return _Prepared(lambda: kernel(*arguments), lambda: output)


def _prepare_peer(peer: Peer, workload: AttentionWorkload, arrays: Mapping[str, Any]) -> _Prepared:
    return _Prepared(*peer.prepare(workload, arrays["q"], arrays["k"], arrays["v"]))
