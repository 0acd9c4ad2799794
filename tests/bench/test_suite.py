"""The benchmark run and its files, with a device that lives on the CPU."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from croq.bench.environment import environment
from croq.bench.measure import Timing, interleave
from croq.bench.peers import PEERS
from croq.bench.plot import draw
from croq.bench.reference import attention_reference
from croq.bench.report import summary_csv, summary_markdown, write_results
from croq.bench.schedule import decode
from croq.bench.suite import Result, Settings, run_suite
from croq.bench.workload import AttentionWorkload
from croq.diagnostics import EnvironmentFault, LaunchError, make

SIZE = AttentionWorkload(1, 2, 130, 16)
NOW = datetime(2026, 9, 21, 10, 11, 12, tzinfo=UTC)


@dataclass
class P:
    name: str
    dtype: str = "bf16"
    shape: tuple = ("B", "S", "H", "D")


@dataclass
class FakeKernel:
    """Computes attention with the reference; `spoil` damages the output."""

    spoil: float = 0.0
    persistent: bool = False
    dtype: str = "bf16"
    plan: list = field(default_factory=lambda: [{"grid": [3]}])
    seen: list = field(default_factory=list)

    @property
    def params(self):
        lists = [P("tasks", "s32", ("N",)), P("offsets", "s32", ("M",))] if self.persistent else []
        return [P(name, self.dtype) for name in "QKVO"] + lists

    def __call__(self, q, k, v, o, *lists, stream=None):
        self.seen.append(lists)
        where = {(b, h): range(q.shape[1]) for b in range(q.shape[0]) for h in range(q.shape[2])}
        for part in attention_reference(q, k, v, where, causal=True):
            o[part.slab[0], :, part.slab[1]] = part.values + self.spoil


class FakeDevice:
    def __init__(self):
        self.timed = []

    def upload(self, array):
        return array.copy()

    def download(self, array):
        return array.copy()

    def time(self, launch, *, warmup, repeat):
        self.timed.append((warmup, repeat))
        launch()
        return 0.5

    def describe(self):
        return {"name": "no GPU"}


class Absent:
    name = "absent"

    def missing(self, workload):
        return "it is not installed"


class Broken:
    name = "broken"

    def missing(self, workload):
        return None

    def prepare(self, workload, q, k, v):
        raise RuntimeError("out of memory\nlong story")


@pytest.fixture
def results():
    kernels: dict[str, Any] = {
        "good": FakeKernel(),
        "list": FakeKernel(persistent=True),
        "bad": FakeKernel(0.5),
        "f16": FakeKernel(dtype="f16"),
    }
    peers: list[Any] = [Absent(), Broken()]
    return run_suite(kernels, [SIZE], FakeDevice(), peers=peers, settings=Settings(1, 2, 3))


def test_each_implementation_gets_its_status(results):
    assert {r.name: r.status for r in results} == {
        "good": "ok",
        "list": "ok",
        "bad": "wrong",
        "f16": "failed",
        "absent": "missing",
        "broken": "failed",
    }
    by_name = {r.name: r for r in results}
    assert by_name["good"].timing.samples == (0.5, 0.5, 0.5)
    assert by_name["bad"].timing is None and by_name["bad"].check.max_abs_error > 0.4
    assert by_name["broken"].reason == "out of memory"


def test_a_persistent_kernel_gets_its_work_list():
    kernel: Any = FakeKernel(persistent=True)
    run_suite({"k": kernel}, [SIZE], FakeDevice(), peers=[], settings=Settings(0, 1, 1))
    tasks, offsets = kernel.seen[0]
    assert len(offsets) == 4 and {decode(int(t)) for t in tasks} == {(t, h, 0) for t in (0, 1) for h in (0, 1)}


def test_wrong_kernels_are_not_timed():
    device = FakeDevice()
    bad: Any = FakeKernel(0.5)
    run_suite({"bad": bad}, [SIZE], device, peers=[])
    assert device.timed == []


def test_files_are_complete_and_say_what_is_missing(results, tmp_path):
    env = environment({"name": "no GPU"}, {"good": {"source": "text"}})
    folder = write_results(tmp_path / "results", results, env, now=NOW, plotter=lambda *_: "no plotter")
    assert folder.name == "20260921T101112Z"
    assert {p.name for p in folder.iterdir()} == {"results.json", "environment.json", "summary.csv", "summary.md"}
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    document = json.loads((folder / "results.json").read_text())
    assert document["complete"] is False and document["plot"] == {"file": None, "reason": "no plotter"}
    assert [r["status"] for r in document["results"]].count("ok") == 2
    rows = list(csv.DictReader((folder / "summary.csv").open()))
    assert [r["status"] for r in rows] == [r.status for r in results] and rows[-2]["reason"] == "it is not installed"
    text = (folder / "summary.md").read_text()
    assert "absent, B=1" in text and "MISSING" in text and "WRONG" in text and "plot: not made: no plotter" in text
    kept = json.loads((folder / "environment.json").read_text())
    assert len(kept["kernels"]["good"]["source"]) == 64 and kept["device"]["name"] == "no GPU"


def test_a_second_run_in_the_same_second_keeps_both(results, tmp_path):
    names = [write_results(tmp_path, results, {}, now=NOW, plotter=lambda *_: "no").name for _ in range(3)]
    assert names == ["20260921T101112Z", "20260921T101112Z-2", "20260921T101112Z-3"]


def test_a_break_leaves_no_half_folder(results, tmp_path):
    def explode(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_results(tmp_path, results, {}, plotter=explode)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_diagnostic(results, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="E-4180"):
        write_results(tmp_path / "file" / "results", results, {})


def test_the_plot_is_drawn_where_matplotlib_is(results, tmp_path):
    pytest.importorskip("matplotlib")
    folder = write_results(tmp_path, results, {}, now=NOW)
    assert (folder / "throughput.png").read_bytes().startswith(b"\x89PNG")


def test_every_panel_of_the_plot_holds_its_longest_bar(tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures: list[Any] = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    sizes = [AttentionWorkload(1, 2, seq, 64) for seq in (512, 4096, 16384)]
    found = [
        Result(name, size, "ok", timing=Timing((1.0 * scale, 1.3 * scale)))
        for size, scale in zip(sizes, (1.0, 20.0, 90.0), strict=True)
        for name in ("v4", "peer")
    ]
    assert draw([*found, Result("absent", sizes[0], "missing", "not there")], tmp_path / "plot.png") is None
    longest = max(r.workload.tflops(r.timing.best) for r in found if r.timing is not None)
    for axis in figures[0].axes:
        assert axis.get_xlim()[0] == 0
        assert axis.get_xlim()[1] > longest
        assert all(0 < bar.get_width() < axis.get_xlim()[1] for bar in axis.patches)


def test_the_plot_is_marked_where_matplotlib_is_not(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = write_results(tmp_path, results, {}, now=NOW)
    assert "matplotlib is not installed" in (folder / "summary.md").read_text()


def test_summaries_hold_the_published_numbers():
    result = Result("FA3", AttentionWorkload(), "ok", timing=Timing((5.2, 5.3025, 5.4)))
    assert "5.30250,5.20000,5.40000,414.7" in summary_csv([result])
    assert "| FA3 | 5.3025 / 414.7 |" in summary_markdown([result], {}, None)


def test_rounds_alternate_their_order_and_leave_out_what_breaks():
    order = []

    def timer(name):
        def run():
            order.append(name)
            if name == "c" and len(order) > 3:
                raise LaunchError([make("E-4000", None, "gone")])
            return float(len(order))

        return run

    rounds = interleave({name: timer(name) for name in "abc"}, 3)
    assert "".join(order) == "abccbaab"
    assert set(rounds.timings) == {"a", "b"} and "gone" in rounds.failures["c"]
    assert rounds.timings["a"].samples == (1.0, 6.0, 7.0) and rounds.timings["a"].median == 6.0


def test_fa3_says_why_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    peer = next(peer for peer in PEERS if peer.name == "FA3")
    assert "install `torch`" in (peer.missing(SIZE) or "")
    assert "f16" in (peer.missing(AttentionWorkload(dtype="f16")) or "")


def test_timing_statistics():
    timing = Timing((2.0, 1.0, 4.0))
    assert (timing.median, timing.best, timing.worst, timing.spread) == (2.0, 1.0, 4.0, 1.5)
    with pytest.raises(ValueError, match="at least one"):
        Timing(())
    assert np.isclose(timing.to_json(AttentionWorkload())["tflops"], AttentionWorkload().tflops(2.0))
