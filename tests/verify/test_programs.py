"""Whole programs: what ships and what must work is proved, as written and as lowered; mutants are refused."""

from __future__ import annotations

import time

import pytest

from croq.diagnostics import CompileError
from croq.ir.hw import ProxyFence
from croq.ir.rewrite import rewrite_blocks
from croq.verify import Options, Verdict, blame, verify_protocol
from tests.verify.helpers import kernels, read, source_mutants

SHIPPED = [f"kernels/v{n}.co" for n in (1, 2, 3, 4)]
CASES = [f"tests/cases/{n}.co" for n in ("attention_d64", "gemm_ring", "gemm_two_halves", "saxpy")]
PROGRAMS = [
    f"tests/programs/{n}.co"
    for n in (
        "attn_streams",
        "branches",
        "chain_b",
        "gemm_persistent",
        "gemm_relay",
        "ready_twice",
        "slot_events",
        "turns",
    )
]


def one(path: str, level: str = "hw", **defines: str) -> Verdict:
    after = "participants" if level == "tile" else None
    (kernel,) = kernels(read(path), path, after, **defines)
    return verify_protocol(kernel, level=level)  # type: ignore[arg-type]


def lines(path: str, *texts: str) -> list[int]:
    """Numbers of the lines that begin with one of the texts."""
    return [n for n, line in enumerate(read(path).splitlines(), 1) if line.strip().startswith(texts)]


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize("path", SHIPPED + CASES + PROGRAMS)
def test_program_is_proved(path: str, level: str) -> None:
    found = one(path, level)
    assert found.proved, "\n".join([str(found), *(d.render() for d in found)])


@pytest.mark.parametrize("stages", ["1", "2", "5"])
def test_ring_of_any_depth_is_proved_past_its_second_round(stages: str) -> None:
    found = one("tests/cases/gemm_ring.co", STAGES=stages)
    assert found.proved, found
    assert all(max(loop.trips) >= 2 * int(stages) + 1 for loop in found.coverage.loops)


def test_bounds_are_what_the_verdict_says() -> None:
    loads, steps = lines("kernels/v4.co", "foreach")
    found = one("kernels/v4.co")
    assert str(found) == f"proved for all schedules, trip counts line {loads}: 1..8; line {steps}: 0..7"
    tasks = one("kernels/v3.co")
    trips = {loop.line: loop.trips for loop in tasks.coverage.loops}
    for line in lines("kernels/v3.co", "foreach {index}", "foreach {step}"):  # tasks of a CTA, steps of a task
        assert 0 in trips[line] and max(trips[line]) >= 4
    assert "budget" in str(tasks) and not tasks.coverage.complete


def test_it_is_quick() -> None:
    """The bound holds with room on two busy cores; what it takes is a tenth of that."""
    (kernel,) = kernels(read("kernels/v4.co"))
    started = time.process_time()
    assert verify_protocol(kernel).proved
    assert time.process_time() - started < 1.0


def test_larger_bounds_are_honoured() -> None:
    (kernel,) = kernels(read("kernels/v4.co"))
    found = verify_protocol(kernel, options=Options(trips=12))
    assert found.proved and max(found.coverage.loops[0].trips) == 13


# ------------------------------------------------------------------------------------------------------------ mutants
# What is taken out, and what is right all the same: nobody waits for the last generation of `ve` in v4.
LAST_RELEASE = lines("kernels/v4.co", "trigger ve.at")[-1]
STILL_RIGHT = {
    "kernels/v4.co": (("wait", "trigger"), {f"line {LAST_RELEASE}: no `trigger ve.at(v_pipe_order++)`"}),
    "tests/cases/gemm_ring.co": ((), set()),
    "tests/cases/gemm_two_halves.co": ((), set()),
}


@pytest.mark.parametrize("path", STILL_RIGHT)
def test_mutants_of_the_source_are_refused(path: str) -> None:
    kinds, right = STILL_RIGHT[path]
    survivors = set()
    for what, text in source_mutants(read(path), *kinds):
        if outcome(text) == "proved":
            survivors.add(what)
    assert survivors == right


def outcome(text: str, **defines: str) -> str:
    """`proved`, or the code of what refuses the program."""
    try:
        (kernel,) = kernels(text, **defines)
    except CompileError as error:
        return error.diagnostics[0].code
    found = verify_protocol(kernel)
    return found.diagnostics()[0].code if not found.proved else "proved"


def test_early_release_is_right_only_where_another_ring_keeps_order() -> None:
    """K given back before QK is waited for. With rings of one depth the producer still waits for V of that very step
    before it loads K again; with a shallower K ring it does not. A static rule may refuse both (E-1121)."""
    wait, release = "          wait qk;\n", "          trigger ke.at(k_pipe_order++);\n"
    text = read("kernels/v4.co").replace(wait + release, release + wait)
    assert text != read("kernels/v4.co")
    assert outcome(text) in ("proved", "E-1121")
    assert outcome(text, K_STAGES="1") in ("E-6002", "E-1121")


# -------------------------------------------------------------------------------------------------------------- blame
def test_fault_of_the_program_is_called_that() -> None:
    text = read("tests/cases/gemm_ring.co").replace("wait full.at(order);", ";")
    lowered, written = kernels(text)[0], kernels(text, after="participants")[0]
    source = verify_protocol(written, level="tile")
    assert source.outcome == "fault"
    (found,) = blame(verify_protocol(lowered), source).diagnostics()
    assert found.notes[-1].startswith("the program itself does not order it: E-6")


def test_fault_of_the_lowering_is_called_that() -> None:
    text = read("tests/cases/gemm_ring.co")
    (kernel,) = kernels(text)
    rewrite_blocks(kernel.body, lambda op: [] if isinstance(op, ProxyFence) else None)
    source = verify_protocol(kernels(text, after="participants")[0], level="tile")
    (found,) = blame(verify_protocol(kernel), source).diagnostics()
    assert found.code == "E-6004"
    assert "fault of croq" in found.notes[-1]
