"""The programs of tests/programs on a GPU: cubins are built where there is none, and checked where there is one.

    python -m tools.device_programs --build DIR        compile every variant to DIR; needs NVRTC, no GPU
    python -m tools.device_programs --run DIR          launch them at all their sizes and compare with the references

`--tiles N` adds N random programs of each family of tests/random_tiles. What the PTX of a program gives when it is
executed on the CPU is recorded with it, unless `--no-ptx` is given: where no instruction is approximate and no tensor
core adds, the chip's results must be those in every bit, else within the program's tolerance.

Each result is one line of the table at the end. A kernel that hangs or faults costs its own line only: a worker process
runs the cases, and a new one goes on behind the case that ended the last. Exit status 4 when a line is not `ok`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs import harness
from tests.random_tiles.tile_cases import TileCase, tile_cases

PATIENCE = 60.0  # seconds without a line from a worker, after which its case counts as hung
REPEATS = 3  # launches a case; their outputs must be equal in every bit
INEXACT = re.compile(
    r"\b(wgmma\.mma_async|mma\.sync|[a-z0-9]+\.approx|div\.full)\b"
)  # of which the ISA states an error

Case = harness.Case | TileCase


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--build", type=Path, metavar="DIR")
    todo.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--tiles", type=int, default=0, metavar="N")
    parser.add_argument("--tiles-from", type=int, default=0, metavar="SEED")
    parser.add_argument("--no-ptx", action="store_true", help="record nothing of the PTX's execution")
    parser.add_argument("--work-from", type=int, help=argparse.SUPPRESS)  # makes this process the worker
    options = parser.parse_args()
    found: list[harness.Case | TileCase] = [*harness.cases(), *tile_cases(options.tiles_from, options.tiles)]
    cases = [case for case in found if options.only in case.id]
    if options.build is not None:
        return build(options.build, cases, ptx=not options.no_ptx)
    cases = [case for case in cases if isinstance(case, harness.Case) or _cubin(options.run, case).exists()]
    if options.work_from is not None:
        return work(options.run, cases, options.work_from)
    again = ["--only", options.only, "--tiles", str(options.tiles), "--tiles-from", str(options.tiles_from)]
    return supervise(options.run, cases, again)


# ---------------------------------------------------------------------------------------------------------- build
def build(folder: Path, cases: Sequence[Case], *, ptx: bool) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    failures = 0
    for case in cases:
        started = time.perf_counter()
        try:
            kernel = _compile(case)
            cubin = kernel.cubin
            recorded = _record(folder, case, kernel) if ptx else 0
        except Exception as error:  # one that does not compile must not keep the others from being built
            if isinstance(case, TileCase) and _is_rule(error):
                continue
            failures += 1
            print(f"FAIL  {case.id}\n{error}")
            continue
        _write(_cubin(folder, case), cubin)
        _write(folder / f"{case.id}.sha256", _digest(kernel.cuda).encode())
        notes = "".join(f"  {w.code}: {w.message}" for w in kernel.warnings)
        executed = f", {recorded} sizes executed as PTX" if ptx else ""
        print(f"built {case.id:30s} {time.perf_counter() - started:5.2f} s{executed}{notes}")
    return 1 if failures else 0


def _is_rule(error: Exception) -> bool:
    """Whether a program breaks a rule of the language; E-9 are croq's own faults."""
    return not any(d.code.startswith("E-9") for d in getattr(error, "diagnostics", ())) and hasattr(
        error, "diagnostics"
    )


def _cubin(folder: Path, case: Case) -> Path:
    return folder / f"{case.id}.cubin"


def _compile(case: Case) -> Any:
    import croq

    return croq.compile(case.source, defines=case.defines, kernel=case.kernel)


def _record(folder: Path, case: Case, kernel: Any) -> int:
    """What the PTX gives at each small size."""
    import croq

    for number, sizes in enumerate(case.sizes):
        run = case.run(sizes)
        arrays = run.fresh()
        croq.simulate(kernel, *_arguments(kernel, arrays, run.scalars), level="ptx")
        np.savez_compressed(
            folder / f"{case.id}.{number}.npz",
            exact=np.array(INEXACT.search(kernel.ptx) is None),
            **{name: np.atleast_1d(arrays[name]).view(np.uint8) for name in run.want},  # type: ignore[arg-type]
        )
    return len(case.sizes)


def _arguments(kernel: Any, arrays: Any, scalars: Any) -> list[Any]:
    return [arrays[p.name] if p.shape is not None else scalars[p.name] for p in kernel.params]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    draft.replace(path)


def _built(folder: Path, case: Case) -> Any:
    """The kernel with the cubin of DIR, when that was made of the same CUDA text; else with one that is made now."""
    from croq.driver.nvrtc import Compiled

    kernel = _compile(case)
    recorded = folder / f"{case.id}.sha256"
    if recorded.exists() and recorded.read_text() == _digest(kernel.cuda):
        kernel.compilation.__dict__["image"] = Compiled(_cubin(folder, case).read_bytes(), "")
    return kernel


# ------------------------------------------------------------------------------------------------------------ run
def work(folder: Path, cases: Sequence[Case], start: int) -> int:
    """One line of JSON before each case and one for each of its sizes; ends at the first fault of the device."""
    for number, case in enumerate(cases[start:], start):
        _say(case=number)
        try:
            kernel = _built(folder, case)
            for count, sizes in enumerate([*case.sizes, *case.large]):
                known = folder / f"{case.id}.{count}.npz"
                _say(case=number, sizes=str(dict(sizes)), faults=_launch(kernel, case, sizes, known))
        except Exception as error:
            _say(case=number, sizes="", faults=[f"{type(error).__name__}: {error}"])
            if not _usable():
                return 1
    return 0


def _usable() -> bool:
    """Whether the context still works after a fault; one of the device's ends it."""
    from croq.driver.device import synchronize

    try:
        synchronize()
    except Exception:
        return False
    return True


def _launch(kernel: Any, case: Case, sizes: Any, known: Path) -> list[str]:
    from croq.driver.device import synchronize
    from croq.driver.device_array import DeviceArray

    run = case.run(sizes)
    results: list[dict[str, Any]] = []
    for _ in range(REPEATS):
        device = {name: DeviceArray.from_numpy(array) for name, array in run.arrays.items()}
        kernel(*_arguments(kernel, device, run.scalars))
        synchronize()
        results.append({name: array.to_numpy() for name, array in device.items()})
    faults = run.faults(results[0])
    if known.exists():
        faults += _against_ptx(run, results[0], np.load(known))
    differing = [name for name in run.want if len({result[name].tobytes() for result in results}) > 1]
    return faults + [f"`{name}` differs from launch to launch" for name in differing]


def _against_ptx(run: harness.Run, got: dict[str, Any], recorded: Any) -> list[str]:
    """Where the chip's results are not those of the PTX as it was executed on the CPU."""
    executed = {name: recorded[name].view(got[name].dtype).reshape(got[name].shape) for name in run.want}
    if not recorded["exact"]:
        absolute, relative = run.tolerance
        twice = (2 * absolute, 2 * relative)  # each of the two may be off by the tolerance
        want = {name: value.astype(np.float64) for name, value in executed.items()}
        found = harness.Run(run.arrays, run.scalars, want, twice).faults(got)
        return [f"unlike its PTX: {fault}" for fault in found]
    differing = {name: int((got[name].view(np.uint8) != executed[name].view(np.uint8)).sum()) for name in run.want}
    return [f"`{name}` differs from its PTX in {count} bytes" for name, count in differing.items() if count]


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def supervise(folder: Path, cases: Sequence[Case], again: Sequence[str]) -> int:
    rows: list[tuple[str, str, list[str]]] = []
    position = 0
    while position < len(cases):
        current = position - 1
        for line in _lines_of_worker(folder, again, position):
            if line is None:
                rows.append((cases[max(current, position)].id, "", ["hung, or ended without a word"]))
                break
            current = line["case"]
            if "faults" in line:
                rows.append((cases[current].id, line["sizes"], line["faults"]))
        position = max(current, position) + 1
    print(_table(rows))
    return 4 if any(faults for _, _, faults in rows) else 0


def _lines_of_worker(folder: Path, again: Sequence[str], start: int) -> Iterator[dict[str, Any] | None]:
    """What the worker says; None when it says nothing for too long or dies without finishing a case."""
    command = [sys.executable, __file__, "--run", str(folder), *again, "--work-from", str(start)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            text = lines.get(timeout=PATIENCE)
        except queue.Empty:
            worker.kill()
            worker.wait()
            yield None
            return
        if text is None:
            if worker.wait() not in (0, 1):
                yield None
            return
        yield json.loads(text)


def _table(rows: Sequence[tuple[str, str, list[str]]]) -> str:
    lines = [f"{'case':34s} {'result':7s} sizes"]
    for case, sizes, faults in rows:
        lines.append(f"{case:34s} {'WRONG' if faults else 'ok':7s} {sizes}")
        lines += [f"{'':12s}{fault[:2000]}" for fault in faults]
    wrong = sum(bool(faults) for _, _, faults in rows)
    return "\n".join([*lines, f"{len(rows)} runs of {len({case for case, _, _ in rows})} kernels, {wrong} wrong"])


if __name__ == "__main__":
    sys.exit(main())
