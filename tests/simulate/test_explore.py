"""Many schedules at once: which they are, right programs under some of them, the first fault, results that differ."""

import re

import numpy as np
import pytest

import croq
from croq.diagnostics import LaunchError
from croq.kernel import explore as explore_kernel
from croq.simulate import SimulationFault, run
from croq.simulate.explore import choose_schedules, explore
from croq.simulate.hostile import plan, plans
from tests.command_line import croq as command
from tests.simulate.programs import ROOT, cases, programs, shipped

GEMM = ROOT / "tests" / "cases" / "gemm_ring.co"
SIZES = ("--shape", "M=64", "--shape", "N=128", "--shape", "K=192")
RACE = """
__co__ void f(global s32 [N] x, global s32 [N] y) {
  parallel b by 1 : block {
    shared s32 [128] part;
    parallel t by 128 : thread {
      part.at(t) = x.at(t);
      y.at(t) = part.at(127 - t);
    }
  }
}"""


# ------------------------------------------------------------------------------------------------- choice of schedules
def test_few_and_many_schedules_are_chosen(lower):
    kernel = lower(GEMM)
    assert choose_schedules([kernel], 1) == ["eager"]
    assert choose_schedules([kernel], 4) == ["eager", "lazy", "hostile:0", f"hostile:{len(plans(kernel)) - 1}"]
    many = choose_schedules([kernel], 200)
    assert len(set(many)) == 200
    known = [f"hostile:{number}" for number in range(len(plans(kernel)))]
    assert many == ["eager", "lazy", *known, *(f"random:{seed}" for seed in range(198 - len(known)))]


def test_hostile_plans_delay_each_operation_and_each_warp(lower):
    kernel = lower(GEMM)
    what = [plan(kernel, number).what for number in range(len(plans(kernel)))]
    assert len(what) == 2 + 5 + 2 * 8  # two loads, an MMA, a store in two instructions; eight warps
    assert what[0] == "everything late, who issues loads first"
    assert any(re.fullmatch(r"bulk_tensor.load at line \d+ late", text) for text in what)
    assert plans(kernel)[0].order[0] == 0
    drawn = [plan(kernel, number) for number in (500, 500, 501)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[2].order) == list(range(8))


# --------------------------------------------------------------------------------------------------- right programs
KERNELS = ["v2", "v4", "saxpy-small", "gemm_ring-tail-STAGES2", "gemm_two_halves-small", "attention_d64-small"]
SAMPLE = ["attn_bias-narrow", "gemm_futures", "gemm_relay-one_stage", "handoff", "slot_events-s2", "softmax_rows-c8",
          "sub_warps", "tma_box", "tree_sum", "two_launches", "uniform_fragments", "writers-w2_s1"]  # fmt: skip


@pytest.mark.parametrize("subject", [s for s in programs() if s.name in SAMPLE], ids=lambda s: s.name)
def test_a_sample_of_programs_has_no_report(subject):
    found = subject.explore(8, jobs=1)
    assert found.ok, (found.schedule, found.diagnostics[0].render())
    assert len(found.schedules) == 8


@pytest.mark.parametrize("subject", [s for s in (*shipped(), *cases()) if s.name in KERNELS], ids=lambda s: s.name)
def test_kernels_have_no_report(subject):
    found = subject.explore(6, jobs=1)
    assert found.ok, (found.schedule, found.diagnostics[0].render())


def test_hostile_runs_all_plans_on_the_same_inputs(lower):
    kernel = lower(GEMM)
    generator = np.random.default_rng(0)
    arrays = {
        "a": generator.uniform(-1, 1, (64, 128)),
        "b": generator.uniform(-1, 1, (128, 128)),
        "c": np.zeros((64, 128)),
    }
    arrays = {name: array.astype("bfloat16") for name, array in arrays.items()}
    want = arrays["a"].astype("f8") @ arrays["b"].astype("f8").T
    steps = []
    report = run(
        kernel, arrays, schedule="hostile", races=True, progress=lambda done, total: steps.append((done, total))
    )
    assert report.schedule == "hostile"
    assert steps[-1] == (len(plans(kernel)), len(plans(kernel)))
    np.testing.assert_allclose(arrays["c"].astype("f8"), want, atol=2e-2, rtol=2e-2)


def test_in_place_updates_start_from_the_same_values_each_time(lower):
    text = RACE.replace("y.at(t) = part.at(127 - t)", "y.at(t) = y.at(t) + part.at(t)")
    arrays = {"x": np.arange(128, dtype=np.int32), "y": np.ones(128, np.int32)}
    run(lower(text), arrays, schedule="hostile", races=True)
    assert (arrays["y"] == arrays["x"] + 1).all()


# ------------------------------------------------------------------------------------------------------------- faults
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_first_fault_ends_it(jobs):
    def simulate(schedule, arrays):
        if schedule in ("random:2", "random:5"):
            raise croq.LaunchError([croq.Diagnostic("E-5010", f"deadlock of {schedule}")])
        arrays["y"][0] = 1

    y = np.zeros(4, np.int32)
    seen = []
    schedules = [f"random:{seed}" for seed in range(8)]
    found = explore(
        simulate,
        {"y": y},
        frozenset("y"),
        schedules,
        jobs=jobs,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert found.schedule == "random:2"
    assert found.schedules == ("random:0", "random:1", "random:2")
    assert found.diagnostics[0].message == "deadlock of random:2"
    assert not found.ok
    assert seen == [(1, 8), (2, 8), (3, 8)]
    assert not y.any()


def test_results_that_differ_are_a_fault():
    def simulate(schedule, arrays):
        arrays["y"][0] = schedule == "lazy"

    found = explore(simulate, {"y": np.zeros(4, np.int32)}, frozenset("y"), ["eager", "random:1", "lazy"], jobs=1)
    assert found.schedule == "lazy"
    assert found.diagnostics[0].code == "E-5052"
    assert "`lazy` are not those under `eager`" in found.diagnostics[0].message


def test_a_compiled_kernel_is_explored_and_its_arguments_stay():
    kernel = croq.compile(GEMM)
    a, b = (np.ones((n, 128), "bfloat16") for n in (64, 128))
    c = np.zeros((64, 128), "bfloat16")
    found = explore_kernel(kernel, a, b, c, schedules=5)
    assert found.ok and len(found.schedules) == 5
    assert not c.any()
    with pytest.raises(LaunchError) as fault:
        explore_kernel(kernel, a, b, c, schedules=0)
    assert fault.value.diagnostics[0].code == "E-4070"


def test_races_are_looked_for_unless_told_otherwise():
    kernel = croq.compile(RACE, verify=False)
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    with pytest.raises(SimulationFault) as fault:
        croq.simulate(kernel, x, y, schedule="lazy")
    assert fault.value.diagnostics[0].code in ("E-5043", "E-5046")
    croq.simulate(kernel, x, y, races=False)


# ------------------------------------------------------------------------------------------------------- command line
def sim(*arguments):
    return command("sim", *arguments)


def test_command_with_many_schedules():
    result = sim(GEMM, *SIZES, "--schedules", 4, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "4 schedules" in result.stdout and "no race was found" in result.stdout


def test_command_tells_how_to_see_a_fault_again(tmp_path):
    file = tmp_path / "race.co"
    file.write_text(RACE)
    result = sim(file, "--shape", "N=128", "--schedules", 5)
    assert result.exit_code == 1
    assert "error[E-50" in result.output
    assert "found with schedule 1 of 5" in result.output
    assert "with `--schedule eager` in place of `--schedules 5`" in result.output
    assert sim(file, "--shape", "N=128").exit_code == 1
    quiet = sim(file, "--shape", "N=128", "--no-races")
    assert quiet.exit_code == 0
    assert "races were not looked for" in quiet.output


def test_a_warp_that_spins_lets_others_by_under_hostile_schedules(lower):
    text = """
    __co__ void f(global s32 [N] x, global s32 [N] y) {
      parallel b by 1 : block {
        shared s32 [1] flag;
        parallel t by 64 : thread {
          if (t == 0) { mutable int n = 0; while (n != 5) { n = flag.at(0); } y.at(0) = n; }
          if (t == 32) flag.at(0) = 5;
        }
      }
    }"""
    arrays = {"x": np.zeros(64, np.int32), "y": np.zeros(64, np.int32)}
    kernel = lower(text)
    for schedule in ("eager", "lazy", "hostile", "hostile:77", "random:0"):
        arrays["y"][:] = 0
        run(kernel, arrays, schedule=schedule)
        assert arrays["y"][0] == 5
