"""Passes `mma` (A1 to A5), `futures` (F1 to F5) and `releases` (L1, L2)."""

from __future__ import annotations

import pytest

from croq.ir.hw import RegFill, WgmmaCommit, WgmmaFence, WgmmaIssue, WgmmaWait
from croq.ir.objects import Kernel
from tests.passes.helpers import codes, every, lower, names, program, reported, warpgroups

TILES = "shared f16 [64, 64] a;\nshared f16 [64, 64] b;\nshared f16 [128, 64] tall;\n"
TWO = "frag f32 [64, 64] x {0.0f}; frag f32 [64, 64] y {0.0f};\n"
F = "f = mma.row.row.async x, a, b;"
G = "g = mma.row.row.async y, a, b;"
H = "h = mma.row.row.async x, a, b;"
STORE = "mma.store x, c.subspan(64, 64).at(0, 0);"


def kernel_of(body: str, declared: str = TILES, count: int = 1) -> Kernel:
    return lower(warpgroups(count, body, declared))


def refused(body: str, declared: str = TILES, count: int = 1) -> str:
    return reported(warpgroups(count, body, declared))[0]


def depths(body: str) -> list[tuple[str, int]]:
    """Futures and depth of every wait that the source names, in program order."""
    return [(", ".join(wait.futures), wait.depth) for wait in kernel_of(TWO + body).waits if wait.futures]


# --------------------------------------------------------------------------------------------------------------- A1, A2
def test_an_mma_is_a_batch_of_its_own() -> None:
    found = names(kernel_of(TWO + F + G + "wait f, g;"), "wgmma")
    assert found == ["wgmma.fence", "wgmma.issue", "wgmma.commit"] * 2 + ["wgmma.wait"]


def test_a_synchronous_mma_is_waited_for_at_once() -> None:
    kernel = kernel_of("x = mma.fill.f32 0.0f; mma.row.row x, a, b;")
    assert names(kernel, "wgmma") == ["wgmma.fence", "wgmma.issue", "wgmma.commit", "wgmma.wait"]
    assert [op.depth for op in every(kernel, WgmmaWait)] == [0]


def test_the_fence_names_what_ordinary_code_touched() -> None:
    body = "x = mma.fill.f32 0.0f; frag f16 [64, 64] r;"
    body += "apply {i, j} in r.span { r.at(i, j) = __to<f16>(1.0f); } mma.row.row x, r, b;"
    (fence,) = every(kernel_of(body), WgmmaFence)
    assert [ref.frag.name for ref in fence.frags] == ["x", "r"]


# ------------------------------------------------------------------------------------------------------------------- A3
@pytest.mark.parametrize(
    ("body", "accumulate"),
    [
        ("x = mma.fill.f32 0.0f; mma.row.row x, a, b;", [False]),
        ("x = mma.fill.f32 1.0f; mma.row.row x, a, b;", [True]),
        ("x = mma.fill.f32 0.0f; mma.row.row x, a, b; mma.row.row x, a, b;", [False, True]),
        ("x = mma.fill.f32 0.0f; mma.fill x, 0.0f; mma.row.row x, a, b;", [False]),
        ("x = mma.fill.f32 0.0f; foreach i in [M] { mma.row.row x, a, b; }", [True]),
        ("x = mma.fill.f32 0.0f; foreach i in [M] { mma.fill x, 0.0f; mma.row.row x, a, b; }", [False]),
        ("x = mma.fill.f32 0.0f; if (M > 3) { mma.row.row x, a, b; }", [True]),
        ("x = mma.fill.f32 0.0f; apply {i, j} in x.span { x.at(i, j) = 1.0f; } mma.row.row x, a, b;", [True]),
        ("foreach i in [M] { mma.fill x, 0.0f; if (i > 3) { break; } mma.row.row x, a, b; }", [True]),
        ("foreach i in [M] { mma.fill x, 0.0f; if (i > 3) { continue; } mma.row.row x, a, b; }", [True]),
        ("x = mma.fill.f32 0.0f; foreach i in [M] { if (i > 3) { break; } } mma.row.row x, a, b;", [False]),
    ],
)  # fmt: skip
def test_an_mma_absorbs_a_fill_with_zero(body: str, accumulate: list[bool]) -> None:
    body = body if body.startswith("x =") else "x = mma.fill.f32 0.0f; " + body
    assert [op.accumulate for op in every(kernel_of(body), WgmmaIssue)] == accumulate


def test_an_absorbed_fill_zeroes_no_register() -> None:
    assert not every(kernel_of("x = mma.fill.f32 0.0f; mma.row.row x, a, b;"), RegFill)
    assert len(every(kernel_of("x = mma.fill.f32 1.0f; mma.row.row x, a, b;"), RegFill)) == 1


# --------------------------------------------------------------------------------------------------------------- A4
def test_shapes_of_the_instructions() -> None:
    (issue,) = every(kernel_of("x = mma.fill.f32 0.0f; mma.row.row x, tall, b;"), WgmmaIssue)
    assert (issue.m, issue.n, issue.k, issue.k_step) == (128, 64, 64, 16)
    (issue,) = every(kernel_of("x = mma.fill.f32 0.0f; mma.row.col x, a, b;"), WgmmaIssue)
    assert (issue.a_transposed, issue.b_transposed) == (False, True)


@pytest.mark.parametrize(
    "body",
    [
        "inthreads.async (t < 64) {\n mma.row.row x, a, b; //!\n }",
        "if (c.at(t, 0) > 0.0f) {\n mma.row.row x, a, b; //!\n }",
    ],
    ids=["half-warpgroup", "unknown-threads"],
)
def test_what_wgmma_cannot_do(body: str) -> None:
    assert refused("x = mma.fill.f32 0.0f;\n" + body, TILES) == "E-1113"


# ------------------------------------------------------------------------------------------------------------------- A5
def _cta(body: str, threads: int = 256) -> str:
    """One CTA whose threads are in no warpgroup level."""
    return program(f"parallel t by {threads} : thread {{\n{TILES}w = t / 128;\nx = mma.fill.f32 0.0f;\n{body}\n}}")


@pytest.mark.parametrize("body", ["mma.row.row x, tall, b; //!", "mma.row.row x, a, b; //!",
                                  "apply {i, j} in x.span { x.at(i, j) = i; }\nmma.row.row x, a, b; //!"])  # fmt: skip
def test_warpgroups_that_nothing_tells_apart(body: str) -> None:
    code, message = reported(_cta(body))
    assert code == "E-1113" and "2 warpgroups" in message


@pytest.mark.parametrize(
    "body",
    [
        "mma.row.row x, tall.subspan(64, 64).at(w, 0), b;",
        "inthreads (t < 128) { mma.row.row x, a, b; }",
        "apply {i, j} in x.span { x.at(i, j) = w; }\nmma.row.row x, a, b;",
        # the second MMA is told apart by what the first has made
        "mma.row.row x, tall.subspan(64, 64).at(w, 0), b; frag f16 [64, 64] p; y = mma.fill.f32 0.0f;\n"
        "apply {i, j} in x.span { p.at(i, j) = __to<f16>(x.at(i, j)); } mma.row.col y, p, b;",
    ],
    ids=["tiles", "one-warpgroup", "accumulator", "register-operand"],
)
def test_warpgroups_that_the_thread_index_tells_apart(body: str) -> None:
    assert every(lower(_cta(body)), WgmmaIssue)


@pytest.mark.parametrize("threads", [1, 32, 64, 160])
def test_an_mma_wants_whole_warpgroups(threads: int) -> None:
    assert reported(_cta("mma.row.row x, a, b; //!", threads))[0] == "E-1113"


# ------------------------------------------------------------------------------------------------------- F1, F2, F3, F5
@pytest.mark.parametrize(
    ("body", "want"),
    [
        (F + "wait f;", [("f", 0)]),
        (F + G + "wait f; wait g;", [("f", 1), ("g", 0)]),
        (F + G + "wait f, g;", [("f, g", 0)]),
        (F + G + "wait g, f;", [("g, f", 0)]),
        (F + G + H + "wait g; wait h;" + "wait f;", [("g", 1), ("h", 0), ("f", 0)]),
        (F + "mma.row.row y, a, b; wait f;", [("f", 0)]),
        # branches: the fewest younger groups on any path
        (F + "if (M > 3) { " + G + "wait f; wait g; } else { wait f; }", [("f", 1), ("g", 0), ("f", 0)]),
        (F + "if (M > 3) { mma.row.row y, a, b; } wait f;", [("f", 0)]),
        # loops
        ("foreach i in [M] { " + F + G + "wait f; wait g; }", [("f", 1), ("g", 0)]),
        ("foreach i in [M] { " + F + "foreach j in [2] { " + G + "wait g; } wait f; }", [("g", 0), ("f", 0)]),
        (F + "foreach i in [M] { " + G + "wait g; } wait f;", [("g", 0), ("f", 0)]),
        ("mutable int n = 0; while (n < M) { " + F + G + "wait f; wait g; n = n + 1; }", [("f", 1), ("g", 0)]),
        # ways out of loops
        ("foreach i in [M] { " + F + "if (i > 3) { wait f; break; } wait f; }", [("f", 0), ("f", 0)]),
        ("foreach i in [M] { " + F + G + "if (i > 3) { wait f; wait g; continue; } wait f; wait g; }",
         [("f", 1), ("g", 0), ("f", 1), ("g", 0)]),
        ("foreach i in [M] { " + G + "foreach j in [M] { " + F + "if (j > i) { wait f; break; } wait f; } wait g; }",
         [("f", 0), ("f", 0), ("g", 0)]),
    ],
)  # fmt: skip
def test_depths(body: str, want: list[tuple[str, int]]) -> None:
    assert depths(body) == want


def test_a_wait_that_an_earlier_one_has_done_vanishes() -> None:
    """F3: groups complete in order, so waiting for the younger completed the older."""
    kernel = kernel_of(TWO + F + G + "wait g; wait f;")
    assert [op.depth for op in every(kernel, WgmmaWait)] == [0]
    assert kernel.waits[1].why == "an earlier wait has completed it already (futures.F3)"


def test_a_wait_pins_what_it_completes() -> None:
    """F5."""
    kernel = kernel_of(TWO + F + G + "wait f; wait g;")
    first, second = every(kernel, WgmmaWait)
    assert [ref.frag.name for ref in first.frags] == ["x"] and [ref.frag.name for ref in second.frags] == ["y"]
    assert first.futures == (every(kernel, WgmmaCommit)[0].future,)


def test_waits_for_moves_are_not_in_the_list() -> None:
    body = "s = dma.copy.async a => b; wait s;".replace("a => b", "c.subspan(64, 64).at(0, 0) => shared")
    assert kernel_of(body).waits == []


# ------------------------------------------------------------------------------------------------------------------- F4
SHARED_A = """frag f16 [64, 64] r; apply {i, j} in r.span { r.at(i, j) = __to<f16>(1.0f); }
f = mma.row.row.async x, r, b; g = mma.row.row.async y, r, b; wait f;
"""
WRITE_R = "apply {i, j} in r.span { r.at(i, j) = __to<f16>(2.0f); }"


@pytest.mark.parametrize(
    "body",
    [
        F + "\n" + STORE + " //!\n wait f;",
        F + "\n mma.fill x, 0.0f; //!\n wait f;",
        F + "if (M > 3) { wait f; }\n" + STORE + " //!",
        F + "foreach i in [M] {\n" + STORE + " //!\n } wait f;",
        F + "if (M > 3) {\n" + STORE + " //!\n } wait f;",
        F + "\n call use(x); //!\n wait f;",
        "foreach i in [M] { " + F + "if (i > 3) { break; } wait f; }\n" + STORE + " //!",
        SHARED_A + WRITE_R + " //!\n wait g;",
    ],
)
def test_what_an_mma_still_uses_is_not_touched(body: str) -> None:
    assert refused(TWO + body) == "E-1120"


@pytest.mark.parametrize(
    "body",
    [
        F + H + "wait f; wait h;" + STORE,
        F + "mma.store y, c.subspan(64, 64).at(0, 0); wait f;",
        SHARED_A + "wait g;" + WRITE_R,
        F + G + "wait g;" + STORE + "wait f;",
        "foreach i in [M] { " + F + "if (i > 3) { wait f; break; } wait f;" + STORE + " }" + STORE,
    ],
)
def test_what_may_be_touched(body: str) -> None:
    assert codes(warpgroups(1, TWO + body, TILES)) == []


# --------------------------------------------------------------------------------------------------------------- L1, L2
RING = """
shared f16 [64, 64] a[2];
shared f16 [64, 64] b;
shared event full[2];
shared event empty[2] = ready;
"""
PRODUCER = """
inthreads.async (p == 0) { foreach k in [K] { WAITS
  l = tma.load.async.swiz<128> a_in.subspan(64, 64).at(0, k) => a[k % 2];
  trigger full.at(k) after l; } }
"""


def ring(body: str, waits: str = "wait empty.at(k);", more: str = "") -> str:
    """A producer, and a consumer of which `body` is what follows the wait in each step."""
    consumer = (
        f"inthreads.async (p == 1) {{ x = mma.fill.f32 0.0f; foreach k in [K] {{ wait full.at(k);\n{body}\n }} }}"
    )
    return warpgroups(2, PRODUCER.replace("WAITS", waits) + consumer, RING + more, params="global f16 [M, K] a_in")


STEP = "f = mma.row.row.async x, a[k % 2], b;"


def test_a_buffer_given_back_under_an_mma() -> None:
    assert reported(ring(f"{STEP}\n trigger empty.at(k); //!\n wait f;"))[0] == "E-1121"


@pytest.mark.parametrize(
    "body",
    [
        f"{STEP} wait f; trigger empty.at(k);",
        f"{STEP} if (k > 0) {{ trigger empty.at(k - 1); }} wait f;",  # the slot of the step before
    ],
)
def test_a_buffer_given_back_in_time(body: str) -> None:
    assert "E-1121" not in codes(ring(body))


def test_a_buffer_with_two_guards_falls_with_the_last() -> None:
    both, go = "wait empty.at(k); wait go;", "shared event go = ready;"
    assert "E-1121" not in codes(ring(f"{STEP} trigger go; wait f; trigger empty.at(k);", both, go))
    assert reported(ring(f"{STEP} trigger go;\n trigger empty.at(k); //!\n wait f;", both, go))[0] == "E-1121"


def test_a_named_barrier_guards_too() -> None:
    text = warpgroups(
        2,
        "inthreads.async (p == 0) { foreach k in [K] { wait go;"
        " l = tma.load.async.swiz<128> a_in.subspan(64, 64).at(0, k) => b; trigger full.at(k) after l; } }\n"
        "inthreads.async (p == 1) { x = mma.fill.f32 0.0f; foreach k in [K] { wait full.at(k);\n"
        "f = mma.row.row.async x, b, b;\n trigger go; //!\n wait f; } }",
        "shared f16 [64, 64] b; shared event full[2]; shared event go = ready;",
        params="global f16 [M, K] a_in",
    )
    assert reported(text)[0] == "E-1121"
