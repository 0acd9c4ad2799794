"""Pass `participants`: who executes what (P1 to P8), and what is the same in all threads."""

from __future__ import annotations

import pytest

from croq.ir.core import Op
from croq.ir.hw import CtaSync, Elect, Section
from croq.ir.objects import Kernel
from croq.ir.scalar import Call, For, LoadElement, StoreElement
from croq.ir.tile import EventTrigger, Sync
from croq.ir.types import ThreadSet
from tests.passes.helpers import codes, every, lower, names, program, reported, role, warpgroups

XY = "global f32 [M, 64] x, global f32 [M, 64] y"
STORE = "y.at(0, 0) = 1.0f;"


def after_participants(text: str) -> Kernel:
    return lower(text, after="participants")


def threads_of_store(body: str, count: int = 2) -> ThreadSet | None:
    """Who executes the first store of a program that has one statement of interest."""
    kernel = after_participants(warpgroups(count, body, params=XY))
    return every(kernel, StoreElement)[0].threads


def around(kernel: Kernel, op: Op) -> tuple[list[str], list[str]]:
    """What stands before and after the operation in its block: barriers and sections."""
    for block in [kernel.body, *(r for o in kernel.walk() for r in o.regions())]:
        if op in block.ops:
            at = block.ops.index(op)
            before, after = block.ops[:at], block.ops[at + 1 :]
            return [o.NAME for o in before[-1:]], [o.NAME for o in after[:1]]
    raise AssertionError("the operation is in no block")


@pytest.mark.parametrize(
    ("condition", "threads"),
    [
        ("p == 0", "{0..128}"),
        ("p > 0", "{128..256}"),
        ("p == 1 && t < 32", "{128..160}"),
        ("t == 5 || t == 6", "{5..7, 133..135}"),
        ("t % 2 == 1 && t < 4", "{1..2, 3..4, 129..130, 131..132}"),
        ("__to<u32>(t) - 64u > 1000u", "{0..64, 128..192}"),  # wraps around below 64
        ("t - 64 > 0", "{65..128, 193..256}"),
    ],
)
def test_static_conditions_narrow_exactly(condition: str, threads: str) -> None:
    """P2."""
    assert str(threads_of_store(f"inthreads.async ({condition}) {{ {STORE} }}")) == threads
    assert str(threads_of_store(f"if ({condition}) {{ {STORE} }}")) == threads


def test_an_else_has_the_other_threads() -> None:
    kernel = after_participants(
        warpgroups(1, "if (t < 32) { y.at(0, t) = 1.0f; } else { y.at(1, t) = 1.0f; }", params=XY)
    )
    assert [str(op.threads) for op in every(kernel, StoreElement)] == ["{0..32}", "{32..128}"]


@pytest.mark.parametrize("condition", ["M > 3", "bm == 0", "x.at(0, 0) > 1.0f"])
def test_uniform_conditions_leave_the_set_alone(condition: str) -> None:
    """P3."""
    assert str(threads_of_store(f"if ({condition}) {{ {STORE} }}")) == "{0..256}"


@pytest.mark.parametrize(
    "body",
    [
        "if (x.at(t, 0) > 1.0f) {{ {s} }}",
        "foreach i in [p + 1] {{ {s} }}",
        "mutable int n = t; while (n > 3) {{ {s} n = n - 1; }}",
        "mutable int n = 0; foreach i in [4] {{ if (x.at(t, 0) > 0.0f) {{ n = 1; }} }} if (n > 0) {{ {s} }}",
        "foreach i in [4] {{ if (x.at(t, 0) > 0.0f) {{ break; }} {s} }}",
        "foreach i in [4] {{ if (t > i) {{ continue; }} {s} }}",
        "foreach i in [4] {{ if (t < 64) {{ break; }} {s} }}",
        "mutable int n = 0; foreach i in [4] {{ if (t > i) {{ break; }} n = n + 1; }} if (n > 1) {{ {s} }}",
        "mutable int n = 0; inthreads.async (p == 0) {{ n = 5; }} if (n > 3) {{ {s} }}",
        "mutable int n = 0; if (p == 0) {{ n = 5; }} if (n > 3) {{ {s} }}",
    ],
)
def test_other_conditions_make_the_set_unknown(body: str) -> None:
    """P4, P7."""
    assert threads_of_store(body.format(s=STORE)) is None


@pytest.mark.parametrize(
    "body",
    [
        "foreach i in [M] {{ if (i > 3) {{ break; }} {s} }}",
        "mutable int n = 0; while (n < M) {{ n = n + 1; {s} }}",
        "mutable int n = 0; foreach i in [M] {{ n = n + 1; }} if (n > 3) {{ {s} }}",
        "mutable int n = 0; inthreads.async (p == 0) {{ n = n + 1; if (n > 3) {{ {s} }} }}"
        " inthreads.async (p == 1) {{ n = n + 2; }}",
        "foreach i in [4] {{ foreach j in [4] {{ if (x.at(t, 0) > 0.0f) {{ break; }} }} {s} }}",
    ],
)
def test_what_all_threads_of_a_role_do_alike_stays_known(body: str) -> None:
    """A loop left by all together; a counter of each role; a break of an inner loop only."""
    assert threads_of_store(body.format(s=STORE)) is not None


# ------------------------------------------------------------------------------------------------------------ CTA level
def test_an_effect_of_the_cta_is_one_threads() -> None:
    """P5."""
    kernel = after_participants(
        program("y.at(0, 0) = 1.0f; parallel t by 64 : thread { y.at(1, t) = 2.0f; }", params=XY)
    )
    alone, all_of_them = every(kernel, StoreElement)
    assert (str(alone.threads), str(all_of_them.threads)) == ("{0..1}", "{0..64}")
    assert [op.scope for op in every(kernel, Elect)] == ["set"]


def test_without_inner_parallels_there_is_one_thread() -> None:
    kernel = after_participants(program("y.at(0, 0) = 1.0f;", params=XY))
    assert kernel.threads == 1 and not every(kernel, Elect)


def test_a_call_for_its_value_is_everybodys() -> None:
    kernel = after_participants(
        program("float v = call f(1.0f); parallel t by 64 : thread { y.at(0, t) = v; }", params=XY)
    )
    (call,) = every(kernel, Call)
    assert str(call.threads) == "{0..64}" and not every(kernel, Elect)


def test_a_local_buffer_is_every_threads_own() -> None:
    text = program("local f32 [2] r; r.at(0) = 3.0f; parallel t by 64 : thread { y.at(0, t) = r.at(0); }", params=XY)
    assert [str(op.threads) for op in every(after_participants(text), StoreElement)] == ["{0..64}"] * 2


def test_the_trigger_of_a_load_is_not_an_effect_of_its_own() -> None:
    body = """
    shared f32 [64] s;
    shared event e;
    l = tma.load.async x.subspan(1, 64).at(0, 0).sqz() => s;
    trigger e after l;
    wait e;
    parallel t by 64 : thread { y.at(0, t) = s.at(t); }
    """
    kernel = after_participants(program(body, params=XY))
    assert every(kernel, EventTrigger)[0].threads == ThreadSet.all(64)


def test_what_one_thread_stores_is_ordered_against_what_all_read() -> None:
    """P5: one thread's store, everybody's load, one thread's store again, an inner parallel."""
    body = """
    shared f32 [1] s;
    s.at(0) = 7.0f;
    float v = s.at(0);
    s.at(0) = 9.0f;
    parallel t by 64 : thread { y.at(0, t) = v + s.at(0); }
    """
    kernel = after_participants(program(body, params=XY))
    kinds = [op.NAME for op in kernel.body.ops if isinstance(op, (Elect, CtaSync, LoadElement, Section))]
    assert kinds == ["elect", "cta.sync", "load_element", "cta.sync", "elect", "cta.sync", "section"]


@pytest.mark.parametrize(
    ("body", "before", "after"),
    [
        ("parallel t by 64 : thread { y.at(0, t) = s.at(0); }", False, False),
        ("s.at(0) = 1.0f; parallel t by 64 : thread { y.at(0, t) = s.at(0); }", True, False),
        ("parallel t by 64 : thread { s.at(t) = 1.0f; } float v = s.at(0);", False, True),
        ("s.at(0) = 1.0f; if (M > 3) { parallel t by 64 : thread { y.at(0, t) = s.at(0); } }", True, False),
        ("s.at(0) = 1.0f; foreach i in [3] { parallel t by 64 : thread { y.at(0, t) = s.at(0); } }", True, True),
        ("foreach i in [3] { parallel t by 64 : thread { y.at(0, t) = s.at(0); } s.at(0) = 2.0f; }", True, True),
        (
            "tma.load x.subspan(1, 64).at(0, 0).sqz() => s; parallel t by 64 : thread { y.at(0, t) = s.at(t); }",
            False,
            False,
        ),
    ],
)
def test_barriers_around_an_inner_parallel(body: str, before: bool, after: bool) -> None:
    """P6: where ordinary accesses of the CTA's own code may come before it or after it, at any depth."""
    kernel = after_participants(program(f"shared f32 [64] s;\n{body}", params=XY))
    (section,) = every(kernel, Section)
    first, last = around(kernel, section)
    assert ("cta.sync" in first, "cta.sync" in last) == (before, after)


def test_inner_parallels_in_sequence_have_a_barrier_between() -> None:
    body = "shared f32 [64] s; parallel t by 64 : thread { s.at(t) = 1.0f; }"
    body += "parallel t by 64 : thread { y.at(0, t) = s.at(0); }"
    kernel = after_participants(program(body, params=XY))
    assert names(kernel, "section", "cta.sync") == ["section", "cta.sync", "section"]


# ---------------------------------------------------------------------------------------------------------------- roles
def test_a_synchronous_role_ends_with_a_barrier_of_the_threads_around_it() -> None:
    """P6."""
    text = warpgroups(
        3, "inthreads.async (p > 0) { inthreads (t < 5) { y.at(0, t) = 1.0f; } y.at(1, t) = 2.0f; }", params=XY
    )
    (sync,) = every(after_participants(text), Sync)
    assert str(sync.threads) == "{128..384}"
    assert names(role(lower(text), "p > 0"), "named_barrier") == ["named_barrier.sync"]


def test_a_role_of_no_thread_is_dropped_with_a_warning() -> None:
    """P9."""
    text = warpgroups(2, "inthreads.async (p == 5) { frag f32 [64] r {0.0f}; y.at(0, 0) = 1.0f; } //!", params=XY)
    assert reported(text)[0] == "W-2102"
    kernel = lower(text)
    assert not every(kernel, StoreElement) and not kernel.fragments


def test_a_branch_of_no_thread_is_dropped() -> None:
    kernel = lower(warpgroups(2, "if (p == 7) { y.at(0, 0) = 1.0f; } else { y.at(1, 0) = 1.0f; }", params=XY))
    assert len(every(kernel, StoreElement)) == 1


def test_unknown_threads_around_an_inner_parallel() -> None:
    body = """
    shared f32 [64] s;
    int n = call f(1);
    foreach i in [n] {
      s.at(0) = 1.0f;
      parallel t by 64 : thread { y.at(0, t) = s.at(0); } //!
    }
    """
    assert reported(program(body, params=XY))[0] == "E-2101"


def test_a_synchronous_role_under_a_divergent_condition() -> None:
    body = "if (x.at(t, 0) > 0.0f) {\n inthreads (t < 5) { y.at(0, t) = 1.0f; } //!\n }"
    assert reported(warpgroups(1, body, params=XY))[0] == "E-2101"


def test_loops_keep_their_threads() -> None:
    kernel = lower(warpgroups(2, "inthreads.async (p == 1) { foreach i in [M] { y.at(i, t) = 1.0f; } }", params=XY))
    assert [str(op.threads) for op in every(kernel, For)] == ["{128..256}"]
    assert codes(warpgroups(2, "", params=XY)) == []


def test_an_update_by_a_whole_warpgroup() -> None:
    """P8."""
    update = """__co__ void f(global f32 [N] y) {
      parallel b by 1 : block {
        parallel p by 2 : group-4 { y.at(p) += 1.0f; } //!
      }
    }"""
    assert reported(update)[0] == "E-2107"
    assert codes(update.replace("+= 1.0f", "= 1.0f")) == []
    assert codes(update.replace(": group-4 {", ": group-4, t by 128 : thread {").replace("at(p)", "at(t)")) == []
