"""The programs of tests/programs on a GPU: cubins are built where there is none, and checked where there is one.

    python tools/device_programs.py --build DIR        compile every variant to DIR; needs NVRTC, no GPU
    python tools/device_programs.py --run DIR          launch them at all their sizes and compare with the references

Each result is one line of the table at the end. A kernel that hangs or faults costs its own line only: a worker process
runs the cases, and a new one goes on behind the case that ended the last. Exit status 4 when a line is not `ok`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "programs")]

import harness  # noqa: E402  (found by the line above)

PATIENCE = 60.0  # seconds without a line from a worker, after which its case counts as hung
REPEATS = 3  # launches a case; their outputs must be equal in every bit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--build", type=Path, metavar="DIR")
    todo.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--work-from", type=int, help=argparse.SUPPRESS)  # makes this process the worker
    options = parser.parse_args()
    cases = [case for case in harness.cases() if options.only in case.id]
    if options.build is not None:
        return build(options.build, cases)
    if options.work_from is not None:
        return work(options.run, cases, options.work_from)
    return supervise(options.run, cases, options.only)


# ---------------------------------------------------------------------------------------------------------- build
def build(folder: Path, cases: Sequence[harness.Case]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    failures = 0
    for case in cases:
        started = time.perf_counter()
        try:
            kernel = _compile(case)
            cubin = kernel.cubin
        except Exception as error:  # one that does not compile must not keep the others from being built
            failures += 1
            print(f"FAIL  {case.id}\n{error}")
            continue
        _write(folder / f"{case.id}.cubin", cubin)
        _write(folder / f"{case.id}.sha256", _digest(kernel.cuda).encode())
        notes = "".join(f"  {w.code}: {w.message}" for w in kernel.warnings)
        print(f"built {case.id:30s} {time.perf_counter() - started:5.2f} s{notes}")
    return 1 if failures else 0


def _compile(case: harness.Case) -> Any:
    import croq

    return croq.compile(case.path, defines=case.defines, kernel=case.program.name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    draft.replace(path)


def _built(folder: Path, case: harness.Case) -> Any:
    """The kernel with the cubin of DIR, when that was made of the same CUDA text; else with one that is made now."""
    from croq.driver.nvrtc import Compiled

    kernel = _compile(case)
    recorded = folder / f"{case.id}.sha256"
    if recorded.exists() and recorded.read_text() == _digest(kernel.cuda):
        kernel.compilation.__dict__["image"] = Compiled((folder / f"{case.id}.cubin").read_bytes(), "")
    return kernel


# ------------------------------------------------------------------------------------------------------------ run
def work(folder: Path, cases: Sequence[harness.Case], start: int) -> int:
    """One line of JSON before each case and one for each of its sizes; ends at the first fault of the device."""
    for number, case in enumerate(cases[start:], start):
        _say(case=number)
        try:
            kernel = _built(folder, case)
            for sizes in [*case.variant.sizes, *([case.variant.large] if case.variant.large else [])]:
                _say(case=number, sizes=str(dict(sizes)), faults=_launch(kernel, case, sizes))
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


def _launch(kernel: Any, case: harness.Case, sizes: Any) -> list[str]:
    from croq.driver.device import synchronize
    from croq.driver.device_array import DeviceArray

    run = harness.make_run(case, sizes)
    results: list[dict[str, Any]] = []
    for _ in range(REPEATS):
        device = {name: DeviceArray.from_numpy(array) for name, array in run.arrays.items()}
        kernel(*[device[p.name] if p.shape is not None else run.scalars[p.name] for p in kernel.params])
        synchronize()
        results.append({name: array.to_numpy() for name, array in device.items()})
    faults = run.faults(results[0])
    differing = [name for name in run.want if len({result[name].tobytes() for result in results}) > 1]
    return faults + [f"`{name}` differs from launch to launch" for name in differing]


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def supervise(folder: Path, cases: Sequence[harness.Case], only: str) -> int:
    rows: list[tuple[str, str, list[str]]] = []
    position = 0
    while position < len(cases):
        current = position - 1
        for line in _lines_of_worker(folder, only, position):
            if line is None:
                rows.append((cases[max(current, position)].id, "", ["hung, or ended without a word"]))
                break
            current = line["case"]
            if "faults" in line:
                rows.append((cases[current].id, line["sizes"], line["faults"]))
        position = max(current, position) + 1
    print(_table(rows))
    return 4 if any(faults for _, _, faults in rows) else 0


def _lines_of_worker(folder: Path, only: str, start: int) -> Iterator[dict[str, Any] | None]:
    """What the worker says; None when it says nothing for too long or dies without finishing a case."""
    command = [sys.executable, __file__, "--run", str(folder), "--only", only, "--work-from", str(start)]
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
