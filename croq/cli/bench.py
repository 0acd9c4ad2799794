"""`bench`: kernels x sizes x peers in one run, written to `results/<UTC time>/`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from croq.bench.environment import environment
from croq.bench.peers import PEERS
from croq.bench.report import write_results
from croq.bench.suite import Result, Settings, run_suite
from croq.bench.workload import AttentionWorkload, bind
from croq.cli.run import compile_for
from croq.cli.session import Session
from croq.kernel import Kernel
from croq.texts import shipped_kernels


@dataclass(frozen=True)
class BenchRequest:
    """The options of `bench`."""

    kernels: tuple[str, ...]
    sizes: tuple[int, ...]
    batch: int
    heads: int
    dim: int
    warmup: int
    repeat: int
    rounds: int
    out: Path
    peers: bool


def bench_and_show(session: Session, request: BenchRequest) -> int:
    """Measure and print; 4 when a check failed, 1 when something could not be executed."""
    from croq.bench.gpu import Gpu
    from croq.driver.device import require_gpu

    console, info = session.console, require_gpu()
    kernels = {_label(file): compile_for(session, file, None, info) for file in request.kernels or shipped_kernels()}
    workloads = [AttentionWorkload(request.batch, request.heads, seq, request.dim) for seq in request.sizes]
    for kernel in kernels.values():
        binding = bind(kernel.params)
        for workload in workloads:
            binding.adapt(workload)
    gpu = Gpu(info)
    settings = Settings(request.warmup, request.repeat, request.rounds)
    results = run_suite(
        kernels, workloads, gpu, peers=PEERS if request.peers else (), settings=settings, progress=console.note
    )
    made_with = environment(gpu.describe(), {name: _texts(kernel) for name, kernel in kernels.items()})
    folder = write_results(request.out, results, made_with, settings)
    _show(session, results, folder)
    return _status(results)


def _status(results: list[Result]) -> int:
    found = {result.status for result in results}
    return 4 if "wrong" in found else 1 if "failed" in found else 0


def _label(file: str) -> str:
    return Path(file).stem


def _texts(kernel: Kernel) -> dict[str, str]:
    return {"source": kernel.compilation.file.text, "cuda": kernel.cuda}


def _show(session: Session, results: list[Result], folder: Path) -> None:
    console = session.console
    if console.json:
        console.data({"folder": str(folder), "results": [result.to_json() for result in results]})
        return
    rows = []
    for result in results:
        timing = result.timing
        numbers = ("", "", "") if timing is None else (
            f"{timing.median:.4f}", f"{result.workload.tflops(timing.median):.1f}", f"{100 * timing.spread:.1f} %"
        )  # fmt: skip
        rows.append((result.name, str(result.workload.seq), result.status, *numbers, result.reason))
    console.table(("implementation", "seq", "status", "ms", "TFLOPS", "spread", "remark"), rows)
    console.result(f"written to {folder}")
