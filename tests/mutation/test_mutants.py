"""Mutants of synchronisation: how they are made, and that a sample of them is caught. `make mutants` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from croq.compiler import compile_file
from croq.diagnostics import CroqError
from croq.settings import Settings
from croq.source import SourceFile
from croq.stages import Stages
from tools.mutants import report
from tools.mutants.baseline import Baseline, baseline_of, code
from tools.mutants.check import examine
from tools.mutants.lowered import lowered_mutants, make
from tools.mutants.model import apply_edits
from tools.mutants.source import source_mutants
from tools.mutants.subjects import ROOT, Run, Subject
from tools.mutants.sweep import plan, sweep

DOCUMENT = ROOT / "docs" / "mutants.md"
SAMPLED = ("gemm_ring", "gemm_two_halves", "attention_d64", "handoff", "turns-c2_s3", "slot_events-s3")
RELAY = """
__co__ void relay(global s32 [R, 128] x, global s32 [R, 128] y) {
  parallel b by 1 : block {
    shared s32 [128] line[2];
    shared event full[2];
    shared event free[2] = ready;
    parallel p by 2 : group-4, t by 128 : thread {
      inthreads.async (p == 0) {
        mutable u32 order = 0;
        foreach {r} in [R] {
          wait free.at(order);
          line[order % 2].at(t) = x.at(r, t);
          trigger full.at(order++);
        }
      }
      inthreads.async (p == 1) {
        foreach {r} in [R] {
          wait full.at(r);
          y.at(r, t) = line[r % 2].at(127 - t);
          trigger free.at(r);
        }
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def relay() -> Stages:
    return compile_file(SourceFile("relay.co", RELAY), Settings.of())


def _sources(compilation: Stages) -> dict[str, str]:
    mutants = source_mutants(compilation.program, "relay", "relay")
    return {m.mutant.id: apply_edits(RELAY, m.edits) for m in mutants}


def test_every_slip_of_the_pen_is_made(relay):
    slips = {name.split(":")[2] for name in _sources(relay)}
    assert slips == {
        "wait-removed", "trigger-removed", "trigger-early", "order+1", "step-removed", "start+1", "reset", "slot+1",
        "ready", "not-ready", "depth+1", "depth-1", "role-or-1", "role-or-0", "role-warp",
    }  # fmt: skip


def test_an_edit_changes_one_place(relay):
    for name, text in _sources(relay).items():
        changed = [(a, b) for a, b in zip(RELAY.splitlines(), text.splitlines(), strict=True) if a != b]
        assert 1 <= len(changed) <= 2, name


def test_mutants_parse_or_are_refused_with_a_code(relay):
    for name, text in _sources(relay).items():
        try:
            compile_file(SourceFile("relay.co", text), Settings.of())
        except CroqError as error:
            assert all(not d.code.startswith("E-9") for d in error.diagnostics), name


def test_lowered_mutants_leave_the_kernel_as_it_is(relay):
    (kernel,) = relay.module.kernels
    before = code(kernel)
    mutants = lowered_mutants(kernel, "relay")
    changed = [code(make(kernel, m)) for m in mutants]
    assert code(kernel) == before
    assert before not in changed
    assert len(set(changed)) == len({m.mutant.id for m in mutants}) == len(mutants)


def test_ids_are_the_same_every_time(relay):
    again = compile_file(SourceFile("relay.co", RELAY), Settings.of())
    assert list(_sources(relay)) == list(_sources(again))
    first, second = (lowered_mutants(c.module.kernels[0], "relay") for c in (relay, again))
    assert [m.mutant for m in first] == [m.mutant for m in second]


def test_a_kernel_that_is_wrong_itself_is_refused(relay):
    wrong = compile_file(SourceFile("relay.co", RELAY.replace(" = ready", "")), Settings.of())
    subject = Subject("relay", Path("relay.co"), "relay", ())
    assert not Baseline(subject, relay).refusals
    (refusal,) = Baseline(subject, wrong).refusals
    assert "E-6008" in refusal


def test_a_tool_that_dies_is_no_catch(monkeypatch):
    def die(kernel):
        raise RuntimeError("dead")

    monkeypatch.setattr("tools.mutants.check.verify_protocol", die)
    outcome = examine(baseline_of("handoff"), "lowered", 0)
    assert (outcome.stage, outcome.code) == ("crash", "RuntimeError")
    assert report.unaccounted([outcome], {outcome.mutant.id}) == [outcome]


def test_runs_draw_the_same_arguments_every_time():
    def bits(run: Run) -> list[bytes]:
        return [array.tobytes() for array in run.make()[0].values()]

    for name in ("gemm_ring", "v3", "handoff"):
        for run in baseline_of(name).subject.runs:
            assert bits(run) == bits(run)


def test_listed_survivors_exist():
    known = report.listed(DOCUMENT)
    assert known
    names = {name.split(":")[0] for name in known}
    made = {m.id for name in names for kind in ("source", "lowered") for m in baseline_of(name).mutants(kind)}
    assert known <= made, "synchronisation has changed: see `make mutants`"


def test_document_gives_each_survivor_one_line_with_an_argument():
    text = DOCUMENT.read_text().split("## Survivors")[1]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    names = [row[0] for row in rows]
    assert len(names) == len(set(names))
    assert all(len(row) == 3 and len(row[2]) > 10 for row in rows)


def test_sample_is_caught(tmp_path: Path):
    """Of those that are not listed: what survives takes the longest, and `make mutants` looks at it."""
    known = report.listed(DOCUMENT)
    wanted = [m for m in plan(SAMPLED, sample=60) if m.id not in known]
    assert wanted == [m for m in plan(SAMPLED, sample=60) if m.id not in known]
    outcomes = sweep(wanted, processes=1)
    assert [report.row(o, set()) for o in outcomes if not o.caught and o.stage != "same code"] == []
    assert {o.stage for o in outcomes} >= {"static", "verifier"}
    report.write_json(outcomes, tmp_path / "outcomes.json")
    assert report.summary(outcomes).splitlines()[-1].split()[1] == str(len(wanted))
