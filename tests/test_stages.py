"""Stages of a text: each made once, when it is asked for; their order stands in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from croq.diagnostics import CompileError, Sink
from croq.stages import Stages
from croq.texts import load

CROQ = Path(__file__).resolve().parent.parent / "croq"
ORDERING = re.compile(r"\b(parse_program|analyse|build|emit_cuda|pipeline\.run)\(")


def test_nothing_but_stages_puts_one_stage_behind_another():
    found = {}
    for path in CROQ.rglob("*.py"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "def " not in line]
        calls = {match[1] for line in lines for match in ORDERING.finditer(line)}
        if len(calls) > 1:
            found[str(path.relative_to(CROQ))] = sorted(calls)
    assert found == {"stages.py": ["analyse", "build", "emit_cuda", "parse_program", "pipeline.run"]}


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ("program", ["parse"]),
        ("model", ["parse", "analyse"]),
        ("tile_ir", ["parse", "analyse", "build"]),
        ("cuda", ["recall", "parse", "analyse", "build", "passes", "emit"]),
    ],
)
def test_a_stage_makes_what_it_needs_and_nothing_behind_it(monkeypatch, tmp_path, asked, made):
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    stages = Stages(load("v1"))
    first = getattr(stages, asked)
    assert list(stages.seconds) == made
    assert getattr(stages, asked) is first


def test_a_recalled_text_makes_the_stages_in_front_of_the_ir_only_when_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    text = Stages(load("v1")).cuda
    again = Stages(load("v1"))
    assert again.cuda == text and list(again.seconds) == ["recall"]
    assert again.model.functions and list(again.seconds) == ["recall", "parse", "analyse"]


def test_modules_that_passes_may_change_are_made_anew():
    stages = Stages(load("v1"))
    assert stages.tile(Sink()) is not stages.tile(Sink())
    assert stages.after("events").kernels[0] is not stages.after("events").kernels[0]
    assert stages.written("flash_atten").known_threads


def test_the_time_of_a_stage_is_that_of_its_first_making():
    stages = Stages(load("v1"))
    assert stages.tile_ir
    first = dict(stages.seconds)
    assert stages.written("flash_atten").known_threads and stages.seconds == first


def test_the_first_stage_that_fails_says_all_that_it_found():
    stages = Stages(load("__co__ void k(global f32 [N] x) { y = z; w = q; }"))
    with pytest.raises(CompileError) as caught:
        _ = stages.lowered
    assert len(caught.value.diagnostics) == 2
