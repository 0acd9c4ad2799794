"""The throughput plot: a panel a size, a bar an implementation, its whole measured range as a whisker."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from croq.bench.suite import Result

MARGIN = 1.05  # of the scale over its longest bar


def draw(results: Sequence[Result], path: Path) -> str | None:
    """Write the plot to `path`; the reason when there is none. All panels share one scale that starts at zero."""
    timed = [result for result in results if result.timing is not None]
    if not timed:
        return "nothing was measured"
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        return f"matplotlib is not installed ({error}); install `croq[plot]`"
    workloads = list(dict.fromkeys(result.workload for result in results))
    names = list(dict.fromkeys(result.name for result in results))
    figure, axes = pyplot.subplots(
        1, len(workloads), sharex=True, squeeze=False, figsize=(4 * len(workloads) + 1, 0.45 * len(names) + 1.6)
    )
    for axis, workload in zip(axes[0], workloads, strict=True):
        _panel(axis, names, {r.name: r for r in results if r.workload == workload})
        axis.set_title(f"S = {workload.seq}" if len({w.seq for w in workloads}) > 1 else workload.describe())
        axis.set_xlabel("TFLOPS")
    axes[0][0].set_xlim(0, _fastest(timed) * MARGIN)  # shared by all panels, and set when all bars are known
    figure.tight_layout()
    figure.savefig(path, dpi=144)
    pyplot.close(figure)
    return None


def _fastest(timed: Sequence[Result]) -> float:
    """The end of the longest whisker, in TFLOPS."""
    return max(r.workload.tflops(r.timing.best) for r in timed if r.timing is not None)


def _panel(axis: Any, names: Sequence[str], found: dict[str, Result]) -> None:
    for place, name in enumerate(names):
        result = found.get(name)
        if result is None or result.timing is None:
            axis.text(0, place, f" {result.status if result else 'not run'}", va="center", fontsize=8)
            continue
        speed = result.workload.tflops
        middle = speed(result.timing.median)
        whisker = [[middle - speed(result.timing.worst)], [speed(result.timing.best) - middle]]
        axis.barh(place, middle, xerr=whisker, color="tab:blue", ecolor="black", capsize=2)
        axis.text(middle / 2, place, f"{middle:.0f}", va="center", ha="center", color="white", fontsize=8)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)  # the first on top, all with room
