"""WGMMA wrappers: names, register counts, what is refused, and that every kind compiles."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from croq.driver.nvrtc import compile_cuda
from croq.target.sm90.instructions import WRAP, Wgmma, register_fence
from croq.target.sm90.wgmma import WGMMA

KINDS = [
    Wgmma(8, False, "bf16", "bf16"),
    Wgmma(64, True, "bf16", "bf16", trans_b=True),
    Wgmma(128, False, "bf16", "bf16", trans_a=True, trans_b=True),
    Wgmma(256, False, "bf16", "bf16"),
    Wgmma(256, True, "f16", "f16", trans_b=True),
    Wgmma(104, True, "f16", "f16", "f16"),
    Wgmma(32, False, "f16", "f16", "f16", trans_a=True),
    Wgmma(64, False, "tf32", "tf32"),
    Wgmma(96, False, "f8_e4m3", "f8_e4m3"),
    Wgmma(96, False, "f8_e5m2", "f8_e4m3"),
    Wgmma(16, False, "f8_e4m3", "f8_e4m3", "f16"),
]


def kernel(op: Wgmma) -> str:
    """A kernel that issues `op` twice, without and with the old contents of the accumulator."""
    acc = "float" if op.acc_type == "f32" else "croq::u32"
    a = "q[0], q[1], q[2], q[3]" if op.a_in_registers else "d"
    n = op.acc_registers
    return f"""
extern "C" __global__ void __launch_bounds__(128) k_{op.name}({acc}* p, const croq::u32* q, croq::u64 d) {{
    {acc} acc[{n}];
    croq::wgmma_fence();
    {op.name}(acc, {a}, d, 0);
    {op.name}(acc, {a}, d + 2, 1);
    croq::wgmma_commit();
    croq::wgmma_wait<0>();
    register_fence(acc);
#pragma unroll
    for (int i = 0; i < {n}; i++) p[i * 128 + threadIdx.x] = acc[i];
}}
"""


@pytest.mark.nvrtc
def test_every_kind_compiles_without_remarks() -> None:
    fences: set[tuple[int, Literal["f32", "u32"]]]
    fences = {(op.acc_registers, "f32" if op.acc_type == "f32" else "u32") for op in KINDS}
    text = '#include "croq.cuh"\n' + "".join(op.wrapper for op in KINDS)
    text += "".join(register_fence(count, kind) for count, kind in sorted(fences))
    compiled = compile_cuda(text + "".join(kernel(op) for op in KINDS))
    assert compiled.warnings == ()
    assert {u.name for u in compiled.usage} == {f"k_{op.name}" for op in KINDS}


def test_names_tell_the_instruction() -> None:
    assert Wgmma(128, False, "bf16", "bf16").name == "wgmma_m64n128k16_bf16_ss"
    assert Wgmma(64, True, "bf16", "bf16", trans_b=True).name == "wgmma_m64n64k16_bf16_rs_tb"
    assert Wgmma(64, False, "f16", "f16", "f16", trans_a=True).name == "wgmma_m64n64k16_f16_ss_f16acc_ta"
    assert Wgmma(8, False, "tf32", "tf32").name == "wgmma_m64n8k8_tf32_ss"
    assert Wgmma(256, False, "f8_e4m3", "f8_e4m3").name == "wgmma_m64n256k32_e4m3_ss"
    assert Wgmma(256, False, "f8_e4m3", "f8_e5m2").name == "wgmma_m64n256k32_e4m3_e5m2_ss"


@pytest.mark.parametrize("n", WGMMA.n)
def test_each_n_lists_every_accumulator_register_once(n: int) -> None:
    text = Wgmma(n, False, "bf16", "bf16").wrapper
    assert f"float (&d)[{n // 2}]" in text
    assert re.findall(r'"\+f"\(d\[(\d+)\]\)', text) == [str(i) for i in range(n // 2)]
    percents = [int(i) for i in re.findall(r"%(\d+)", text)]
    assert sorted(set(percents)) == list(range(n // 2 + 3))


def test_lines_are_wrapped() -> None:
    for op in KINDS:
        assert max(len(line) for line in op.wrapper.splitlines()) <= WRAP
    assert max(len(line) for line in register_fence(128).splitlines()) <= WRAP


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((12, False, "bf16", "bf16"), "N is"),
        ((264, False, "bf16", "bf16"), "N is"),
        ((0, False, "bf16", "bf16"), "N is"),
        ((64, True, "bf16", "bf16", "f32", True), "A must have K contiguous"),
        ((64, False, "bf16", "bf16", "f16"), "summed in `f16`"),
        ((64, False, "tf32", "tf32", "f32", False, True), "B of `tf32`"),
        ((64, False, "f8_e4m3", "f8_e4m3", "f32", True, False), "A must"),
        ((64, False, "s8", "s8"), "multiplies `s8`"),
        ((64, False, "f16", "f16", "s32"), "summed in `s32`"),
    ],
)
def test_what_the_isa_lacks_is_refused(arguments: tuple[object, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Wgmma(*arguments)  # type: ignore[arg-type]
