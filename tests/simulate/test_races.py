"""The race detector: each kind of report on a program that has it, with the lines of both sides; right programs.

In the IR texts a line marked `# fault` must be what the report points at, `# because` what it names besides.
"""

import re
from typing import Any

import numpy as np
import pytest

from croq.ir.parser import parse_kernel
from croq.simulate import SimulationFault
from croq.simulate import run as simulate

SCHEDULES = ["eager", "lazy", "random:3", "hostile:1"]
OBJECTS = """
  param @x type=bf16, shape=(64, 64)
  param @y type=bf16, shape=(64, 64)
  buffer @t type=bf16, shape=(64, 64), swizzle=128, offset=1024, alignment=1024
  buffer @u type=bf16, shape=(128, 64), swizzle=128, offset=9216, alignment=1024
  buffer @s type=s32, shape=(128), offset=25600
  fragment @acc type=f32, shape=(64, 128), layout=accumulator(m=64, n=128)
  fragment @other type=f32, shape=(64, 128), layout=accumulator(m=64, n=128)
  event @full lowering=mbarrier, offset=0, triggers={0..1}
  event @empty lowering=mbarrier, offset=8, triggers={0..128}
  tensor_map @m param=@x, box=(64, 64), axes=(1, 0), split=_, dims=(64, 64), swizzle=128
"""
HEAD = """
  elect set, thread=0 {
    mbarrier.init @full, count=1
    mbarrier.init @empty, count=1
    mbarrier.init_fence
  }
  cta.sync
  %p0: u32 = const 0
  %p1: u32 = const 1
  %c0: s32 = const 0
  %v: bf16 = const 1.0
  %tid: s32 = thread_index
"""
FILL = "fill_tile @t[0:64, 0:64], %v, vector=16, rank_base=0, count=128"
FILL_BOTH = f"{FILL}\nfill_tile @u[0:128, 0:64], %v, vector=16, rank_base=0, count=128"
LOAD = "mbarrier.expect_tx @full, _, bytes=8192\nbulk_tensor.load @m, (%c0, %c0), @t[0:64, 0:64], start(), @full, _, _"
OUT = (
    "copy_tile @t[0:64, 0:64], (), @y[0:64, 0:64], (), vector=16, rank_base=0, count=128, asynchronous=false, unroll=1"
)
OTHERS_OUT = OUT.replace("count=128", "count=64")  # other warps have other parts
WAIT = "mbarrier.wait @full, _, %p0"
MMA = (
    "wgmma.issue @acc, @t[0:64, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32), "
    "@u[0:128, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32), m=64, n=128, k=64, k_step=16, "
    "a_transposed=false, b_transposed=false, accumulate=false"
)
MMA_WAIT = "wgmma.wait depth=0, (%f), (@acc)"


def one(body, thread=0):
    return f"elect set, thread={thread} {{\n{body}\n}}"


def marked(body, mark):
    """The last line of some text with a mark."""
    return f"{body} # {mark}"


def kernel(*parts, head=HEAD, text="()"):
    """A kernel whose operations have the lines of this text; the numbers of the marked lines."""
    lines: list[str] = []
    marks: dict[str, Any] = {"because": set()}
    for line in "\n".join((OBJECTS, head, *parts)).split("\n"):
        code, _, mark = line.partition(" # ")
        number = len(lines) + 1
        if mark == "because":
            marks[mark].add(number)
        elif mark:
            marks[mark] = number
        plain = not code.strip() or code.strip() in ("}", "} body {")
        lines.append(code if plain else f"{code}  // line {number}")
    first = f'kernel k file="k.co", grid=(1, 1, 1), threads=128, device_text={text}, shared_bytes=26112 {{'
    return parse_kernel("\n".join((first, *lines, "}")) + "\n"), marks


def data():
    return {name: np.ones((64, 64), "bfloat16") for name in "xy"}


def run(made, schedule):
    simulate(made, data(), schedule=schedule, races=True)


def report(schedule, *parts, **options):
    """The report on a program, whose marked lines it must name."""
    made, marks = kernel(*parts, **options)
    with pytest.raises(SimulationFault) as found:
        run(made, schedule)
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.line == marks["fault"]
    assert marks["because"] <= {label.span.line for label in diagnostic.labels}
    assert any(f"block (0, 0, 0), schedule `{schedule}`" in note for note in diagnostic.notes)
    return diagnostic


def text(diagnostic):
    return " ".join([diagnostic.message, *diagnostic.notes, *(label.message for label in diagnostic.labels)])


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    return request.param


# -------------------------------------------------------------------------------------------------- right programs
LOADED = (one(LOAD), WAIT)
FILLED = (FILL_BOTH, "fence.proxy_async", "cta.sync")
MULTIPLIED = ("wgmma.fence (@acc)", MMA, "%f: future = wgmma.commit", MMA_WAIT)
STORE = "bulk_tensor.store @m, (%c0, %c0), @t[0:64, 0:64], start()\nbulk.commit"
STORED = f"{STORE}\nbulk.wait depth=0, read=true"
RIGHT = {
    "load, read": (*LOADED, OUT),
    "load, read, overwrite": (*LOADED, OTHERS_OUT, "cta.sync", FILL),
    "load twice": (
        *LOADED, OUT, "fence.proxy_async", "cta.sync", one(LOAD), "mbarrier.wait @full, _, %p1", OTHERS_OUT,
    ),
    "multiply, overwrite": (*FILLED, *MULTIPLIED, "cta.sync", FILL),
    "store, overwrite": (FILL, "fence.proxy_async", "cta.sync", one(STORED), "cta.sync", FILL),
    "lanes by way of a barrier": (
        "store_element @s[0:128], (%tid), %tid",
        "warp.sync",
        "%o: s32 = const 1",
        "%n: s32 = binary xor, %tid, %o",
        "%r: s32 = load_element @s[0:128], (%n)",
    ),
    "handshakes": (
        one(LOAD),
        one(f"{WAIT}\nmbarrier.arrive @empty, _", 32),
        one("mbarrier.wait @empty, _, %p0\n" + LOAD),
        one("mbarrier.wait @full, _, %p1", 32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", RIGHT.values(), ids=RIGHT)
def test_right_programs_have_no_report(program, schedule):
    run(kernel(*program)[0], schedule)


# ----------------------------------------------------------------------------------------------------- in flight
def test_read_in_flight(schedule):
    found = report(schedule, one(marked(LOAD, "because")), "cta.sync", marked(OUT, "fault"), WAIT)
    assert found.code == "E-5040"
    assert "a cooperative copy reads `t` while the TMA load of it may be in flight" in found.message
    assert "wait for `full`" in found.hint


def test_a_wait_by_one_lane_says_nothing_to_the_others(schedule):
    found = report(
        schedule, one(marked(LOAD, "because")), one(WAIT), marked(OUT.replace("count=128", "count=32"), "fault")
    )
    assert found.code == "E-5040"


def test_written_in_flight(schedule):
    found = report(schedule, one(marked(LOAD, "because")), "cta.sync", marked(FILL, "fault"), WAIT)
    assert found.code == "E-5042"


def test_overwritten_under_an_mma(schedule):
    issued = ("wgmma.fence (@acc)", marked(MMA, "because"), "%f: future = wgmma.commit")
    found = report(schedule, *FILLED, *issued, marked(FILL, "fault"), MMA_WAIT)
    assert found.code == "E-5041"
    assert "`wait f`" in found.hint


def test_overwritten_under_a_store(schedule):
    parts = (FILL, "fence.proxy_async", "cta.sync", one(STORE.replace("\n", " # because\n")), "cta.sync")
    found = report(schedule, *parts, marked(FILL, "fault"), one("bulk.wait depth=0, read=true"))
    assert found.code == "E-5041"
    assert "its bulk group" in text(found)


def test_a_load_that_nobody_waits_for(schedule):
    if schedule != "lazy":  # where the bytes never land, that is what is told
        assert report(schedule, one(marked(LOAD, "fault"))).code == "E-5021"


# ------------------------------------------------------------------------------------------------------- no order
def test_read_by_other_warps_than_wrote(schedule):
    found = report(schedule, marked(FILL, "because"), marked(OTHERS_OUT, "fault"))
    assert found.code == "E-5043"
    assert "no event is triggered by the first and waited for by the second" in text(found)


@pytest.mark.parametrize("schedule", ["eager", "lazy"])  # in another order it is a read of what is written
def test_overwritten_by_other_warps_than_read(schedule):
    rewrite = FILL.replace("count=128", "count=64")
    found = report(schedule, FILL, "cta.sync", marked(OUT, "because"), marked(rewrite, "fault"))
    assert found.code == "E-5044"


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_buffer_is_reused_though_its_reader_has_triggered_too_early(schedule):
    reader = one("mbarrier.arrive @empty, _\n%r: bf16 = load_element @t[0:64, 0:64], (%c0, %c0) # because")
    writer = one("mbarrier.wait @empty, _, %p0 # because\n" + marked(LOAD, "fault"), 64)
    found = report(schedule, *LOADED, "cta.sync", reader, writer, "mbarrier.wait @full, _, %p1")
    assert found.code == "E-5044"
    assert "a TMA load overwrites `t`, and nothing orders it behind what reads it" in found.message
    assert "the trigger comes too early" in text(found)
    assert "trigger `empty` behind the first" in found.hint


def test_ordinary_stores_that_the_tensor_cores_may_not_see(schedule):
    found = report(
        schedule,
        marked(FILL, "because"),
        "fill_tile @u[0:128, 0:64], %v, vector=16, rank_base=0, count=128",
        "cta.sync",
        "wgmma.fence (@acc)",
        marked(MMA, "fault"),
        "%f: future = wgmma.commit",
        MMA_WAIT,
    )
    assert found.code == "E-5045"


def test_a_fence_by_another_warp_does_not_help(schedule):
    stored = one(STORED.replace("\n", " # fault\n", 1))
    found = report(schedule, marked(FILL, "because"), "cta.sync", one("fence.proxy_async"), "cta.sync", stored)
    assert found.code == "E-5045"


def test_lanes_touch_elements_of_one_another(schedule):
    found = report(
        schedule,
        "%o: s32 = const 1",
        "%n: s32 = binary xor, %tid, %o",
        marked("store_element @s[0:128], (%tid), %tid", "because"),
        marked("%r: s32 = load_element @s[0:128], (%n)", "fault"),
    )
    assert found.code == "E-5050"


def test_one_lane_writes_what_all_read(schedule):
    found = report(
        schedule,
        one(marked("store_element @s[0:128], (%c0), %tid", "because")),
        "%w: s32 = const 32",
        "%in: bool = binary lt, %tid, %w",
        "if %in then {",
        marked("%r: s32 = load_element @s[0:128], (%c0)", "fault"),
        "}",
    )
    assert found.code == "E-5043"


# ---------------------------------------------------------------------------------------------------- never written
def test_shared_memory_that_nothing_has_written(schedule):
    found = report(schedule, FILL.replace("@t[0:64", "@t[0:32"), "cta.sync", marked(OUT, "fault"))
    assert found.code == "E-5046"
    assert found.labels[0].span.line == 4
    assert "writes to `t` here, which has not happened" in found.labels[1].message
    assert re.search(r"`t` that nothing has written", found.message)


def test_registers_that_nothing_has_written(schedule):
    found = report(schedule, marked("reg.copy @other, @acc", "fault"))
    assert found.code == "E-5047"
    assert [label.span.line for label in found.labels] == [7]


def test_an_accumulator_that_nothing_has_written(schedule):
    again = marked(MMA.replace("accumulate=false", "accumulate=true"), "fault")
    found = report(schedule, *FILLED, "wgmma.fence (@acc)", again, "%f: future = wgmma.commit", MMA_WAIT)
    assert found.code == "E-5047"


# -------------------------------------------------------------------------------------------------------- barriers
def test_an_arrival_that_may_count_twice():
    waits = one(f"mbarrier.wait @full, _, %p0\n{'mbarrier.wait @full, _, %p1'}", 64)
    found = report(
        "eager", one("mbarrier.arrive @full, _ # because"), one("mbarrier.arrive @full, _ # fault", 32), waits
    )
    assert found.code == "E-5048"
    assert "takes 1 arrival;" in text(found)


def test_who_knows_of_all_arrivals_may_arrive_again(schedule):
    run(kernel(one("mbarrier.arrive @full, _\nmbarrier.arrive @full, _"))[0], schedule)


@pytest.mark.parametrize("schedule", ["eager", "random:0", "random:5", "hostile:0", "hostile:1"])
def test_a_phase_that_may_be_missed(schedule):
    parts = (one("mbarrier.arrive @full, _\nmbarrier.arrive @full, _ # because"), one(f"{WAIT} # fault", 32))
    assert report(schedule, *parts).code == "E-5049"


def test_bytes_of_a_load_that_may_come_late():
    second = LOAD.split("\n")[1]
    found = report("eager", one(LOAD), one(marked(second, "fault"), 32), WAIT)
    assert found.code == "E-5015"


def test_a_barrier_that_may_be_used_before_it_is_initialised():
    head = HEAD.replace("  cta.sync\n", "")
    found = report("eager", one("mbarrier.arrive @full, _ # fault", 32), head=head)
    assert found.code == "E-5016"
    assert (
        report("eager", one(LOAD + " # fault"), WAIT, head=HEAD.replace("    mbarrier.init_fence\n", "")).code
        == "E-5016"
    )


def test_a_circle_of_waits_is_explained(schedule):
    first = one("mbarrier.wait @empty, _, %p0\nmbarrier.arrive @full, _")
    second = one("mbarrier.wait @full, _, %p0\nmbarrier.arrive @empty, _", 32)
    made, _ = kernel(first, second)
    with pytest.raises(SimulationFault) as found:
        run(made, schedule)
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.code == "E-5010"
    assert "they wait for one another: warp 0 for `empty`, warp 1 for `full`" in diagnostic.notes


def test_bytes_that_nobody_brings_are_explained(schedule):
    made, _ = kernel(one("mbarrier.expect_tx @full, _, bytes=64"), WAIT)
    with pytest.raises(SimulationFault) as found:
        run(made, schedule)
    assert "64 bytes that were announced are brought by no load" in text(found.value.diagnostics[0])


# ---------------------------------------------------------------------------------------------------- global memory
PROGRAM = """
__co__ void f(global s32 [N] x, global s32 [N] y) {{
  parallel b by cdiv(N, 64) : block, t by 64 : thread {{
    {body}
  }}
}}"""


def run_program(lower, body, n=128):
    arrays = {"x": np.arange(n, dtype=np.int32), "y": np.zeros(n, np.int32)}
    simulate(lower(PROGRAM.format(body=body)), arrays, races=True)


def test_elements_of_its_own_are_no_race(lower):
    run_program(lower, "y.at(b # t) = y.at(b # t) + 1;")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("y.at(t) = x.at(t);", "E-5051"),
        ("y.at(b # t) = y.at((b # t + 64) % 128);", "E-5051"),
        ("if (b == 0) { y.at(t) = t; x.at(t) = y.at((t + 32) % 64); }", "E-5044"),
        ("if (b == 0) { y.at(t) = t; x.at(t) = y.at(t ^ 1); }", "E-5050"),
    ],
)
def test_global_memory(lower, body, code):
    with pytest.raises(SimulationFault) as found:
        run_program(lower, body)
    assert found.value.diagnostics[0].code == code
    assert found.value.diagnostics[0].labels


def test_a_pointer_that_leaves_its_buffer():
    code = "__device__ void f(int *p, int i) { p[i] = 1; }"
    call = "%i: s32 = const -8\ncall f, (), (@s[0:128], %i) # fault"
    found = report("eager", call, text=f'("{code}")')
    assert found.code == "E-5012"
