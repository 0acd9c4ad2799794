"""`sim --timeline`: one block on an axis of modelled cycles, as a Perfetto trace or a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from croq.binding import Bound
from croq.cli import output
from croq.cli.arguments import outputs_of
from croq.cli.options import refused
from croq.cli.session import Session
from croq.kernel import Kernel
from croq.timelines.svg import to_svg
from croq.timelines.timeline import STEPS, Timeline, timeline
from croq.timelines.trace import to_trace

FORMATS: Mapping[str, Callable[[Sequence[Timeline]], str]] = {".json": to_trace, ".svg": to_svg}


@dataclass(frozen=True)
class TimelineRequest:
    """Which files to write, of which block, with how many iterations of the inner loops."""

    files: tuple[Path, ...] = ()
    block: tuple[int, int, int] = (0, 0, 0)
    steps: int = STEPS

    @staticmethod
    def of(files: Sequence[str], block: str | None, steps: int) -> TimelineRequest:
        """From the options' text. Raises UsageFault for what they cannot mean."""
        for file in files:
            if Path(file).suffix not in FORMATS:
                raise refused("--timeline", f"`{file}`: a trace ends with .json, a picture with .svg")
        return TimelineRequest(tuple(map(Path, files)), _block(block or "0,0,0"), steps)


def _block(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise refused("--timeline-block", f"`{text}`: write X,Y,Z")
    x, y, z = (*map(int, parts), 0, 0)[:3]
    return x, y, z


def write_timelines(
    session: Session, kernel: Kernel, bound: Bound, arguments: Mapping[str, Any], request: TimelineRequest
) -> list[dict[str, Any]]:
    """Execute one block of each launch on copies of what it writes, and write the files. What they show, in numbers."""
    written = outputs_of(kernel)
    arrays = {n: a.copy() if n in written else a for n, a in arguments.items() if isinstance(a, np.ndarray)}
    scalars = dict(bound.scalars)
    with session.console.busy("laying out the timeline"):
        shown = [
            timeline(device, arrays, scalars, block=request.block, steps=request.steps) for device in kernel.devices
        ]
    for path in request.files:
        output.write(path, FORMATS[path.suffix](shown))
        session.console.note(f"wrote {path}")
    return [
        {"block": list(t.block), "cycles": round(t.cycles), "total": round(t.total), "steps": t.steps}
        | {"all_steps": t.all_steps, "tensor_cores_busy": round(t.utilisation, 4) if t.busy else None}
        for t in shown
    ]
