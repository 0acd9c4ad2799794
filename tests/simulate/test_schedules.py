"""What schedules are for: kernels that are right under all of them, mistakes that only some bring to light."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from croq.ir import hw
from croq.ir.core import Block
from croq.ir.scalar import Binary, Const
from croq.simulate import SimulationFault, Watcher, run

SCHEDULES = ["eager", "lazy", *(f"hostile:{k}" for k in (0, 1, 5, 100)), *(f"random:{seed}" for seed in range(4))]


class Recorder(Watcher):
    """A watcher that writes down what it sees."""

    def __init__(self):
        self.trace = []

    def touch(self, warp, op, place, *, write, together=False):
        self.trace.append((warp.index, op.NAME, write))

    def load(self, warp, lane, op, source, dest, barrier):
        self.trace.append((warp.index, op.NAME, dest.units.at.tobytes()))

    def store(self, warp, lane, op, source, dest, group):
        self.trace.append((warp.index, op.NAME, group))

    def multiply(self, warp, mma, places, group):
        self.trace.append((warp.index, mma.op.NAME, group))


@pytest.fixture
def gemm(lower, cases):
    """A fresh GEMM ring, its arrays and its reference."""
    path = Path(__file__).resolve().parent.parent / "cases" / "gemm_ring.co"
    kernel = lower(path, {"STAGES": 2})
    generator = np.random.default_rng(5)
    m, n, k = 64, 128, 320
    arrays = {
        "a": generator.uniform(-1, 1, (m, k)).astype("bfloat16"),
        "b": generator.uniform(-1, 1, (n, k)).astype("bfloat16"),
        "c": np.full((m, n), np.nan, "bfloat16"),
    }
    want = arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64).T
    return kernel, arrays, want


def right(gemm, schedule, races=False):
    """Whether the kernel's result is the reference's under a schedule."""
    kernel, arrays, want = gemm
    arrays["c"][...] = np.nan
    run(kernel, arrays, schedule=schedule, races=races)
    return bool(np.allclose(arrays["c"].astype(np.float64), want, atol=1e-2, rtol=1e-2))


def ever_wrong(gemm, schedules=SCHEDULES):
    """Whether some schedule gives a wrong result or a fault."""
    for schedule in schedules:
        try:
            if not right(gemm, schedule):
                return True
        except SimulationFault:
            return True
    return False


def remove(block: Block, unwanted) -> int:
    """Take out every operation that `unwanted` names; how many there were."""
    count = 0
    for op in list(block.ops):
        if unwanted(op):
            block.ops.remove(op)
            count += 1
        else:
            count += sum(remove(region, unwanted) for region in op.regions())
    return count


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_right_kernel_is_right_under_every_schedule(gemm, schedule):
    assert right(gemm, schedule, races=True)


def found(gemm, schedule="eager"):
    """The race that is reported: code, the source lines of fault and labels."""
    with pytest.raises(SimulationFault) as fault:
        right(gemm, schedule, races=True)
    (diagnostic,) = fault.value.diagnostics
    assert any(f"schedule `{schedule}`" in note for note in diagnostic.notes)
    assert diagnostic.span is not None
    return diagnostic.code, diagnostic.span.text, [label.span.text for label in diagnostic.labels], diagnostic


def _always(watch: Watcher) -> Callable[[object], Watcher]:
    return lambda block: watch


def test_equal_seeds_give_equal_runs(gemm):
    kernel, arrays, _ = gemm
    seen = []
    for schedule in ("random:11", "random:11", "random:12"):
        watch = Recorder()
        run(kernel, arrays, schedule=schedule, watch=_always(watch))
        seen.append(watch.trace)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]
    assert {name for _, name, _ in seen[0]} >= {"bulk_tensor.load", "wgmma.issue", "reg.store", "bulk_tensor.store"}


def test_a_missing_wait_for_the_full_slot_shows(gemm):
    kernel = gemm[0]
    assert remove(kernel.body, lambda op: isinstance(op, hw.MbarrierWait) and op.event.name == "full") == 1
    assert ever_wrong(gemm)
    code, place, others, report = found(gemm)
    assert (code, place) in [("E-5040", "step = mma.row.row.async acc, a_buf[slot], b_buf[slot];"), ("E-5046", place)]
    code, place, others, report = found(gemm, "hostile:0")
    assert code == "E-5040"
    assert place.startswith("step = mma.row.row.async") and others[0].startswith("a_load = tma.load.async")
    assert report.hint == "wait for `full` between the two"


def test_a_missing_wait_for_the_empty_slot_shows(gemm):
    kernel = gemm[0]
    assert remove(kernel.body, lambda op: isinstance(op, hw.MbarrierWait) and op.event.name == "empty") == 1
    assert ever_wrong(gemm)
    for schedule in SCHEDULES:
        code, place, _, _ = found(gemm, schedule)
        assert code in ("E-5014", "E-5015", "E-5041", "E-5042", "E-5044", "E-5048", "E-5049")
        assert "a_load" in place or "full" in place


def test_a_wait_of_the_wrong_parity_shows(gemm):
    kernel = gemm[0]
    for op in kernel.walk():
        if isinstance(op, Binary) and op.op == "xor":
            op.op = "or"  # `1` for ever instead of the flipped parity
    assert ever_wrong(gemm)


def test_a_wait_that_is_too_shallow_shows(gemm):
    kernel = gemm[0]
    (wait,) = [op for op in kernel.walk() if isinstance(op, hw.WgmmaWait)]
    wait.depth = 1
    assert ever_wrong(gemm)
    for schedule in ("eager", "hostile:1"):
        code, _place, others, report = found(gemm, schedule)
        assert code in ("E-5018", "E-5041")
        assert others[0].startswith("step = mma") and "`wait step`" in report.hint


def test_a_slot_released_before_the_mma_has_read_it_shows(gemm):
    kernel = gemm[0]
    for op in kernel.walk():
        for block in op.regions():
            waits = [o for o in block.ops if isinstance(o, hw.WgmmaWait)]
            for wait in waits:  # to the end of the loop's body: after the arrival
                block.ops.remove(wait)
                block.ops.append(wait)
    assert right(gemm, "eager")
    assert ever_wrong(gemm)
    code, place, others, _ = found(gemm)  # though the numbers are right under this schedule
    assert code == "E-5041"
    assert place.startswith("a_load = tma.load.async") and others[0].startswith("step = mma")


def test_one_arrival_for_four_warps_shows(gemm):
    """The other warps' shares of an MMA may still read when the first warp's wait is over."""
    kernel = gemm[0]
    for op in kernel.walk():
        if isinstance(op, hw.MbarrierInit) and op.event.name == "empty":
            op.count = 1
        if isinstance(op, hw.Elect) and op.scope == "warp":
            op.scope = "warpgroup"
    assert ever_wrong(gemm, [f"random:{seed}" for seed in range(40)])
    assert right(gemm, "eager")
    code, _place, _others, _report = found(gemm)
    assert code in ("E-5041", "E-5044", "E-5049")


def test_a_count_that_is_too_high_is_a_deadlock(gemm):
    kernel = gemm[0]
    for op in kernel.walk():
        if isinstance(op, hw.MbarrierInit) and op.event.name == "empty":
            op.count = 5
    with pytest.raises(SimulationFault) as fault:
        right(gemm, "eager")
    diagnostic = fault.value.diagnostics[0]
    assert diagnostic.code == "E-5010"
    assert diagnostic.span is not None
    assert "gemm_ring.co" in diagnostic.render()
    assert diagnostic.labels


def test_a_barrier_missing_before_the_store_shows(gemm):
    kernel = gemm[0]
    assert remove(kernel.body, lambda op: isinstance(op, hw.NamedBarrierSync)) == 1
    assert ever_wrong(gemm)
    code, place, _others, _ = found(gemm, "lazy")
    assert code in ("E-5043", "E-5045", "E-5046")
    assert place.startswith("tma.copy c_buf")


def test_a_fence_missing_before_the_store_is_reported_though_numbers_are_right(gemm):
    kernel = gemm[0]
    assert remove(kernel.body, lambda op: isinstance(op, hw.ProxyFence)) == 1
    assert not ever_wrong(gemm, SCHEDULES[:3])
    for schedule in SCHEDULES:
        code, place, others, _ = found(gemm, schedule)
        assert code == "E-5045"
        assert place.startswith("tma.copy c_buf") and others == ["mma.store acc, c_buf"]


def test_constants_are_not_shared_between_runs(gemm):
    kernel = gemm[0]
    assert any(isinstance(op, Const) for op in kernel.walk())
    assert right(gemm, "eager")
    assert right(gemm, "eager")
