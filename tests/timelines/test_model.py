"""The parts of the time model by themselves: counting of instructions, sharing of pipes, fetches, loops."""

from pathlib import Path

import numpy as np
import pytest

from croq.ir import hw
from croq.ir.objects import Event
from croq.simulate.barriers import Mbarrier
from croq.simulate.faults import SimulationFault
from croq.target import DEFAULT
from croq.timelines.costs import Work, of_map, of_statement
from croq.timelines.record import Place, Step
from croq.timelines.replay import replay
from croq.timelines.timeline import timeline

ROOT = Path(__file__).resolve().parent.parent.parent
NOWHERE = Place((), ())


@pytest.fixture(scope="module")
def maps(lower):
    """The statements of v4 on registers."""
    kernel = lower(ROOT / "kernels" / "v4.co")
    return [op for op in kernel.walk() if isinstance(op, (hw.RegMap, hw.RegReduceRow, hw.RegShuffleReduce))]


def _map(maps, text):
    """The first map whose source has a text."""
    return next(op for op in maps if isinstance(op, hw.RegMap) and op.span is not None and text in op.span.text)


class TestCounting:
    def test_exponentials_of_a_tile(self, maps):
        work = of_map(DEFAULT, _map(maps, "= __exp2f(acc_s"))
        assert work.xu == 64 and work.alu == 0
        assert work.fma == 64  # a multiply-add an element
        assert max(work.pipes(DEFAULT)) == 64 * DEFAULT.cycles("xu")

    def test_conversions_go_in_pairs(self, maps):
        assert of_map(DEFAULT, _map(maps, "__to<bf16>")).alu == 32

    def test_a_sum_along_a_row_is_one_addition_an_element(self, maps):
        work = of_map(DEFAULT, _map(maps, "logsum.at(i) + acc_s"))
        assert (work.fma, work.xu, work.alu) == (64, 0, 0)

    def test_a_mask_compares_and_selects(self, maps):
        assert of_map(DEFAULT, _map(maps, "= -inf")).alu >= 128

    def test_a_row_maximum(self, maps):
        (reduce, *_) = [op for op in maps if isinstance(op, hw.RegReduceRow)]
        assert of_statement(DEFAULT, reduce).alu == 64

    def test_shuffles_have_rounds(self, maps):
        (shuffle, *_) = [op for op in maps if isinstance(op, hw.RegShuffleReduce)]
        work = of_statement(DEFAULT, shuffle)
        assert work.lsu == 2 * 2 and work.latency == 2 * DEFAULT.cycles("shuffle")


def _work(**pipes):
    return Step(hw.WarpSync(), "work", NOWHERE, work=Work(**pipes))


def _ends(steps):
    return {warp: done[-1].end for warp, done in replay(DEFAULT, steps).steps.items()}


class TestSharing:
    def test_alone(self):
        assert _ends({0: [_work(xu=64)]}) == {0: pytest.approx(64 * DEFAULT.cycles("xu"))}

    def test_warps_of_one_quarter_share_a_pipe(self):
        assert _ends({0: [_work(xu=64)], 4: [_work(xu=64)]}) == dict.fromkeys((0, 4), pytest.approx(1024))

    def test_warps_of_other_quarters_do_not(self):
        assert _ends({0: [_work(xu=64)], 1: [_work(xu=64)]}) == dict.fromkeys((0, 1), pytest.approx(512))

    def test_other_pipes_run_side_by_side(self):
        ends = _ends({0: [_work(xu=64)], 4: [_work(alu=100)]})
        assert ends == {0: pytest.approx(512), 4: pytest.approx(210)}

    def test_who_comes_later_gets_what_is_left(self):
        ends = _ends({0: [_work(xu=32)], 4: [_work(alu=50), _work(xu=32)]})
        assert ends[0] == pytest.approx(256 + (256 - 105))
        assert ends[4] == pytest.approx(512)

    def test_latency_occupies_nothing(self):
        slow = [_work(xu=1, latency=100)]
        assert _ends({0: slow, 4: [_work(xu=1, latency=100)]}) == dict.fromkeys((0, 4), pytest.approx(116))


def test_a_record_that_cannot_be_replayed_is_a_fault_of_ours():
    """Two warps that each wait for the other: no run has such a record."""
    event = Event("e", slots=2, array=True)
    one, two = Mbarrier(event, 0), Mbarrier(event, 1)

    def steps(waited, counted):
        op = hw.WarpSync()
        return [
            Step(op, "wait", NOWHERE, barrier=waited, generation=0),
            Step(op, "arrive", NOWHERE, barrier=counted, generation=0, amount=1),
        ]

    with pytest.raises(SimulationFault, match="E-5099"):
        replay(DEFAULT, {0: steps(one, two), 1: steps(two, one)})


def test_fetches_that_do_not_depend_on_each_other_overlap(lower):
    kernel = lower(ROOT / "tests" / "cases" / "saxpy.co")
    arrays = {name: np.ones(256, np.float32) for name in "xy"}
    shown = timeline(kernel, arrays, {"a": 2.0})
    assert DEFAULT.cycles("global") < shown.cycles < 1.5 * DEFAULT.cycles("global")


CHASE = """
__co__ void f(global s32 [N] next, global s32 [N] out) {
  parallel b by 1 : block {
    parallel t by 32 : thread {
      mutable s32 at = 0;
      mutable s32 hops = 0;
      while (hops < 5) {
        at = next.at(at);
        hops = hops + 1;
      }
      out.at(t) = at;
    }
  }
}
"""


def test_iterations_of_a_while_are_steps(lower):
    arrays = {"next": np.arange(1, 33, dtype=np.int32) % 32, "out": np.zeros(32, np.int32)}
    shown = timeline(lower(CHASE), arrays, steps=3)
    assert (shown.steps, shown.all_steps) == (3, 5)
    assert (arrays["out"] == 5).all()


def test_a_ring_of_one_slot_waits_for_the_consumer(lower):
    """A second generation of a slot is loaded only after the first has been released."""
    kernel = lower(ROOT / "kernels" / "v4.co", {"K_STAGES": 1})
    arrays = {n: np.zeros((1, 512, 1, 128), "bfloat16") for n in "QKVO"}
    shown = timeline(kernel, arrays)
    loads = [s for t in shown.tracks if t.group == "load" for s in t.spans if s.details["event"] == "kf[0]"]
    releases = [s for t in shown.tracks if t.group == "warps" for s in t.spans if s.label == "arrive ke[0]"]
    assert len(loads) == 4
    for load in sorted(loads, key=lambda s: s.start)[1:]:
        released = [s for s in releases if s.details["generation"] == load.details["generation"] - 1]
        assert released and max(s.start for s in released) < load.start
