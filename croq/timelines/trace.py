"""Timelines in Chrome's trace format, which Perfetto reads (ui.perfetto.dev)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from croq.timelines.timeline import MODEL, Span, Timeline


def to_trace(timelines: Sequence[Timeline]) -> str:
    """The trace as JSON text: a process a launch, a thread a track.

    A cycle is written as a nanosecond. Equal timelines give equal bytes.
    """
    events: list[dict[str, Any]] = []
    for process, shown in enumerate(timelines):
        name = f"{shown.kernel}, block {shown.block}: {MODEL}"
        events.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        for thread, track in enumerate(shown.tracks):
            place = {"pid": process, "tid": thread}
            events.append({"ph": "M", **place, "name": "thread_name", "args": {"name": track.name}})
            events.append({"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": thread}})
            events += [{"ph": "X", **place, **_event(span)} for span in track.spans]
    facts = [
        {
            "kernel": t.kernel, "file": t.file, "block": list(t.block),
            "cycles": round(t.cycles), "total": round(t.total), "steps": t.steps,
            "all_steps": t.all_steps, "tensor_cores_busy": round(t.utilisation, 4),
        }
        for t in timelines
    ]  # fmt: skip
    head = {"model": MODEL, "unit": "a nanosecond is a cycle", "launches": facts}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    return f'{{"displayTimeUnit":"ns","otherData":{json.dumps(head)},"traceEvents":[\n{lines}\n]}}\n'


def _event(span: Span) -> dict[str, Any]:
    start, end = round(span.start, 1), round(span.end, 1)
    times = ("completes", "issued", "transfer_starts")
    args = {key: round(value, 1) if key in times else value for key, value in span.details.items()}
    source = {"line": span.line, "source": span.text} if span.line else {}
    # Microseconds with four decimals hold tenths of nanoseconds exactly.
    ts, dur = round(start / 1000, 4), round((end - start) / 1000, 4)
    return {"name": span.label, "cat": span.category, "ts": ts, "dur": dur, "args": {**source, **args}}
