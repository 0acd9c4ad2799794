"""Writes a benchmark's results: `results/<UTC time>/` with results.json, summary.csv, summary.md, environment.json and
a plot. The folder appears under its name only when it is complete."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from croq.bench.plot import draw
from croq.bench.suite import Result, Settings
from croq.diagnostics import EnvironmentFault, make

_COLUMNS = ("implementation", "batch", "heads", "seq", "dim", "dtype", "causal", "status")
_NUMBERS = ("median_ms", "min_ms", "max_ms", "tflops", "max_abs_error", "checked", "reason")


def write_results(
    root: Path,
    results: Sequence[Result],
    environment: Mapping[str, Any],
    settings: Settings | None = None,
    *,
    now: datetime | None = None,
    plotter: Callable[[Sequence[Result], Path], str | None] = draw,
) -> Path:
    """Write everything and return the new folder. `plotter` gives the reason when it makes no plot.

    Raises `EnvironmentFault` (E-4180) when the folder cannot be written.
    """
    stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        root.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{stamp}-", dir=root))
    except OSError as error:
        raise _unwritable(root, error) from error
    try:
        no_plot = plotter(results, draft / "throughput.png")
        document = {
            "complete": all(result.status == "ok" for result in results),
            "time": stamp,
            "settings": vars(settings or Settings()),
            "plot": {"file": None, "reason": no_plot} if no_plot else {"file": "throughput.png", "reason": ""},
            "results": [result.to_json() for result in results],
        }
        _dump(draft / "results.json", document)
        _dump(draft / "environment.json", environment)
        (draft / "summary.csv").write_text(summary_csv(results), encoding="utf-8", newline="")
        (draft / "summary.md").write_text(summary_markdown(results, environment, no_plot), encoding="utf-8")
        draft.chmod(0o755)
        return _publish(draft, root, stamp)
    except OSError as error:
        raise _unwritable(root, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # gone already when it was published


def summary_csv(results: Sequence[Result]) -> str:
    """One line for each implementation and size; empty cells where there is no number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_COLUMNS, *_NUMBERS))
    for r in results:
        w, timing, check = r.workload, r.timing, r.check
        times = (
            ("", "", "", "")
            if timing is None
            else (*(f"{t:.5f}" for t in (timing.median, timing.best, timing.worst)), f"{w.tflops(timing.median):.2f}")
        )
        errors = ("", "") if check is None else (f"{check.max_abs_error:.6f}", check.checked)
        causal = str(w.causal).lower()
        writer.writerow((r.name, w.batch, w.heads, w.seq, w.dim, w.dtype, causal, r.status, *times, *errors, r.reason))
    return text.getvalue()


def summary_markdown(results: Sequence[Result], environment: Mapping[str, Any], no_plot: str | None) -> str:
    """A table with a row for each implementation and a column for each size, then what is missing or wrong."""
    workloads = list(dict.fromkeys(result.workload for result in results))
    names = list(dict.fromkeys(result.name for result in results))
    cells = {(result.name, result.workload): _cell(result) for result in results}
    device = environment.get("device", {}).get("name", "unknown device")
    lines = [
        f"# Attention forward on {device}",
        "",
        "Median milliseconds / TFLOPS over interleaved rounds.",
        "",
        "| implementation | " + " | ".join(w.describe() for w in workloads) + " |",
        "|---|" + "---|" * len(workloads),
    ]
    lines += [f"| {name} | " + " | ".join(cells.get((name, w), "") for w in workloads) + " |" for name in names]
    marked = [f"* {r.name}, {r.workload.describe()}: {r.status}: {r.reason}" for r in results if r.status != "ok"]
    if no_plot:
        marked.append(f"* plot: not made: {no_plot}")
    if marked:
        lines += ["", "Not measured:", "", *marked]
    return "\n".join(lines) + "\n"


def _cell(result: Result) -> str:
    if result.timing is None:
        return result.status.upper()
    return f"{result.timing.median:.4f} / {result.workload.tflops(result.timing.median):.1f}"


def _dump(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")


def _publish(draft: Path, root: Path, stamp: str) -> Path:
    """Give the draft its name; a number is added when another run finished in the same second."""
    number = 1
    while True:
        final = root / (stamp if number == 1 else f"{stamp}-{number}")
        if not final.exists():
            try:
                draft.rename(final)
            except OSError:
                if not final.exists():
                    raise
            else:
                return final
        number += 1


def _unwritable(root: Path, error: OSError) -> EnvironmentFault:
    message = f"results cannot be written to `{root}`: {error.strerror or error}"
    return EnvironmentFault([make("E-4180", None, message, hint="choose another folder")])
