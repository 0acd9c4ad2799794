"""Kernels that are wrong on purpose, on a GPU: does the chip do what croq says of them?

    python -m tools.device_mutants --build DIR     compile the mutants to DIR, and ask croq; needs NVRTC, no GPU
    python -m tools.device_mutants --run DIR       launch each of them often, and compare; needs a Hopper GPU

Each mutant breaks the synchronisation of a kernel at one place: in its text, past the rules that refuse it, or in its
lowered IR. All are built with a watchdog, so that one that hangs says where. A mutant is launched again and again, over
outputs and shared memory full of NaN, and its result is compared in every bit with that of the kernel as it is. Each
has a process of its own, for a hang ends the context. A mutant whose hang would be at a named barrier is not among
them: nothing bounds that wait. Exit status 4 when something that croq is sure of is not observed, 3 when some were not
run.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.wrong_kernels import KERNELS, SAME, WRONG, build, digest, read_manifest, write

ROOT = Path(__file__).resolve().parent.parent

LAUNCHES = 200
BUDGET = 85.0  # seconds of a run, after which the mutants that are left are not run
PATIENCE = 25.0  # seconds for one mutant, the start of its process not counted
AHEAD = max(1, min(6, (os.cpu_count() or 2) // 2))  # processes that get ready while one has the GPU
MEASURED = 10  # launches of a mutant whose error is worked out; the others are only counted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--build", type=Path, metavar="DIR")
    todo.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose name contains this")
    parser.add_argument("--launches", type=int, default=LAUNCHES, metavar="N")
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS", help="for --run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was observed there, with all reports")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # makes this process that of one mutant
    options = parser.parse_args()
    if options.build is not None:
        return build(options.build, options.only)
    if options.worker is not None:
        return work(options.run, options.worker, options.launches)
    return supervise(options)


# ------------------------------------------------------------------------------------------------------------- worker
def work(folder: Path, name: str, launches: int) -> int:
    """Get ready, say so, wait for a line on standard input, launch, and print what was observed as a line of JSON."""
    try:
        made = Prepared(folder, name)
        _say(status="ready")
        sys.stdin.readline()
        started = time.perf_counter()
        on_device = OnDevice(made)
    except Exception as error:
        return _say(status="not run", text=_line(error))
    try:
        observed = on_device.observe(launches)
    except Exception as error:
        observed = {"status": "fault", "text": _line(error)}
    return _say(**observed, seconds=round(time.perf_counter() - started, 2))


def _say(**fields: Any) -> int:
    print(json.dumps(fields), flush=True)
    return 0


def _line(error: Exception) -> str:
    text = (str(error).splitlines() or [""])[0]
    return text if text.startswith("error[") else f"{type(error).__name__}: {text}"


class Prepared:
    """A kernel as it is, one of its mutants (or itself once more), and arguments: all that needs no GPU."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises ValueError when DIR was built of another text."""
        import croq
        from croq.driver.nvrtc import Compiled
        from croq.kernel import Kernel

        manifest = read_manifest(folder)
        mutant = next((m for m in manifest["mutants"] if m["id"] == name), None)
        kernel = name if mutant is None else mutant["kernel"]
        about = manifest["kernels"][kernel]
        settings = {
            "defines": about["defines"],
            "watchdog": manifest["watchdog"],
            "verify": False,
        }  # it was, at --build
        whole = croq.compile(ROOT / about["path"], **settings)
        if digest(whole.cuda) != about["digest"]:
            raise ValueError(f"`{about['path']}` is not what {folder} was built of; build again")
        for_mutant = replace(whole.compilation)
        for made, file in ((whole.compilation, about["cubin"]), (for_mutant, (mutant or about)["cubin"])):
            made.__dict__["image"] = Compiled((folder / file).read_bytes(), "")
        self.plain = Kernel(whole.compilation, about["function"])
        self.mutant = Kernel(for_mutant, about["function"])
        self.arrays, self.output = ARGUMENTS[kernel]()


class OnDevice:
    """The arguments on the GPU, and the result of the kernel as it is."""

    def __init__(self, made: Prepared) -> None:
        """Raises ValueError when that result has numbers that are not finite, CroqError without GPU."""
        from croq.driver.device import require_gpu
        from croq.driver.device_array import DeviceArray

        device = require_gpu().index
        self.made = made
        right = {name: DeviceArray.from_numpy(array, device) for name, array in made.arrays.items()}
        self.right = tuple(right.values())
        self.nans = tuple(DeviceArray.empty(array.shape, array.dtype, device) for array in self.right)
        for array in self.nans:
            array.fill_bytes(0xFF)
        self.output = right[made.output]
        made.plain(*self.right)
        self.want = self.output.to_numpy()
        if not np.isfinite(self.want.astype(np.float32)).all():
            raise ValueError("the kernel as it is gives numbers that are not finite")

    def observe(self, launches: int) -> dict[str, Any]:
        """Raises CroqError for what the device reports, but for a hang."""
        from croq.driver.watchdog import Hang

        wrong, worst, not_finite = 0, 0.0, 0
        for launch in range(launches):
            self.made.plain(*self.nans)  # leaves NaN in shared memory
            self.output.fill_bytes(0xFF)
            try:
                self.made.mutant(*self.right)
            except Hang as hang:
                events = [wait.name for wait in hang.waits]
                return {"status": "hang", "launch": launch, "wrong": wrong, "events": events, "report": str(hang)}
            got = self.output.to_numpy()
            if np.array_equal(got.view(np.uint8), self.want.view(np.uint8)):
                continue
            wrong += 1
            if wrong <= MEASURED:
                error = np.abs(got.astype(np.float32) - self.want.astype(np.float32))
                finite = np.isfinite(error)
                not_finite = max(not_finite, int((~finite).sum()))
                worst = max(worst, float(error[finite].max(initial=0.0)))
        return {"status": "ran", "launches": launches, "wrong": wrong, "max_error": worst, "not_finite": not_finite}


def _attention(tiles: int, heads: int) -> tuple[dict[str, Any], str]:
    import ml_dtypes

    generator = np.random.default_rng(tiles)
    shape = (1, 128 * tiles, heads, 128)
    arrays = {n: generator.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for n in "QKV"}
    return arrays | {"O": np.zeros(shape, ml_dtypes.bfloat16)}, "O"


def _gemm(m: int, n: int, k: int) -> tuple[dict[str, Any], str]:
    import ml_dtypes

    generator = np.random.default_rng(k)
    shapes = {"a": (m, k), "b": (n, k)}
    arrays = {x: generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for x, s in shapes.items()}
    return arrays | {"c": np.zeros((m, n), ml_dtypes.bfloat16)}, "c"


# More blocks than fit on the chip at once, and rings that go round many times.
ARGUMENTS: dict[str, Callable[[], tuple[dict[str, Any], str]]] = {
    "v4": lambda: _attention(16, 16),
    "v2": lambda: _attention(16, 16),
    "gemm_ring": lambda: _gemm(2048, 2048, 2048),
}


# --------------------------------------------------------------------------------------------------------- supervisor
def supervise(options: argparse.Namespace) -> int:
    started = time.monotonic()
    manifest = read_manifest(options.run)
    entries = {m["id"]: m for m in manifest["mutants"] if options.only in m["id"]}
    names = [kernel for kernel in KERNELS if any(m["kernel"] == kernel for m in entries.values())]
    names += [name for name, m in entries.items() if m["cubin"]]
    observed: dict[str, dict[str, Any]] = {}
    for name, worker in _ready(options, names):
        left = options.budget - (time.monotonic() - started)
        observed[name] = _result(worker, left) if left > 1 else _killed(worker, "not run", "the time is over")
    rows = [_row(name, entries.get(name), found) for name, found in observed.items()]
    rows += [_row(name, m, {"status": "not built"}) for name, m in entries.items() if not m["cubin"]]
    print(_table(rows))
    report = next((found["report"] for found in observed.values() if "report" in found), None)
    print(f"\n{time.monotonic() - started:.0f} s" + (f"; the first report:\n\n{report}" if report else ""))
    if options.json is not None:
        write(options.json, (json.dumps(observed, indent=1) + "\n").encode())
    agreed = {row[-1] for row in rows}
    return 4 if "NO" in agreed else 3 if "-" in agreed else 0


def _ready(options: argparse.Namespace, names: Sequence[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Processes in order; a few behind the one that is handed out get ready meanwhile."""
    workers: deque[tuple[str, subprocess.Popen[str]]] = deque()
    waiting = deque(names)
    try:
        while waiting or workers:
            while waiting and len(workers) <= AHEAD:
                name = waiting.popleft()
                command = [sys.executable, __file__, "--run", str(options.run), "--worker", name]
                command += ["--launches", str(options.launches)]
                pipe = subprocess.PIPE
                workers.append((name, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)))
            yield workers.popleft()
    finally:
        for _, worker in workers:
            worker.kill()


def _result(worker: subprocess.Popen[str], left: float) -> dict[str, Any]:
    """What the process says, which has `left` seconds to get ready, and PATIENCE once it has the GPU."""
    assert worker.stdout is not None
    began = time.monotonic()
    if not select.select([worker.stdout], [], [], left)[0]:
        return _killed(worker, "not run", "the time is over")
    answer = worker.stdout.readline()
    patience = min(PATIENCE, left - (time.monotonic() - began))
    try:
        rest, errors = worker.communicate("go\n" if '"ready"' in answer else None, timeout=max(patience, 1.0))
    except subprocess.TimeoutExpired:
        return _killed(worker, "stuck", f"no answer in {patience:.0f} s: killed")
    try:
        found: dict[str, Any] = json.loads((answer + rest).splitlines()[-1])
    except (IndexError, ValueError):
        found = {"status": "ready"}
    if found["status"] == "ready":
        last = errors.strip().splitlines()[-1:] or ["no word"]
        return {"status": "died", "text": f"exit status {worker.returncode}: {last[0]}"}
    return found


def _killed(worker: subprocess.Popen[str], status: str, text: str) -> dict[str, Any]:
    worker.kill()
    worker.communicate()
    return {"status": status, "text": text}


def _row(name: str, entry: Mapping[str, Any] | None, found: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Name, what croq says, what it lets expect, what was observed, and whether that agrees."""
    seen = _observed(found)
    if entry is None:
        return f"{name} as it is", "", SAME, seen, _agrees({"certain": False, "predicted": SAME}, found)
    says = " ".join(code for code in (entry["refused"], entry["verdict"]) if code)
    return name, says, entry["predicted"], seen, _agrees(entry, found)


def _observed(found: Mapping[str, Any]) -> str:
    if found["status"] == "hang":
        before = f" (wrong in {found['wrong']} before)" if found["wrong"] else ""
        return f"launch {found['launch'] + 1} hung at {', '.join(f'`{e}`' for e in found['events'][:4])}{before}"
    if found["status"] != "ran":
        return f"{found['status']}: {found.get('text', '')}".rstrip(": ")
    if not found["wrong"]:
        return f"no difference in {found['launches']} launches"
    nan = f", {found['not_finite']} not finite" if found["not_finite"] else ""
    return f"wrong in {found['wrong']} of {found['launches']} launches, max error {found['max_error']:.3g}{nan}"


def _agrees(entry: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What is not guaranteed agrees with everything but a wait that the watchdog did not end."""
    status = found["status"]
    if status in ("not run", "not built"):
        return "-"
    if status in ("stuck", "died"):
        return "NO"
    hung = {event.partition("[")[0] for event in found.get("events", ())}
    if entry["certain"]:
        return "yes" if hung & set(entry["events"]) else "NO"
    if entry["predicted"] == SAME:
        return "yes" if status == "ran" and not found["wrong"] else "NO"
    if entry["predicted"] == WRONG:
        return "yes" if status != "ran" or found["wrong"] else "NO"
    return "yes"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    head = ("mutant", "croq", "predicted", "observed", "agrees")
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


if __name__ == "__main__":
    sys.exit(main())
