"""Loops of machine code, and budgets of the shipped kernels: what grows shows without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import croq
from croq.diagnostics import EnvironmentFault
from croq.driver.sass_stats import FunctionStats, render, statistics
from croq.target.sm90.pipes import PIPES, pipe_of
from croq.texts import shipped_kernels

BUDGETS = Path(__file__).parent / "budgets"
SASS = """
	.section	.text.f,"ax",@progbits
.text.f:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   ISETP.GE.AND P0, PT, R2, R3, PT ;
        /*0020*/               @P0 BRA `(.L_x_4) ;
.L_x_2:
        /*0030*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT ;
        /*0040*/                   UIADD3 UR4, UR4, 0x2, URZ ;
        /*0050*/                   FADD.FTZ R5, R5, R6 ;
        /*0060*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;
        /*0070*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R9], R10 ;
        /*0080*/              @!P1 BRA `(.L_x_5) ;
.L_x_3:
        /*0090*/                   LDL R7, [R1] ;                                              (*"SpillRefill"*)
        /*00a0*/              @!P2 BRA `(.L_x_2) ;
        /*00b0*/                   BRA `(.L_x_1) ;
.L_x_4:
        /*00c0*/                   EXIT ;
.L_x_5:
        /*00d0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R9], R10 ;
        /*00e0*/              @!P1 BRA `(.L_x_5) ;
        /*00f0*/                   BRA `(.L_x_3) ;
"""


def test_loops_are_natural_ones_and_waits_are_apart() -> None:
    (found,) = statistics(SASS)
    assert (found.name, found.instructions, found.waits) == ("f", 16, 1)
    outer, inner = found.loops
    assert (outer.first, outer.depth, outer.instructions) == (0x10, 1, 3)
    assert (inner.first, inner.depth, inner.tensor, inner.gaps, inner.spills) == (0x30, 2, 2, (2,), 1)
    assert inner.instructions == 9  # the jump back from the wait, too
    assert inner.pipes == {"control": 3, "lsu": 2, "tensor": 2, "fma": 1, "uniform": 1}
    assert found.hot is inner
    assert "<- hot" in render((found,)) and "2 tensor core instructions, 2 between them" in render((found,))


def test_code_without_loops_has_no_hot_one() -> None:
    (found,) = statistics(".text.g:\n        /*0000*/                   EXIT ;\n")
    assert found.hot is None and not found.loops


def test_an_opcode_has_one_pipe() -> None:
    every = [opcode for opcodes in PIPES.values() for opcode in opcodes]
    assert len(every) == len(set(every))
    assert [pipe_of(x) for x in ("UIADD3", "UTMALDG", "R2UR", "WHAT")] == ["uniform", "tma", "uniform", "other"]


def measured(name: str) -> dict[str, Any]:
    from croq.driver.bindings import nvrtc_release

    made = croq.compile(name).compilation
    (usage,), (function,) = made.image.usage, statistics(made.sass)
    hot = function.hot
    assert hot is not None
    return {
        "nvrtc": nvrtc_release(),
        "registers": usage.registers,
        "spilled": usage.spill_stores + usage.spill_loads,
        "shared": made.plan[0]["shared_bytes"],
        "remarks": len([w for w in made.image.warnings if w.code in ("W-3003", "W-3004", "W-3005")]),
        "tensor": hot.tensor,
        "instructions": hot.instructions,
        "spills in the hot loop": hot.spills,
        **{f"pipe {pipe}": count for pipe, count in sorted(hot.pipes.items())},
    }


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", shipped_kernels())
def test_a_shipped_kernel_stays_within_its_budget(name: str, request: pytest.FixtureRequest) -> None:
    """`--update-golden` records what there is; less is always fine."""
    try:
        now = measured(name)
    except EnvironmentFault as lacking:
        pytest.skip(str(lacking.diagnostics[0].message))
    path = BUDGETS / f"{name}.json"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    budget = json.loads(path.read_text(encoding="utf-8"))
    if budget["nvrtc"] != now["nvrtc"]:
        pytest.skip(f"recorded with NVRTC {budget['nvrtc']}, this is {now['nvrtc']}")
    over = {key: (now[key], budget.get(key, 0)) for key in now if key != "nvrtc" and now[key] > budget.get(key, 0)}
    assert not over, f"more than recorded (now, before): {over}"
    assert now["tensor"] == budget["tensor"]


def test_statistics_are_plain_data() -> None:
    (found,) = statistics(SASS)
    assert isinstance(found, FunctionStats)
    assert json.loads(json.dumps(found.to_json()))["loops"][1]["hot"] is True
