"""Value numbering, simplification, small facts of values, and the pipeline itself."""

from __future__ import annotations

import pytest

from croq.diagnostics import CompileError, Sink
from croq.ir.hw import CtaSync, NamedBarrierSync
from croq.ir.objects import Kernel, Module
from croq.ir.rewrite import Builder
from croq.ir.scalar import Binary, Const, VarGet
from croq.passes import pipeline
from croq.passes.analysis.values import divides, multiple_of
from tests.passes.helpers import every, lower, names, program, role, warpgroups

PARAMS = "global f32 [M, 64] x, global f32 [M, 64] y, global s32 [M] n"


def computed(body: str) -> Kernel:
    return lower(program(f"parallel t by 64 : thread {{ {body} }}", params=PARAMS))


def divisions(kernel: Kernel) -> list[str]:
    return [op.op for op in every(kernel, Binary) if op.op in ("div", "mod")]


def test_one_computation_for_one_value() -> None:
    kernel = computed("a = t / 7; y.at(0, t) = x.at(t / 7, 0) + x.at(a, 1);")
    assert divisions(kernel) == ["div"]


def test_it_takes_the_name_of_the_source() -> None:
    kernel = computed("y.at(0, t) = x.at(t / 7, 0); late = t / 7; y.at(1, t) = x.at(late, 1);")
    assert [op.result.name for op in every(kernel, Binary) if op.op == "div"] == ["late"]


@pytest.mark.parametrize(
    "body",
    [
        "mutable int v = 1; y.at(v / 3, t) = 1.0f; v = v + 1; y.at(v / 3, t) = 2.0f;",
        "mutable int v = 1; if (M > 3) { v = v + 1; y.at(v / 3, t) = 1.0f; } else { y.at(v / 3, t) = 2.0f; }",
        "mutable int v = 1; y.at(v / 3, t) = 1.0f; foreach i in [M] { v = v + 1; } y.at(v / 3, t) = 2.0f;",
        "if (M > 3) { y.at(t / 3, 0) = 1.0f; } y.at(t / 3, 1) = 1.0f;",
    ],
    ids=["assigned", "other-branch", "assigned-in-a-loop", "computed-in-a-branch"],
)
def test_values_that_are_not_one(body: str) -> None:
    assert divisions(computed(body)) == ["div", "div"]


@pytest.mark.parametrize(
    ("body", "kind", "count"),
    [
        ("s = t - 5; u = __to<u32>(s); if (s < 3) { y.at(0, t) = 1.0f; } if (u < 3u) { y.at(1, t) = 1.0f; }", "lt", 2),
        ("s = t - 5; u = __to<u32>(s); y.at(0, t) = __to<f32>(s); y.at(1, t) = __to<f32>(u);", "cast", 3),
        ("float f = x.at(0, t); y.at(__to<s32>(f), 0) = 1.0f; y.at(__to<s32>(__to<u32>(f)), 1) = 1.0f;", "cast", 3),
    ],
    ids=["comparison", "to-float", "from-float"],
)
def test_signs_matter(body: str, kind: str, count: int) -> None:
    """Conversions between 32-bit integers change no bits, but comparisons and conversions see them differently."""
    kernel = computed(body)
    found = [op.op for op in every(kernel, Binary)] + names(kernel, "cast")
    assert found.count(kind) == count


def test_barriers_with_nothing_in_between_are_one() -> None:
    body = "foreach i in [M] { tma.load x.subspan(4, 64).at(i, 0) => s;"
    body += "tma.copy s => y.subspan(4, 64).at(i, 0); sync.shared; sync.shared; }"
    kernel = lower(warpgroups(1, body, "shared f32 [4, 64] s;", params=PARAMS))
    assert len(every(kernel, CtaSync)) == 1 + 3  # the prologue's; before the load, before the store, after it


def test_different_barriers_are_two() -> None:
    body = "inthreads.async (p < 2) { inthreads (p < 1) { y.at(0, t % 64) = 1.0f; } }"
    body += "inthreads.async (p < 1) { inthreads (t < 1) { } }"
    kernel = lower(warpgroups(3, body, params=PARAMS))
    assert [op.count for op in every(kernel, NamedBarrierSync)] == [256, 128]


def test_a_variable_that_nothing_reads_is_not_read() -> None:
    kernel = computed("mutable int v = 1; int w = v; y.at(0, t) = 1.0f;")
    assert not every(kernel, VarGet)


# --------------------------------------------------------------------------------------------------------------- values
def test_multiples() -> None:
    build = Builder()
    value = build.symbol("n")
    cases = {64: build.binary("mul", value, 64), 8: build.binary("add", build.binary("mul", value, 24), 16)}
    cases[32] = build.binary("shl", build.binary("mul", value, 2), 4)
    assert {expected: multiple_of(made) for expected, made in cases.items()} == {64: 64, 8: 8, 32: 32}
    assert multiple_of(0) == 0 and multiple_of(value) == 1 and multiple_of(build.const("s32", -12)) == 12
    assert divides(64, 0) and divides(8, cases[64]) and not divides(16, cases[8]) and divides(1, value)
    assert isinstance(build.const("s32", 1).op, Const)


# ------------------------------------------------------------------------------------------------------------- pipeline
def test_passes_have_names_and_run_up_to_one_of_them() -> None:
    names_ = pipeline.names()
    assert names_[0] == "cta-level" and names_[-1] == "access" and len(set(names_)) == len(names_)
    seen: list[str] = []
    kernel = lower(program("parallel t by 64 : thread { y.at(0, t) = 1.0f; }", params=PARAMS), after="fragments")
    pipeline.run(Module(kernel.file, []), Sink(), observer=lambda name, kernel: seen.append(name))
    assert seen == []


def test_a_pass_that_does_not_exist() -> None:
    kernel = lower(program("y.at(0, 0) = 1.0f;", params=PARAMS))
    with pytest.raises(CompileError) as caught:
        pipeline.run(Module(kernel.file, [kernel]), Sink(), after="magic")
    (found,) = caught.value.diagnostics
    assert "magic" in found.message and "participants" in found.notes[0]


# --------------------------------------------------------------------------------------------------------------- narrow
FEED = """
inthreads.async (p == 0) {
  FIRST
  foreach k in [8] {
    wait empty.at(order);
    l = tma.load.async x.subspan(4, 64).at(k, 0) => s[order % 2];
    trigger full.at(order) after l;
    order = order + 1;
  }
}
inthreads.async (p == 1) { foreach k in [8] { wait full.at(k); y.at(k, t % 64) = 1.0f; trigger empty.at(k); } }
"""
RING = "shared f32 [4, 64] s[2]; shared event full[2]; shared event empty[2] = ready; mutable u32 order = 0;"


def feeder(first: str) -> Kernel:
    return lower(warpgroups(2, FEED.replace("FIRST", first), RING, params=PARAMS))


def test_a_role_that_only_feeds_is_one_threads() -> None:
    section = role(feeder(""), "p == 0")
    assert {str(op.threads) for op in every(section, type(every(section, Binary)[-1]))} >= {"{0..1}"}
    assert not names(section, "elect")


def test_a_counter_that_others_read_keeps_all_threads() -> None:
    section = role(feeder("y.at(0, t % 64) = __to<f32>(order);"), "p == 0")
    assert names(section, "elect") == ["elect"]
