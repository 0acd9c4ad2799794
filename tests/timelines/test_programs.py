"""Timelines of programs of many kinds: every barrier, copy and unit of work that the language has."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

import croq
from croq.timelines.svg import to_svg
from croq.timelines.timeline import timeline
from croq.timelines.trace import to_trace
from tests.programs import harness

PROGRAMS = [
    "dma_async", "gemm_dma_ring", "gemm_three_consumers", "gemm_three_in_flight", "ping_pong", "stop_early",
    "sub_warps", "tall_fragments", "tree_sum", "two_launches", "uniform_fragments", "warp_units",
]  # fmt: skip
CASES = {case.path.stem: case for case in reversed(list(harness.cases()))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_laid_out_to_the_end(name):
    case = CASES[name]
    kernel = croq.compile(str(case.path), case.defines)
    run = harness.make_run(case, case.variant.sizes[-1])
    arrays = run.fresh()
    for device in kernel.devices:
        shown = timeline(device, arrays, run.scalars, steps=4)
        assert shown.tracks and 0 < shown.cycles <= shown.total and shown.utilisation <= 1
        for track in shown.tracks:
            assert all(span.end > span.start for span in track.spans)
            assert all(a.end <= b.start for a, b in zip(track.spans, track.spans[1:], strict=False))
        assert json.loads(to_trace([shown]))["traceEvents"]
        ElementTree.fromstring(to_svg([shown]))
