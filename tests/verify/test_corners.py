"""Rules that the ring does not reach: lanes of a warp, named barriers, collectives, and what is not decided."""

from __future__ import annotations

import pytest

import croq
from croq.ir.parser import parse_kernel
from croq.verify import Verdict, verify_protocol


def verdict(body: str, threads: int = 32) -> Verdict:
    return verify_protocol(
        parse_kernel(
            f"""kernel k file="k.co", grid=(1, 1, 1), threads={threads}, shared_bytes=1024 {{
  param @x type=f32, shape=(N)
  param @list type=s32, shape=(N)
  buffer @line type=f32, shape=(64), offset=0
  fragment @acc type=f32, shape=(64, 64), layout=accumulator(m=64, n=64)
  variable @left type=s32
  %t: s32 = thread_index
  %0: s32 = const 0
  %1: s32 = const 1
  %31: s32 = const 31
  %32: s32 = const 32
  %v: f32 = const 1.0
{body}
}}
"""
        )
    )


def outcome(body: str, threads: int = 32) -> str:
    found = verdict(body, threads)
    return found.found[0].code if found.outcome == "fault" else found.outcome


WRITE = "store_element @line[0:64], (%t), %v  // line 1\n"
READ_OWN = "%own: f32 = load_element @line[0:64], (%t)  // line 2\n"
READ_OTHER = "%far: s32 = binary sub, %31, %t\n%other: f32 = load_element @line[0:64], (%far)  // line 3\n"


def test_lanes_touch_what_is_their_own_without_a_barrier() -> None:
    assert outcome(WRITE + READ_OWN + WRITE) == "proved"


def test_lanes_touch_what_is_of_others_behind_a_barrier_only() -> None:
    assert outcome(WRITE + READ_OTHER) == "E-6001"
    assert outcome(WRITE + "warp.sync\n" + READ_OTHER) == "proved"
    assert outcome(WRITE + "warp.sync\n" + READ_OTHER + WRITE) == "E-6002"
    assert outcome(WRITE + "warp.sync\n" + READ_OTHER + "warp.sync\n" + WRITE) == "proved"


def turns(mark: str, lane: str) -> str:
    """Two turns of a loop in which lane by lane the two halves of the line are written."""
    names = {"e": f"%e{mark}", "base": f"%base{mark}", "at": f"%at{mark}"}
    return (
        "for {e}: s32, %2 {{\n{base}: s32 = binary mul, {e}, %32\n{at}: s32 = binary add, {base}, "
        + lane
        + "\nstore_element @line[0:64], ({at}), %v\n}}\n"
    ).format(**names)


def test_loop_over_elements_keeps_lanes_apart() -> None:
    start = "%2: s32 = const 2\n%o: s32 = binary sub, %31, %t\n"
    assert outcome(start + turns("a", "%t") + turns("b", "%t")) == "proved"
    assert outcome(start + turns("a", "%t") + turns("b", "%o")) == "E-6002"
    assert outcome(start + turns("a", "%t") + "warp.sync\n" + turns("b", "%o")) == "proved"


def test_warps_need_a_barrier() -> None:
    other = READ_OTHER.replace("%31, %t", "%63, %t")
    body = "%63: s32 = const 63\n"
    assert outcome(body + WRITE + other, 64) == "E-6001"
    assert outcome(body + WRITE + "cta.sync\n" + other, 64) == "proved"


def test_barrier_speaks_for_whole_warps() -> None:
    half = "%16: s32 = const 16\n%low: bool = binary lt, %t, %16\n"
    half += "if %low then {\nnamed_barrier.sync barrier=1, count=32, _\n}\n"
    assert outcome(half) == "E-6011"


def test_named_barrier_counts_a_warp_once_a_generation() -> None:
    """Warp 0 waits, warp 1 arrives without ever waiting: its second arrival may count for the first generation."""
    body = "%late: bool = binary ge, %t, %32\nif %late then {{\n{}}} otherwise {{\n{}}}\n"
    arrive = "named_barrier.arrive barrier=2, count=64, _\n"
    sync = "named_barrier.sync barrier=2, count=64, _\n"
    assert outcome(body.format(arrive, sync), 64) == "proved"
    assert outcome(body.format(arrive * 2, sync * 2), 64) == "E-6005"
    both = arrive + "named_barrier.sync barrier=3, count=64, _\n"
    assert outcome(body.format(both * 2, (sync + sync.replace("=2", "=3")) * 2), 64) == "proved"
    assert outcome(body.format(arrive, sync.replace("count=64", "count=96")), 64) == "E-6005"
    assert outcome(body.format("", sync), 64) == "E-6008"


def test_warpgroup_collectives_are_executed_by_all_four_warps() -> None:
    first = "%high: bool = binary ge, %t, %32\nif %high then {\nsetmaxnreg dec, count=40\n}\n"
    assert outcome("setmaxnreg dec, count=40\n", 128) == "proved"
    assert outcome(first, 128) == "E-6011"


def test_place_outside_the_tile_is_named() -> None:
    found = verdict(
        "%40: s32 = const 40\n%at: s32 = binary add, %t, %40\nstore_element @line[0:64], (%at), %v  // line 7\n"
    )
    (fault,) = found.diagnostics()
    assert (fault.code, fault.span and fault.span.line) == ("E-6010", 7)
    assert fault.message == "an ordinary access leaves `line`: [71] of [64]"


def test_registers_hold_nothing_before_they_are_written() -> None:
    assert outcome("frag.declare @acc\nreg.shuffle_reduce sum, @acc, lanes=4\n", 128) == "E-6009"
    assert outcome("frag.declare @acc\nreg.fill @acc, %v\nreg.shuffle_reduce sum, @acc, lanes=4\n", 128) == "proved"


# -------------------------------------------------------------------------------------------------------- not decided
FLOAT = "%d: f32 = load_element @x[0:N], (%0)\n"
COUNT_DOWN = (
    "var.declare @left, {start}\nwhile %go head {{\n%l: s32 = var.get @left\n%go: bool = binary gt, %l, %0\n"
    "}} body {{\n{body}\n}}\n"
)
GO_ON = "%m: s32 = binary sub, %l, %1\nvar.set @left, %m\nwarp.sync"
UNDECIDED = {
    "how often this loop runs depends on data": FLOAT + "%n: s32 = cast %d\nfor %i: s32, %n {\ncta.sync\n}\n",
    "this condition depends on data": FLOAT + "%b: bool = binary lt, %d, %v\nif %b then {\ncta.sync\n}\n",
    "the C++ text here may do anything": 'cpp "__syncthreads();"\n',
    "an index or a count is divided by zero": "%q: s32 = binary div, %1, %0\nfor %i: s32, %q {\ncta.sync\n}\n",
    "lanes of a warp leave this loop at different times": COUNT_DOWN.format(start="%t", body=GO_ON),
    "a loop does not end": COUNT_DOWN.format(start="%1", body="warp.sync"),
}


@pytest.mark.parametrize("why", UNDECIDED)
def test_what_cannot_be_followed_is_not_decided(why: str) -> None:
    found = verdict(UNDECIDED[why])
    assert found.outcome == "undecided" and not found.proved
    assert found.reason.startswith(why), found.reason
    (warning,) = found.diagnostics()
    assert (warning.code, warning.severity) == ("W-6000", "warning")
    assert why in warning.message


def test_loop_of_all_lanes_alike_is_followed() -> None:
    assert outcome(COUNT_DOWN.format(start="%32", body=GO_ON)) == "proved"


def test_scalars_from_memory_lead_into_every_branch() -> None:
    body = (
        "%kind: s32 = load_element @list[0:N], (%0)\n%5: s32 = const 5\n%is: bool = binary eq, %kind, %5\n"
        "if %is then {\nnamed_barrier.sync barrier=1, count=64, _  // line 9\n}\n"
    )
    (fault,) = verdict(body).diagnostics()
    assert fault.code == "E-6008" and fault.span is not None and fault.span.line == 9
    assert "list[0] = 5" in fault.render()


def test_branch_that_no_input_reaches_is_not_decided() -> None:
    body = (
        "%kind: s32 = load_element @list[0:N], (%0)\n%sq: s32 = binary mul, %kind, %kind\n%7: s32 = const 7\n"
        "%is: bool = binary eq, %sq, %7\nif %is then {\ncta.sync\n}\n"
    )
    found = verdict(body)
    assert found.outcome == "undecided" and "no input was found that leads into this branch" in found.reason


def test_things_at_one_address_are_not_decided() -> None:
    kernel = parse_kernel(
        'kernel k file="k.co", grid=(1, 1, 1), threads=32, shared_bytes=64 {\n'
        "  buffer @a type=f32, shape=(8), offset=0\n  buffer @b type=f32, shape=(8), offset=16\n}\n"
    )
    assert verify_protocol(kernel).reason == "`a` and `b` lie at the same addresses"


@pytest.mark.parametrize(("step", "codes"), [(64, []), (32, ["E-6002"])])
def test_fragments_stored_by_a_loop_are_each_thread_s_own(step: int, codes: list[str]) -> None:
    """Tiles beside one another are; in tiles that overlap an element belongs to another thread each time."""
    found = croq.check(
        f"""
        __co__ void f(global f16 [64, 64] a, global f16 [64, 64] b, global f16 [128, 64] c) {{
          parallel q by 1 : block, t by 128 : thread {{
            acc = mma.fill.f32 0.0f;
            a_s = dma.copy.swiz<128> a.subspan(64, 64).at(0, 0) => shared;
            b_s = dma.copy.swiz<128> b.subspan(64, 64).at(0, 0) => shared;
            shared f16 [128, 64] c_s;
            dma.copy c.subspan(128, 64).at(0, 0) => c_s;
            mma.row.row acc, a_s, b_s;
            foreach {{n}} in [2] mma.store acc, c_s.subspan(64, 64).step({step}, 64).at(n, 0);
            dma.copy c_s => c.subspan(128, 64).at(0, 0);
          }}
        }}"""
    )
    assert [d.code for d in found if d.severity == "error"] == codes
