"""Programs that are wrong on the machine: each fault is found and coded, under every schedule where it must be."""

import time

import numpy as np
import pytest

from croq.simulate import SimulationFault, run

SCHEDULES = ["eager", "lazy", "random:3"]
EVENT = "  event @e slots=2, array=true, lowering=mbarrier, offset=0, triggers={0..32}\n"
INIT = """  elect set, thread=0 {
    mbarrier.init @e, count=1
  }
  cta.sync
  %zero: u32 = const 0
  %one: u32 = const 1
"""
TILE = "  buffer @t type=bf16, shape=(64, 64), swizzle=128, offset=1024, alignment=1024\n"
BIG = "  buffer @u type=bf16, shape=(128, 64), swizzle=128, offset=9216, alignment=1024\n"
ACC = "  fragment @acc type=f32, shape=(64, 128), layout=accumulator(m=64, n=128)\n"
MMA = (
    "wgmma.issue @acc, @t[0:64, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32), "
    "@u[0:128, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32), m=64, n=128, k=64, k_step=16, "
    "a_transposed=false, b_transposed=false, accumulate=false\n"
)
LOAD_MAP = (
    "  param @x type=bf16, shape=(64, 64)\n"
    "  tensor_map @m param=@x, box=(64, 64), axes=(1, 0), split=_, dims=(64, 64), swizzle=128\n"
)


def x():
    return {"x": np.zeros((64, 64), "bfloat16")}


def fault_of(kernel, arrays=None, schedule="eager", **options):
    with pytest.raises(SimulationFault) as fault:
        run(kernel, arrays or {}, schedule=schedule, **options)
    (diagnostic,) = fault.value.diagnostics
    assert any(f"schedule `{schedule}`" in note for note in diagnostic.notes) or diagnostic.code.startswith("E-503")
    return diagnostic


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wait_that_nobody_ends(ir, schedule):
    kernel = ir(EVENT, INIT + "  mbarrier.wait @e, %one, %zero\n", shared=64)
    found = fault_of(kernel, schedule=schedule)
    assert found.code == "E-5010"
    assert any("`e[1]` to complete its phase 0 (parity 0): 0 of 1 arrivals" in note for note in found.notes)
    assert any("triggered by threads {0..32}" in note for note in found.notes)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_named_barrier_that_lacks_threads(ir, schedule):
    kernel = ir("", "  named_barrier.sync barrier=1, count=160, _\n")
    found = fault_of(kernel, schedule=schedule)
    assert found.code == "E-5010"
    assert any("128 of 160 threads" in note for note in found.notes)


def test_over_arrival(ir):
    load = "    mbarrier.expect_tx @e, %zero, bytes=64\n    mbarrier.arrive @e, %zero\n"
    assert fault_of(ir(EVENT, INIT + "  elect set, thread=0 {\n" + load + "  }\n", shared=64)).code == "E-5014"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("expected", "code"), [(4096, "E-5015"), (8192 + 16, "E-5010")])
def test_bytes_that_do_not_fit(ir, schedule, expected, code):
    body = (
        f"  elect set, thread=0 {{\n    mbarrier.expect_tx @e, %zero, bytes={expected}\n"
        "    bulk_tensor.load @m, (%zero, %zero), @t[0:64, 0:64], start(), @e, %zero, _\n  }\n"
        "  mbarrier.wait @e, %zero, %zero\n"
    )
    kernel = ir(LOAD_MAP + TILE + EVENT, INIT + body, shared=9216)
    assert fault_of(kernel, x(), schedule).code == code


def test_uninitialised_barrier(ir):
    assert fault_of(ir(EVENT, "  %zero: u32 = const 0\n  mbarrier.arrive @e, %zero\n", shared=64)).code == "E-5016"


def test_slot_of_an_event_that_is_not_there(ir):
    body = INIT + "  %two: u32 = const 2\n  mbarrier.arrive @e, %two\n"
    assert fault_of(ir(EVENT, body, shared=64)).code == "E-5012"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_loop_without_end(ir, schedule):
    body = "  %yes: bool = const true\n  while %yes head {\n  } body {\n  }\n"
    kernel = ir("", body)
    assert fault_of(kernel, schedule=schedule, limit=1000).code == "E-5011"


SPIN = """
__co__ void f(global s32 [N] flag, global s32 [N] y) {{
  parallel b by 1 : block {{
    shared s32 [64] cell {{0}};
    parallel t by 64 : thread {{
      mutable s32 n = 0;
      {before}
      while ({condition}) {{ n += 1; }}
      y.at(t) = n;
    }}
  }}
}}
"""


@pytest.fixture
def spinning(lower):
    return lambda condition, before="": lower(SPIN.format(condition=condition, before=before))


@pytest.mark.parametrize(
    ("condition", "schedule"),
    [
        *(("flag.at(0) == 0", schedule) for schedule in [*SCHEDULES, "hostile:0"]),
        ("flag.at(t % 4) + cell.at(1) < 3", "eager"),
        ("flag.at(1) != 7 && N > 1", "eager"),
    ],
)
def test_a_loop_that_waits_for_what_nobody_writes(spinning, condition, schedule):
    arrays = {"flag": np.zeros(64, np.int32), "y": np.zeros(64, np.int32)}
    started = time.process_time()
    found = fault_of(spinning(condition), arrays, schedule)
    assert found.code == "E-5011" and found.span.line == 8
    assert "nothing changes that its condition takes" in found.message
    assert time.process_time() - started < 20


@pytest.mark.parametrize("schedule", [*SCHEDULES, "hostile:0"])
def test_a_loop_that_waits_for_another_warp_of_the_block(spinning, schedule):
    """The last warp lets the others wait for a while, then writes."""
    late = "if (t >= 32) { foreach {k} in [3000] { cell.at(32 + t % 32) = k; } cell.at(t - 32) = 1; }"
    arrays = {"flag": np.zeros(64, np.int32), "y": np.zeros(64, np.int32)}
    run(spinning("cell.at(t % 32) == 0", late), arrays, schedule=schedule, races=False)
    assert (arrays["y"][32:] == 0).all()


def test_a_loop_that_counts_away_from_its_end(spinning):
    arrays = {"flag": np.zeros(64, np.int32), "y": np.zeros(64, np.int32)}
    found = fault_of(spinning("n != -1"), arrays)
    assert found.code == "E-5011" and "200000 turns" in found.message


@pytest.mark.parametrize(("index", "code"), [(63, None), (64, "E-5012"), (-1, "E-5012")])
def test_index_of_a_shared_buffer(ir, index, code):
    body = f"  %i: s32 = const {index}\n  %v: bf16 = load_element @t[0:64, 0:64], (%i, %i)\n"
    kernel = ir(TILE, body, shared=9216)
    if code is None:
        run(kernel, {})
    else:
        assert fault_of(kernel).code == code


def test_index_of_a_parameter_counts_only_where_lanes_are_active(ir):
    objects = "  param @x type=f32, shape=(100)\n"
    store = "store_element @x[0:100], (%t), %v\n"
    head = "  %t: s32 = thread_index\n  %v: f32 = const 1.0\n  %n: s32 = const 100\n  %in: bool = binary lt, %t, %n\n"
    data = {"x": np.zeros(100, np.float32)}
    run(ir(objects, head + f"  if %in then {{\n    {store}  }}\n"), data)
    assert (data["x"] == 1).all()
    found = fault_of(ir(objects, head + f"  {store}"), data)
    assert found.code == "E-5013"
    assert "index 100" in found.message


# --------------------------------------------------------------------------------------------------------------- WGMMA
def _mma(ir, body, objects=""):
    return ir(TILE + BIG + ACC + objects, body, shared=9216 + 16384)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_accumulator_read_in_flight(ir, schedule):
    copy = "  fragment @other type=f32, shape=(64, 128), layout=accumulator(m=64, n=128)\n"
    body = f"  wgmma.fence (@acc)\n  {MMA}  wgmma.commit\n  reg.copy @other, @acc\n"
    found = fault_of(_mma(ir, body.replace("wgmma.commit", "%f: future = wgmma.commit"), copy), schedule=schedule)
    assert found.code == "E-5018"


def test_register_operand_overwritten_in_flight(ir):
    objects = "  fragment @a type=bf16, shape=(64, 64), layout=accumulator(m=64, n=64), packed=true\n"
    issue = MMA.replace("@t[0:64, 0:64]", "@a")
    body = f"  %z: bf16 = const 0.0\n  reg.fill @a, %z\n  wgmma.fence (@a)\n  {issue}  reg.fill @a, %z\n"
    assert fault_of(_mma(ir, body, objects)).code == "E-5018"


def test_mma_without_a_fence(ir):
    assert fault_of(_mma(ir, f"  {MMA}")).code == "E-5019"
    body = f"  wgmma.fence (@acc)\n  %z: f32 = const 0.0\n  reg.fill @acc, %z\n  {MMA}"
    found = fault_of(_mma(ir, body))
    assert found.code == "E-5019"
    assert "`acc`" in found.message


def test_mma_by_part_of_a_warp(ir):
    body = f"  wgmma.fence (@acc)\n  elect warp {{\n    {MMA}  }}\n"
    assert fault_of(_mma(ir, body)).code == "E-5020"


def test_load_of_a_fragment_by_part_of_a_warp(ir):
    objects = (
        "  buffer @t type=bf16, shape=(64, 16), offset=0\n"
        "  fragment @r type=bf16, shape=(64, 16), layout=accumulator(m=64, n=16), packed=true\n"
    )
    found = fault_of(ir(objects, "  elect warp {\n    reg.load @r, @t[0:64, 0:16]\n  }\n", shared=2048))
    assert found.code == "E-5020"
    assert "ldmatrix" in found.message


def test_mma_by_part_of_a_warpgroup(ir):
    body = (
        "  %t: s32 = thread_index\n  %n: s32 = const 96\n  %some: bool = binary lt, %t, %n\n  if %some then {\n"
        f"    wgmma.fence (@acc)\n    {MMA}    %f: future = wgmma.commit\n    wgmma.wait depth=0, (%f), (@acc)\n  }}\n"
    )
    found = fault_of(_mma(ir, body))
    assert found.code == "E-5010"
    assert any("warps 3 have not issued" in note for note in found.notes)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_handed_over_by_part_of_a_warpgroup(ir, schedule):
    body = (
        "  %t: s32 = thread_index\n  %n: s32 = const 96\n  %some: bool = binary lt, %t, %n\n"
        "  if %some then {\n    setmaxnreg dec, count=40\n  }\n"
    )
    found = fault_of(ir("", body), schedule=schedule)
    assert found.code == "E-5020"
    assert "warp 3 of warpgroup 0" in found.message


def test_mma_not_waited_for(ir):
    found = fault_of(_mma(ir, f"  wgmma.fence (@acc)\n  {MMA}  %f: future = wgmma.commit\n"))
    assert found.code == "E-5021"


def test_mma_on_a_row_major_tile(ir):
    plain = TILE.replace("swizzle=128, ", "")
    kernel = ir(plain + BIG + ACC, f"  wgmma.fence (@acc)\n  {MMA}", shared=9216 + 16384)
    with pytest.raises(SimulationFault) as fault:
        run(kernel, {})
    assert fault.value.diagnostics[0].code == "E-5024"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("jump=32", "jump=64"),  # K steps
        ("jump=32", "jump=32, start=start(offset=128)"),
        ("sbo=1024", "sbo=2048"),
        ("layout=1", "layout=2"),
        ("jump=32", "jump=32, base=1"),
        ("jump=32", "jump=32, first=1, wrap=4, step=32"),
    ],
)
def test_descriptors_that_address_other_elements(ir, right, wrong):
    kernel = _mma(ir, f"  wgmma.fence (@acc)\n  {MMA.replace(right, wrong, 1)}")
    found = fault_of(kernel)
    assert found.code == "E-5024"
    assert "`t`" in found.message


# --------------------------------------------------------------------------------------------------------- copy engine
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_store_not_waited_for(ir, schedule):
    body = (
        "  %zero: s32 = const 0\n  elect set, thread=0 {\n"
        "    bulk_tensor.store @m, (%zero, %zero), @t[0:64, 0:64], start()\n"
        "    bulk.commit\n  }\n"
    )
    kernel = ir(LOAD_MAP + TILE, body, shared=9216)
    assert fault_of(kernel, x(), schedule).code == "E-5021"


@pytest.mark.parametrize("schedule", ["lazy"])
def test_load_not_waited_for(ir, schedule):
    body = (
        "  elect set, thread=0 {\n    mbarrier.expect_tx @e, %zero, bytes=8192\n"
        "    bulk_tensor.load @m, (%zero, %zero), @t[0:64, 0:64], start(), @e, %zero, _\n  }\n"
    )
    kernel = ir(LOAD_MAP + TILE + EVENT, INIT + body, shared=9216)
    assert fault_of(kernel, x(), schedule).code == "E-5021"


def test_displaced_swizzle(ir):
    store = "bulk_tensor.store @m, (%z, %z), @t[0:64, 0:64], start()"
    body = f"  %z: s32 = const 0\n  elect set, thread=0 {{\n    {store}\n  }}\n"
    kernel = ir(LOAD_MAP + TILE.replace("1024", "1152", 1), body, shared=9400)
    found = fault_of(kernel, x())
    assert found.code == "E-5024"
    assert "displaced" in found.message


def test_swizzle_of_map_and_buffer_differ(ir):
    body = "  %z: s32 = const 0\n  bulk_tensor.store @m, (%z, %z), @t[0:64, 0:64], start()\n"
    kernel = ir(LOAD_MAP + TILE.replace("swizzle=128", "swizzle=64"), body, shared=9216)
    with pytest.raises(SimulationFault) as fault:
        run(kernel, x())
    assert fault.value.diagnostics[0].code == "E-5024"


# ------------------------------------------------------------------------------------------------------ warps and text
def test_named_barrier_by_part_of_a_warp(ir):
    assert fault_of(ir("", "  elect warp {\n    named_barrier.arrive barrier=1, count=64, _\n  }\n")).code == "E-5017"


def test_division_by_zero_counts_only_where_lanes_are_active(ir):
    head = "  %t: s32 = thread_index\n  %zero: s32 = const 0\n  %some: bool = binary gt, %t, %zero\n"
    run(ir("", head + "  if %some then {\n    %q: s32 = binary div, %t, %t\n  }\n"), {})
    assert fault_of(ir("", head + "  %q: s32 = binary mod, %t, %t\n")).code == "E-5022"


def test_tile_at_a_place_that_differs_between_lanes(ir):
    objects = "  fragment @r type=f32, shape=(64), layout=row(m=64)\n  param @y type=f32, shape=(256)\n"
    kernel = ir(objects, "  %t: s32 = thread_index\n  reg.store @r, @y[%t:64], store, (), pairs=false\n")
    assert fault_of(kernel, {"y": np.zeros(256, np.float32)}).code == "E-5023"


def test_text_in_cpp(ir):
    with pytest.raises(SimulationFault) as fault:
        run(ir("", '  cpp "nop();"\n'), {})
    assert fault.value.diagnostics[0].code == "E-5030"


def test_what_is_unforeseen_is_no_traceback(ir, monkeypatch):
    monkeypatch.setattr("croq.simulate.runner._run", lambda program, cta: 1 / 0)
    found = fault_of(ir("", "  cta.sync\n"))
    assert found.code == "E-5099"


def test_a_missed_phase_is_told(ir):
    """The first warp completes two phases before the others look: they wait for a parity that has passed."""
    body = (
        INIT
        + "  elect set, thread=0 {\n    mbarrier.arrive @e, %zero\n  }\n  cta.sync\n  mbarrier.wait @e, %zero, %one\n"
    )
    found = fault_of(ir(EVENT, body, shared=64))
    assert found.code == "E-5010"
    assert any("has missed a phase of `e[0]`: it waits for phase 0" in note for note in found.notes)
