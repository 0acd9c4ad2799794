"""The PTX of whole programs gives what the simulator of the lowered IR gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import croq
from croq.agreement import agree
from tests.programs.harness import Case, cases, make_run

pytestmark = pytest.mark.nvrtc

ROOT = Path(__file__).resolve().parent.parent

FIRST = [case for case in cases() if case.variant is case.program.variants[0]]


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.id)
def test_programs_give_their_references(case: Case) -> None:
    compiled = croq.compile(case.path, case.defines, verify=False)
    kernel = compiled.kernels[case.program.name]
    made = make_run(case, case.variant.sizes[0])
    for schedule in ("eager", "lazy", "random:3"):
        arrays = made.fresh()
        given = [made.scalars[p.name] if p.shape is None else arrays[p.name] for p in kernel.params]
        croq.simulate(kernel, *given, schedule=schedule, level="ptx")
        assert made.faults(arrays) == [], schedule


def test_a_function_agrees_with_its_lowered_program() -> None:
    kernel = croq.compile(ROOT / "cases" / "gemm_ring.co")
    found = agree(kernel)
    assert found.holds and found.exact > 0
    assert any(sizes["K"] > 2 * 3 * 64 for sizes in found.sizes), "no size uses every slot of the ring again"
    assert any(sizes["N"] < 128 and sizes["M"] < 64 for sizes in found.sizes), "no size cuts the first tile"
    assert any(sizes["N"] > 128 and sizes["M"] > 64 for sizes in found.sizes), "no size has several blocks"
    assert str(found).startswith("gemm: emitted code agrees with the lowered program on ")


def test_task_lists_make_their_loops_run() -> None:
    found = agree(croq.compile("v3"))
    assert found.holds and found.blocks >= 12


@pytest.mark.parametrize(
    ("program", "right", "wrong"),
    [
        ("gemm_ring.co", "croq::descriptor_word(", "2 + croq::descriptor_word("),  # another place in shared memory
        ("gemm_ring.co", "wgmma_wait<0>", "wgmma_wait<1>"),
        ("gemm_ring.co", "croq::mbarrier_wait(full + order_slot * 8, order_parity);", ""),
        ("gemm_ring.co", "croq::named_barrier_sync(1, 128);", ""),  # only where warps part
        ("saxpy.co", " + ", " - "),
    ],
)
def test_wrong_emission_is_found(program: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import croq.emit

    kernel = croq.compile(ROOT / "cases" / program)
    emit = croq.emit.emit_cuda
    assert right in kernel.cuda

    def broken(kernels, *, lineinfo=False):
        return emit(kernels, lineinfo=lineinfo).replace(right, wrong)

    monkeypatch.setattr(croq.emit, "emit_cuda", broken)
    found = agree(kernel)
    assert found.faults and found.faults[0].code.startswith("E-70"), str(found)


def test_the_command_line_says_on_how_many_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    from croq.cli import main

    sys.argv = ["croq", "check", "--ptx", str(ROOT / "cases" / "saxpy.co")]
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert "emitted code agrees with the lowered program on" in capsys.readouterr().out


def test_what_cannot_be_executed_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from croq.ptx.registry import RULES

    monkeypatch.delitem(RULES, "st")
    from croq.ptx import registry

    registry._match.cache_clear()
    found = agree(croq.compile(ROOT / "cases" / "saxpy.co"))
    registry._match.cache_clear()
    assert not found.holds and [f.code for f in found.faults] == ["W-7031"]
    assert "`st" in " ".join(found.faults[0].notes)


def test_accumulators_of_16_bits_may_part_by_their_own_rounding(tmp_path: Path) -> None:
    """Chip and simulator add up in another order, and each step is rounded to f16: no fault of the emitted code."""
    text = """
__co__ void k(global f8_e4m3 [64, 64] a, global f8_e4m3 [16, 64] b, global f16 [64, 16] c) {
  parallel q by 1 : block, t by 128 : thread {
    acc = mma.fill.f16 0.0f;
    shared f8_e4m3 [64, 64] a_s;
    shared f8_e4m3 [16, 64] b_s;
    dma.copy.swiz<64> a => a_s;
    dma.copy.swiz<64> b => b_s;
    mma.row.row acc, a_s, b_s;
    mma.store acc, c;
  }
}
"""
    path = tmp_path / "k.co"
    path.write_text(text)
    found = agree(croq.compile(path))
    assert found.holds, [str(fault) for fault in found.faults]
    assert found.exact


@pytest.mark.parametrize("types", [("f8_e4m3", "f8_e5m2"), ("f8_e5m2", "f8_e4m3")])
def test_operands_of_two_eight_bit_formats_keep_their_own(types: tuple[str, str]) -> None:
    a, b = types
    found = agree(
        croq.compile(
            f"""
            __co__ void mixed(global {a} [64, 64] a, global {b} [64, 64] b, global f32 [64, 64] c) {{
              parallel t by 128 : thread {{
                shared {a} [64, 64] sa;
                shared {b} [64, 64] sb;
                dma.copy a => sa;
                dma.copy b => sb;
                acc = mma.fill.f32 0.0f;
                mma.row.row acc, sa, sb;
                mma.store acc, c;
              }}
            }}
            """
        )
    )
    assert found.holds and found.exact > 0, str(found)
