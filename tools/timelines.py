"""Draws the timelines of docs/timelines.md: the shipped kernels on one small attention problem, at one scale.

python -m tools.timelines [FOLDER]         writes timeline-v1.svg, ... to docs/images, or to FOLDER
python -m tools.timelines --costs          prints the table of modelled costs, as the document shows it
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import croq
from croq.bench.inputs import make_inputs
from croq.bench.schedule import encode
from croq.bench.workload import AttentionWorkload, bind
from croq.cli.output import write
from croq.target import DEFAULT
from croq.timelines.svg import to_svg
from croq.timelines.timeline import Timeline, timeline

ROOT = Path(__file__).resolve().parent.parent

KERNELS = ("v1", "v2", "v4", "v3")
WORKLOAD = AttentionWorkload(batch=1, heads=2, seq=512)
TILE = 3  # the last query tile, which has the most key tiles
AXIS = 18_000  # cycles of every picture, so that equal lengths are equal times


def draw(name: str) -> Timeline:
    """The timeline of the block that computes the last query tile; a persistent kernel does so for two heads."""
    kernel = croq.compile(name, {"PERSISTENT_CTAS": 1} if "PERSISTENT_CTAS" in croq_source(name) else None)
    binding = bind(kernel.params)
    inputs = make_inputs(WORKLOAD)
    values: dict[Any, Any] = {"q": inputs.q, "k": inputs.k, "v": inputs.v, "o": inputs.o}
    values["tasks"] = np.asarray([encode(TILE, head, 0) for head in range(WORKLOAD.heads)], np.int32)
    values["offsets"] = np.asarray([0, WORKLOAD.heads], np.int32)
    roles = zip(binding.params, binding.roles, strict=True)
    arrays = {param.name: values[role] for param, role in roles}
    return timeline(kernel.devices[0], arrays)


def croq_source(name: str) -> str:
    return (ROOT / "kernels" / f"{name}.co").read_text(encoding="utf-8")


def picture(name: str) -> str:
    return to_svg([draw(name)], until=AXIS)


def cost_table() -> str:
    """The modelled costs as a Markdown table."""
    lines = ["| name | cycles | from | what |", "|---|---|---|---|"]
    for name, cost in DEFAULT.costs.items():
        source = "measured" if cost.measured else "estimate"
        lines.append(f"| `{name}` | {cost.value:g} | {source} | {cost.what} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--costs", action="store_true", help="print the table of costs and write nothing")
    options = parser.parse_args()
    if options.costs:
        print(cost_table())
        return 0
    for name in KERNELS:
        path = options.folder / f"timeline-{name}.svg"
        write(path, picture(name))
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
