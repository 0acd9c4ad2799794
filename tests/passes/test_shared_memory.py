"""Passes `swizzles` (S1 to S7), `shared-memory` (M1 to M4), `registers` (R1 to R3) and `prologue`."""

from __future__ import annotations

import pytest

from croq.ir.hw import CtaSync, Elect, MbarrierInit, SetMaxNReg
from croq.ir.objects import Kernel
from tests.passes.helpers import buffer, codes, every, lower, names, program, reported, warpgroups

PARAMS = "global f16 [M, K] x, global f32 [C, 64] y"
MMA = "acc = mma.fill.f32 0.0f; mma.row.row acc, {0}, {0};"


def swizzle(body: str, declared: str, name: str = "s") -> tuple[int, int]:
    """Swizzle and alignment of a buffer."""
    found = buffer(lower(warpgroups(1, body, declared, params=PARAMS)), name)
    return found.swizzle, found.alignment


# ------------------------------------------------------------------------------------------------------------- swizzles
@pytest.mark.parametrize(
    ("body", "declared", "want"),
    [
        ("tma.load.swiz<64> x.subspan(64, 64).at(0, 0) => s;", "shared f16 [64, 64] s;", (64, 512)),  # S1
        ("tma.load.swiz<64> x.subspan(64, 64).at(0, 0) => s; " + MMA, "shared f16 [64, 64] s;", (64, 512)),
        (MMA, "shared f16 [64, 64] s;", (128, 1024)),  # S3
        (MMA, "shared f16 [64, 96] s;", (64, 512)),
        (MMA, "shared f16 [64, 16] s;", (32, 256)),
        ("tma.load x.subspan(64, 32).at(0, 0) => s.subspan(64, 32).at(0, 1); " + MMA,
         "shared f16 [64, 64] s;", (64, 512)),
        ("mma.store acc, s;", "shared f32 [64, 64] s;", (128, 1024)),  # S4
        ("mma.store acc, s; tma.copy s.subspan(64, 16).at(0, 1) => y.subspan(64, 16).at(0, 0);",
         "shared f32 [64, 64] s;", (64, 512)),
        ("mma.store acc, s; call f(s);", "shared f32 [64, 64] s;", (0, 16)),  # S5
        ("s.at(0, 0) = 1.0f;", "shared f32 [64, 64] s;", (0, 16)),  # S6
        ("tma.copy s => y.subspan(64, 64).at(0, 0);", "shared f32 [64, 64] s;", (0, 128)),  # S7
        ("dma.copy s => y.subspan(64, 64).at(0, 0);", "shared f32 [64, 64] s;", (0, 16)),
    ],
)  # fmt: skip
def test_swizzle_and_alignment(body: str, declared: str, want: tuple[int, int]) -> None:
    if "mma.store" in body:
        body, declared = MMA.format("q") + body, declared + "shared f16 [64, 64] q;"
    assert swizzle(body.format("s"), declared) == want


@pytest.mark.parametrize(
    ("body", "declared", "code"),
    [
        ("tma.load.swiz<128> x.subspan(12, 128).at(0, 0) => s;", "shared f16 [12, 128] s; //!\n", "E-2202"),
        (MMA.replace("{0}", "s.subspan(64, 16).at(0, 0)"), "shared f16 [64, 24] s; //!\n", "E-2203"),
        ("tma.load.swiz<128> x.subspan(16, 64).at(0, 0) => s;\n call f(s); //!", "shared f16 [16, 64] s;", "E-2204"),
        (MMA.format("s") + "\n call f(s); //!", "shared f16 [64, 64] s;", "E-2204"),
    ],
)
def test_layouts_that_do_not_fit(body: str, declared: str, code: str) -> None:
    assert reported(warpgroups(1, body, declared, params=PARAMS))[0] == code


# -------------------------------------------------------------------------------------------------------- shared memory
def test_the_widest_alignment_comes_first_and_barriers_last() -> None:
    """M1, M2, M3."""
    declared = """
    shared f32 [3] small;
    shared f16 [64, 64] tile[2];
    shared f32 [4, 64] plain;
    shared event e[3];
    shared event named = ready;
    """
    body = (
        MMA.format("tile[0]")
        + """
    tma.load y.subspan(4, 64).at(0, 0) => plain;
    small.at(0) = 1.0f;
    inthreads.async (p == 0) { wait e.at(1); wait named; }
    inthreads.async (p == 1) { trigger e.at(1); trigger named; }
    """
    )
    kernel = lower(warpgroups(2, body, declared, params=PARAMS))
    assert [(b.name, b.offset) for b in kernel.buffers] == [("small", 17408), ("tile", 0), ("plain", 16384)]
    assert {e.name: e.offset for e in kernel.events} == {"e": 17424, "named": None, "plain_full": 17448}
    assert kernel.shared_bytes == 17456


def test_slots_start_on_the_alignment() -> None:
    found = buffer(lower(warpgroups(1, "s[0].at(0) = 1.0f;", "shared f32 [3] s[4];", params=PARAMS)), "s")
    assert (found.tile_bytes, found.slot_stride) == (12, 16)


def test_local_buffers_take_no_shared_memory() -> None:
    kernel = lower(warpgroups(1, "local f32 [8] r; r.at(0) = 1.0f; y.at(0, 0) = r.at(0);", params=PARAMS))
    assert (kernel.shared_bytes, kernel.buffers[0].offset) == (0, None)


@pytest.mark.parametrize(
    ("declared", "excess"),
    [("shared f32 [58112] s; //!\n", None), ("shared f32 [58113] s; //!\n", 16), ("shared event e[29057]; //!\n", 8)],
    ids=["full", "one-more", "barriers-only"],
)
def test_the_budget(declared: str, excess: int | None) -> None:
    """M4."""
    body = "s.at(0) = 1.0f;" if " s;" in declared else "if (t < 32) { trigger e.at(0); wait e.at(0); }"
    text = warpgroups(1, f"inthreads.async (t < 32) {{ {body} }}", declared, params=PARAMS)
    if excess is None:
        assert lower(text).shared_bytes == 232448
    else:
        code, message = reported(text)
        assert code == "E-324" and f" {excess} more than the 232448" in message


# ------------------------------------------------------------------------------------------------------------ registers
def roles(*requests: tuple[str, int], bounds: str = "") -> str:
    body = "\n".join(
        f"inthreads.async (p == {n}) {{ call croq::cuda::setreg_{way}({count}); y.at({n}, t % 64) = 1.0f; }}"
        for n, (way, count) in enumerate(requests)
    )
    return warpgroups(len(requests), body, params=PARAMS).replace("parallel bm", f"{bounds} parallel bm")


@pytest.mark.parametrize(
    ("requests", "bounds"),
    [
        ([("dec", 24), ("inc", 240), ("inc", 240)], ""),
        ([("dec", 40), ("inc", 232), ("inc", 232)], "[[launch_bounds(_, 1)]]"),
        ([("dec", 24), ("inc", 160), ("inc", 160), ("inc", 160)], ""),
        ([("dec", 24), ("inc", 104), ("inc", 104)], "[[launch_bounds(_, 2)]]"),
        ([("inc", 256)], ""),
        ([("dec", 40), ("inc", 232)], ""),  # ptxas gives all threads 232 at launch
    ],
)
def test_requests_that_the_cta_can_grant(requests: list[tuple[str, int]], bounds: str) -> None:
    kernel = lower(roles(*requests, bounds=bounds))
    assert [(op.direction, op.count) for op in every(kernel, SetMaxNReg)] == requests


@pytest.mark.parametrize(
    ("requests", "bounds"),
    [
        ([("dec", 32), ("inc", 240), ("inc", 240)], ""),
        ([("dec", 24), ("inc", 240), ("inc", 240)], "[[launch_bounds(_, 2)]]"),
        ([("dec", 24), ("inc", 240), ("inc", 240)], "[[launch_bounds(512, 1)]]"),
        ([("dec", 24), ("inc", 168), ("inc", 160), ("inc", 168)], ""),
    ],
)
def test_requests_that_would_never_be_granted(requests: list[tuple[str, int]], bounds: str) -> None:
    """R2: a CTA of 384 threads gets 168 each at launch, and no more later."""
    assert codes(roles(*requests, bounds=bounds)) == ["E-2401"]


@pytest.mark.parametrize("request_", [("dec", 176), ("inc", 160), ("dec", 20), ("inc", 100), ("inc", 264)])
def test_requests_that_are_none(request_: tuple[str, int]) -> None:
    """R1: steps of 8 from 24 to 256, up by `inc` and down by `dec`."""
    assert codes(roles(request_, ("inc", 168), ("inc", 168))) == ["E-1202"]


def test_a_part_of_a_warpgroup_cannot_ask() -> None:
    body = "inthreads.async (t < 64) {\n call croq::cuda::setreg_dec(24); //!\n }"
    assert reported(warpgroups(1, body, params=PARAMS))[0] == "E-1202"


def test_requests_make_the_compiler_cap_registers() -> None:
    """R3."""
    assert lower(roles(("inc", 248))).min_blocks == 1
    assert lower(warpgroups(1, "y.at(0, 0) = 1.0f;", params=PARAMS)).min_blocks is None


# ------------------------------------------------------------------------------------------------------------- prologue
def event_kernel(used: bool) -> Kernel:
    body = "inthreads.async (p == 0) { wait e; } inthreads.async (p == 1) { trigger e; }" if used else ""
    return lower(warpgroups(2, body, "shared event e; shared event idle;", params=PARAMS))


def test_barriers_are_initialised_before_anything_else() -> None:
    kernel = event_kernel(used=True)
    first, second = kernel.body.ops[:2]
    assert isinstance(first, Elect) and names(first, "") == ["mbarrier.init", "mbarrier.init_fence"]
    assert isinstance(second, CtaSync) and str(second.threads) == "{0..256}"
    assert [op.event.name for op in every(kernel, MbarrierInit)] == ["e"]  # nothing uses the other


def test_without_barriers_there_is_no_prologue() -> None:
    assert not every(event_kernel(used=False), CtaSync)


def test_how_the_device_reaches_a_parameter() -> None:
    body = "shared f32 [4, 64] s; tma.load z.subspan(4, 64).at(0, 0) => s; y.at(0, 0) = s.at(0, 0);"
    kernel = lower(program(body, params="global f32 [C, 64] z, global f32 [C, 64] y, global f32 [C] idle"))
    assert {p.name: p.access for p in kernel.params} == {"z": {"tma"}, "y": {"pointer"}, "idle": set()}
