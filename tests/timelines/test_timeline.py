"""Timelines of whole programs: their structure, what overlaps in which kernel, that they are the same every time."""

import functools
import json
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from croq.diagnostics import LaunchError
from croq.target import DEFAULT
from croq.timelines import timeline as timelines
from croq.timelines.svg import LEFT, WIDTH, to_svg
from croq.timelines.timeline import MODEL, timeline
from croq.timelines.trace import to_trace
from tools.timelines import cost_table, picture

ROOT = Path(__file__).resolve().parent.parent.parent
KERNELS = ("v1", "v2", "v4")


@functools.cache
def _kernel(lower, name, defines=()):
    return lower(ROOT / "kernels" / f"{name}.co", dict(defines))


def _attention(length):
    generator = np.random.default_rng(3)
    arrays = {n: generator.standard_normal((1, length, 1, 128)).astype("bfloat16") for n in "QKV"}
    return arrays | {"O": np.full((1, length, 1, 128), np.nan, "bfloat16")}


@functools.cache
def _drawn(lower, name, length=512, steps=8, defines=()):
    return timeline(_kernel(lower, name, defines), _attention(length), steps=steps)


@pytest.fixture
def drawn(lower):
    return functools.partial(_drawn, lower)


def _spans(shown, group, category=None):
    """(track, span) of all tracks of a group."""
    tracks = [t for t in shown.tracks if t.group == group]
    return [(t, s) for t in tracks for s in t.spans if category in (None, s.category)]


def _overlap(a, b):
    return max(0.0, min(a.end, b.end) - max(a.start, b.start))


# ------------------------------------------------------------------------------------------------------- structure
@pytest.mark.parametrize("name", KERNELS)
class TestStructure:
    def test_spans_of_a_track_follow_one_another(self, drawn, name):
        for track in drawn(name).tracks:
            assert track.spans
            assert all(span.end > span.start >= 0 for span in track.spans)
            assert all(a.end <= b.start for a, b in zip(track.spans, track.spans[1:], strict=False)), track.name

    def test_waits_end_when_their_phase_completes(self, drawn, name):
        waits = [s for _, s in _spans(drawn(name), "warps", "wait") if s.details["operation"] == "mbarrier.wait"]
        assert bool(waits) == (name != "v1")
        for span in waits:
            polled = span.start + DEFAULT.cycles("mbarrier.poll")
            done = span.details.get("completes")
            blocked = done is not None and done > polled
            assert span.end == pytest.approx(done + DEFAULT.cycles("mbarrier.wake") if blocked else polled)

    def test_waits_for_mmas_end_after_what_they_wait_for(self, drawn, name):
        waits = [s for _, s in _spans(drawn(name), "warps", "wait") if s.details["operation"] == "wgmma.wait"]
        assert len(waits) >= 4
        for span in waits:
            assert span.end == pytest.approx(max(span.start, span.details["completes"]) + DEFAULT.cycles("wgmma.wait"))

    def test_a_phase_of_loads_completes_when_the_last_of_them_lands(self, drawn, name):
        landed = defaultdict(list)
        for _, span in _spans(drawn(name), "load"):
            landed[span.details["event"], span.details["generation"]].append(span.end)
        waits = [s for _, s in _spans(drawn(name), "warps", "wait")]
        seen = [s for s in waits if (s.details.get("event"), s.details.get("generation")) in landed]
        assert bool(seen) == (name != "v1")
        for span in seen:
            assert max(landed[span.details["event"], span.details["generation"]]) == span.details["completes"]

    def test_the_tensor_cores_do_one_thing_at_a_time(self, drawn, name):
        shown = drawn(name)
        mmas = [s for _, s in _spans(shown, "mma")]
        work = sum(s.details["instructions"] * DEFAULT.cycles("wgmma") for s in mmas)
        assert sum(end - start for start, end in shown.busy) == pytest.approx(work)
        for span in mmas:
            assert span.details["issued"] < span.start
            assert span.cycles >= span.details["instructions"] * DEFAULT.cycles("wgmma") - 1e-6
            assert span.details["completes"] == pytest.approx(span.end + DEFAULT.cycles("wgmma.latency"))

    def test_every_statement_has_its_line(self, drawn, name):
        text = (ROOT / "kernels" / f"{name}.co").read_text().splitlines()
        for track, span in _spans(drawn(name), "mma") + _spans(drawn(name), "warps", "math"):
            assert span.text.split()[0].split("(")[0] in text[span.line - 1], track.name

    def test_the_last_thing_is_inside(self, drawn, name):
        shown = drawn(name)
        assert shown.cycles == pytest.approx(shown.total)
        assert shown.steps == shown.all_steps == 4


# ---------------------------------------------------------------------------------------------------- what overlaps
def _pv_under_softmax(shown):
    """Cycles for which a warpgroup's P x V runs while its own softmax does, by warpgroup."""
    found = {}
    for track in (t for t in shown.tracks if t.group == "mma"):
        (role,) = [t for t in shown.tracks if t.group == "warps" and t.warps == track.warps]
        pv = [s for s in track.spans if s.details["from_registers"]]
        softmax = [s for s in role.spans if s.category in ("work", "math")]
        assert len(pv) == 4 and softmax
        found[track.warps] = sum(_overlap(a, b) for a in pv for b in softmax)
    assert len(found) == 2
    return found


def test_v4_runs_pv_under_the_softmax_of_the_same_warpgroup(drawn):
    assert all(overlap > 3 * 300 for overlap in _pv_under_softmax(drawn("v4")).values())


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_the_sequential_kernels_do_not(drawn, name):
    assert set(_pv_under_softmax(drawn(name)).values()) == {0.0}


def test_a_producer_loads_while_the_consumers_compute(drawn):
    shown = drawn("v2")
    loads = [s for _, s in _spans(shown, "load")]
    work = [s for _, s in _spans(shown, "warps", "math")]
    assert sum(_overlap(a, b) for a in loads for b in work) > 500


def test_each_kernel_of_the_ladder_is_shorter(drawn):
    totals = [drawn(name, 1024).total for name in KERNELS]
    assert totals == sorted(totals, reverse=True)


def test_fewer_stages_take_longer(drawn):
    assert drawn("v4", defines=(("K_STAGES", 1), ("V_STAGES", 1))).total > drawn("v4").total


def test_roles_and_idle_warps(drawn):
    names = [track.name for track in drawn("v4").tracks if track.group == "warps"]
    assert names == ["p == 0: warps 0-3", "p > 0: warps 4-7", "p > 0: warps 8-11"]


# ------------------------------------------------------------------------------------------------------------ limits
def test_only_so_many_steps_are_shown(drawn):
    shown = drawn("v4", 1024, 2)
    assert (shown.steps, shown.all_steps) == (2, 8)
    assert shown.cycles < shown.total / 2
    consumers = [t for t in shown.tracks if t.name.startswith("p > 0")]
    last = max(s.end for t in consumers for s in t.spans if s.details.get("step", 0) <= 2)
    assert shown.cycles == pytest.approx(last)
    assert all(s.end <= shown.cycles for t in shown.tracks for s in t.spans)
    assert any(s.details.get("cut") for t in shown.tracks for s in t.spans)
    assert shown.utilisation <= 1


def test_there_are_never_too_many_spans(lower, monkeypatch):
    monkeypatch.setattr(timelines, "MOST_SPANS", 100)
    shown = timeline(_kernel(lower, "v4"), _attention(512))
    assert sum(len(track.spans) for track in shown.tracks) <= 100
    assert shown.cycles < shown.total


def test_no_steps_are_refused(lower):
    with pytest.raises(LaunchError, match="E-5008"):
        timeline(_kernel(lower, "v4"), _attention(256), steps=0)


def test_outputs_are_those_of_a_simulation(lower):
    from croq.simulate import run

    timed, plain = _attention(256), _attention(256)
    timeline(_kernel(lower, "v4"), timed, block=(1, 0, 0))
    run(_kernel(lower, "v4"), plain, blocks=[(1, 0, 0)])
    assert timed["O"].tobytes() == plain["O"].tobytes()


# ------------------------------------------------------------------------------------------------------------- trace
@pytest.mark.parametrize("name", KERNELS)
def test_the_trace_is_valid(drawn, name):
    trace = json.loads(to_trace([drawn(name)]))
    assert trace["otherData"]["model"] == MODEL
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tracks = defaultdict(list)
    for event in (e for e in events if e["ph"] != "M"):
        assert event["ph"] == "X" and event["dur"] >= 0 and event["ts"] >= 0 and event["name"] and event["cat"]
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert tracks.keys() == names.keys()
    for spans in tracks.values():
        open_until: list[float] = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= start + 1e-9:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-9
            open_until.append(end)


def test_equal_runs_give_equal_bytes(lower):
    first, second = (timeline(_kernel(lower, "v4"), _attention(256)) for _ in range(2))
    assert to_trace([first]) == to_trace([second])
    assert to_svg([first]) == to_svg([second])


# ----------------------------------------------------------------------------------------------------------- picture
@pytest.mark.parametrize("name", KERNELS)
def test_the_picture_is_well_formed(drawn, name):
    shown = drawn(name)
    text = to_svg([shown])
    root = ElementTree.fromstring(text)
    ns = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{ns}svg" and MODEL in "".join(root.itertext())
    boxes = [rect for rect in root.iter(f"{ns}rect") if rect.find(f"{ns}title") is not None]
    assert len(boxes) == sum(len(track.spans) for track in shown.tracks) + len(shown.busy)
    height = float(root.get("height", "nan"))
    for box in boxes:
        x, y, width, tall = (float(box.get(key, "nan")) for key in ("x", "y", "width", "height"))
        assert x >= LEFT and x + width <= WIDTH - 10 and y > 0 and y + tall <= height
    assert any("line " in (box.findtext(f"{ns}title") or "") for box in boxes)
    assert "href" not in text and "<script" not in text and len(text) < 200_000


def test_an_axis_may_end_early(drawn):
    shown = drawn("v4")
    text = to_svg([shown], until=shown.cycles / 2)
    root = ElementTree.fromstring(text)
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(box.get("x") or 0) + float(box.get("width", "nan")) <= WIDTH
    assert "the axis ends at" in text


def test_launches_are_drawn_one_below_the_other(drawn):
    one, two = to_svg([drawn("v4")]), to_svg([drawn("v4"), drawn("v2")])
    assert two.count(MODEL) > one.count(MODEL)
    assert {e["pid"] for e in json.loads(to_trace([drawn("v4"), drawn("v2")]))["traceEvents"]} == {0, 1}


# ------------------------------------------------------------------------------------------------------ the document
@pytest.mark.parametrize("name", ["v1", "v2", "v4", "v3"])
def test_the_pictures_of_the_document_are_up_to_date(golden, name):
    golden(picture(name), f"docs/images/timeline-{name}.svg")


def test_the_document_shows_the_costs():
    text = (ROOT / "docs" / "timelines.md").read_text()
    assert cost_table() in text
    assert all(cost.value > 0 for cost in DEFAULT.costs.values())
