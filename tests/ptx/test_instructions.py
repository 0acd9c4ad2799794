"""Each family of instructions, with values worked out by hand from the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from croq.ptx.faults import PtxFault
from tests.ptx.ptx_running import computed

U32, S32, U64, S64 = np.uint32, np.int32, np.uint64, np.int64
F32, F64 = np.float32, np.float64
TOP = 2**31


def u32(*values: int):
    return np.array([v & 0xFFFFFFFF for v in values], U32)


def s32(*values: int):
    return np.array(values, S32)


def f32(*values: float):
    return np.array(values, F32)


INTEGERS = [
    ("add.s32 {d}, {0}, {1};", s32(2**31 - 1, -1), s32(1, 1), s32(-TOP, 0)),
    ("sub.s32 {d}, {0}, {1};", s32(-TOP, 5), s32(1, 7), s32(TOP - 1, -2)),
    ("add.sat.s32 {d}, {0}, {1};", s32(2**31 - 1, -TOP), s32(9, -9), s32(2**31 - 1, -TOP)),
    ("mul.lo.s32 {d}, {0}, {1};", s32(65536, -3), s32(65536, 5), s32(0, -15)),
    ("mul.hi.s32 {d}, {0}, {1};", s32(-1, 2**30), s32(2, 8), s32(-1, 2)),
    ("mul.hi.u32 {d}, {0}, {1};", u32(0xFFFFFFFF, 3), u32(0xFFFFFFFF, 1), u32(0xFFFFFFFE, 0)),
    ("div.s32 {d}, {0}, {1};", s32(-7, 7, -7, -TOP), s32(2, -2, -2, 3), s32(-3, -3, 3, -715827882)),
    ("rem.s32 {d}, {0}, {1};", s32(-7, 7, -7), s32(2, -2, -2), s32(-1, 1, -1)),
    ("div.u32 {d}, {0}, {1};", u32(-1, 9), u32(2, 4), u32(TOP - 1, 2)),
    ("abs.s32 {d}, {0};", s32(-5, 5, -TOP), s32(0, 0, 0), s32(5, 5, -TOP)),
    ("min.u32 {d}, {0}, {1};", u32(-1, 3), u32(1, 4), u32(1, 3)),
    ("max.s32 {d}, {0}, {1};", s32(-1, 3), s32(1, -4), s32(1, 3)),
    ("sad.u32 {d}, {0}, {1}, 10;", u32(3, 9), u32(9, 3), u32(16, 16)),
    ("shl.b32 {d}, {0}, {1};", u32(1, 1, 1), u32(31, 32, 200), u32(TOP, 0, 0)),
    ("shr.u32 {d}, {0}, {1};", u32(-1, -1), u32(31, 32), u32(1, 0)),
    ("shr.s32 {d}, {0}, {1};", s32(-8, -8, 8), s32(1, 99, 99), s32(-4, -1, 0)),
    ("shf.l.wrap.b32 {d}, {0}, {1}, 8;", u32(0xAABBCCDD), u32(0x11223344), u32(0x223344AA)),
    ("shf.r.clamp.b32 {d}, {0}, {1}, 40;", u32(0xAABBCCDD), u32(0x11223344), u32(0x11223344)),
    ("bfe.u32 {d}, {0}, 4, 8;", u32(0xABCDEF12), u32(0), u32(0xF1)),
    ("bfe.s32 {d}, {0}, 4, 8;", u32(0xABCDEF12, 0x010), u32(0, 0), u32(0xFFFFFFF1, 1)),
    ("bfe.u32 {d}, {0}, {1}, 0;", u32(-1, -1), u32(0, 40), u32(0, 0)),
    ("bfe.s32 {d}, {0}, 28, 8;", u32(0x80000000, 0x10000000), u32(0, 0), u32(0xFFFFFFF8, 1)),
    ("bfi.b32 {d}, {0}, {1}, 8, 4;", u32(0xFF), u32(0), u32(0xF00)),
    ("prmt.b32 {d}, {0}, {1}, 0x5410;", u32(0x33221100), u32(0x77665544), u32(0x55441100)),
    ("prmt.b32 {d}, {0}, {1}, 0x888B;", u32(0x80112233), u32(0), u32(0x000000FF)),
    ("lop3.b32 {d}, {0}, {1}, 0x0F0F0F0F, 0x96;", u32(0xFF00FF00), u32(0x00FF00FF), u32(0xF0F0F0F0)),
    ("popc.b32 {d}, {0};", u32(0, -1, 0x101), u32(0, 0, 0), u32(0, 32, 2)),
    ("clz.b32 {d}, {0};", u32(0, 1, -1), u32(0, 0, 0), u32(32, 31, 0)),
    ("brev.b32 {d}, {0};", u32(1, 0xF0), u32(0, 0), u32(TOP, 0x0F000000)),
    ("bfind.u32 {d}, {0};", u32(0, 1, TOP), u32(0, 0, 0), u32(-1, 0, 31)),
    ("bfind.s32 {d}, {0};", s32(-1, -2, 5), s32(0, 0, 0), u32(-1, 0, 2)),
    ("mad24.lo.u32 {d}, {0}, {1}, 1;", u32(0x1000003, 5), u32(2, 6), u32(7, 31)),
    ("dp4a.s32.s32 {d}, {0}, {1}, 10;", u32(0x01FF0203), u32(0x02020202), u32(20)),
    ("not.b32 {d}, {0};", u32(0, -1), u32(0, 0), u32(-1, 0)),
    ("cnot.b32 {d}, {0};", u32(0, 7), u32(0, 0), u32(1, 0)),
]


@pytest.mark.parametrize(
    ("text", "a", "b", "want"), INTEGERS, ids=[i[0].split()[0] + str(n) for n, i in enumerate(INTEGERS)]
)
def test_integers(text, a, b, want):
    np.testing.assert_array_equal(computed(text, want.dtype, a, b), want)


def test_wide_products():
    got = computed("mul.wide.s32 {d}, {0}, {1};", S64, s32(-TOP, 7), s32(2, -7))
    np.testing.assert_array_equal(got, [-(2**32), -49])
    a, b = np.array([2**63 + 5, 3], U64), np.array([2**62 + 1, 2**63], U64)
    high = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(computed("mul.hi.u64 {d}, {0}, {1};", U64, a, b), np.array(high, U64))
    a, b = np.array([-(2**62), -5], S64), np.array([2**40 + 7, -(2**61)], S64)
    high = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(computed("mul.hi.s64 {d}, {0}, {1};", S64, a, b), high)


def test_carries_make_64_bits_of_two_words():
    a, b = np.array([0xFFFFFFFF_FFFFFFFF, 0x1_00000000], U64), np.array([1, 0xFFFFFFFF], U64)
    text = (
        "mov.b64 {%r2, %r3}, {0}; mov.b64 {%r4, %r5}, {1};"
        "OP.cc.u32 %r6, %r2, %r4; OPc.u32 %r7, %r3, %r5; mov.b64 {d}, {%r6, %r7};"
    )
    np.testing.assert_array_equal(computed(text.replace("OP", "add"), U64, a, b), a + b)
    np.testing.assert_array_equal(computed(text.replace("OP", "sub"), U64, a, b), a - b)


FLOATS = [
    ("add.f32 {d}, {0}, {1};", f32(1, np.inf, 2.0**-149), f32(2.0**-24, 1, 2.0**-149), f32(1, np.inf, 2.0**-148)),
    ("add.ftz.f32 {d}, {0}, {1};", f32(2.0**-127), f32(2.0**-127), f32(0)),
    ("add.rp.f32 {d}, {0}, {1};", f32(1), f32(2.0**-40), f32(1 + 2.0**-23)),
    ("sub.rz.f32 {d}, {0}, {1};", f32(1), f32(2.0**-40), f32(1 - 2.0**-24)),
    ("add.sat.f32 {d}, {0}, {1};", f32(0.75, -3, np.nan), f32(0.75, 1, 0), f32(1, 0, 0)),
    ("fma.rn.f32 {d}, {0}, {1}, 0fBF800000;", f32(1 + 2.0**-12), f32(1 - 2.0**-12), f32(-(2.0**-24))),
    ("max.f32 {d}, {0}, {1};", f32(np.nan, -0.0, 2), f32(3, 0.0, np.nan), f32(3, 0.0, 2)),
    ("min.f32 {d}, {0}, {1};", f32(0.0, np.nan), f32(-0.0, 1), f32(-0.0, 1)),
    ("max.NaN.f32 {d}, {0}, {1};", f32(np.nan, 2), f32(3, 1), f32(np.nan, 2)),
    ("neg.f32 {d}, {0};", f32(0.0, -2), f32(0, 0), f32(-0.0, 2)),
    ("rcp.rn.f32 {d}, {0};", f32(3, 0), f32(0, 0), f32(1 / 3, np.inf)),
    ("ex2.approx.ftz.f32 {d}, {0};", f32(-np.inf, 3, -130), f32(0, 0, 0), f32(0, 8, 0)),
    ("copysign.f32 {d}, {0}, {1};", f32(-1, 1), f32(5, -5), f32(-5, 5)),
]


@pytest.mark.parametrize(
    ("text", "a", "b", "want"), FLOATS, ids=[i[0].split()[0] + str(n) for n, i in enumerate(FLOATS)]
)
def test_floats(text, a, b, want):
    got = computed(text, F32, a, b)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_the_nan_of_arithmetic_is_canonical():
    got = computed("sub.f32 {d}, {0}, {1};", F32, f32(np.inf), f32(np.inf))
    assert got.view(U32)[0] == 0x7FFFFFFF


def test_packed_halves():
    one_two, three_four = 0x40003C00, 0x44004200  # f16: (1, 2), (3, 4)
    assert computed("add.f16x2 {d}, {0}, {1};", U32, u32(one_two), u32(three_four))[0] == 0x46004400
    assert computed("mul.bf16x2 {d}, {0}, {1};", U32, u32(0x40003F80), u32(0x40404040))[0] == 0x40C04040


def test_f64_fma_rounds_once():
    a, b = np.array([1 + 2.0**-30]), np.array([1 - 2.0**-30])
    got = computed("fma.rn.f64 {d}, {0}, {1}, 0dBFF0000000000000;", F64, a, b)
    assert got[0] == -(2.0**-60)


CONVERSIONS = [
    ("cvt.rzi.s32.f32 {d}, {0};", f32(-1.9, 3e9, -3e9, np.nan), s32(-1, 2**31 - 1, -TOP, 0)),
    ("cvt.rni.s32.f32 {d}, {0};", f32(0.5, 1.5, -2.5), s32(0, 2, -2)),
    ("cvt.rn.f32.s32 {d}, {0};", s32(16777217, -1), f32(16777216, -1)),
    ("cvt.rn.bf16x2.f32 {d}, {0}, 0f3F800000;", f32(2), u32(0x40003F80)),
    ("cvt.rn.f16x2.f32 {d}, {0}, 0f3F800000;", f32(2), u32(0x40003C00)),
    ("cvt.s32.s8 {d}, {0};", u32(0x1FF, 0x17F), s32(-1, 127)),
    ("cvt.sat.u8.s32 {d}, {0};", s32(300, -4, 7), u32(255, 0, 7)),
    ("cvt.rna.tf32.f32 {d}, {0};", f32(1 + 2.0**-11), f32(1 + 2.0**-10)),
    ("cvt.sat.f32.f32 {d}, {0};", f32(2, -1), f32(1, 0)),
]


@pytest.mark.parametrize(("text", "a", "want"), CONVERSIONS, ids=[i[0].split()[0] for i in CONVERSIONS])
def test_conversions(text, a, want):
    np.testing.assert_array_equal(computed(text, want.dtype, a), want)


def test_fp8_pairs():
    text = "cvt.rn.satfinite.e4m3x2.f32 %h1, {0}, {1}; cvt.rn.f16x2.e4m3x2 {d}, %h1;"
    assert computed(text, U32, f32(1000), f32(-1.5))[0] == 0x5F00BE00  # (448 above, -1.5 below)


COMPARISONS = [
    ("setp.lt.s32", s32(-1, 1), s32(1, -1), [1, 0]),
    ("setp.lo.u32", u32(-1, 1), u32(1, -1), [0, 1]),
    ("setp.eq.f32", f32(1, np.nan), f32(1, np.nan), [1, 0]),
    ("setp.ne.f32", f32(1, np.nan), f32(2, 1), [1, 0]),
    ("setp.neu.f32", f32(1, np.nan), f32(1, 1), [0, 1]),
    ("setp.geu.f32", f32(1, np.nan, 0), f32(2, 1, 0), [0, 1, 1]),
    ("setp.num.f32", f32(1, np.nan), f32(2, 1), [1, 0]),
]


@pytest.mark.parametrize(("name", "a", "b", "want"), COMPARISONS, ids=[c[0] for c in COMPARISONS])
def test_comparisons(name, a, b, want):
    got = computed(f"{name} %p1, {{0}}, {{1}}; selp.u32 {{d}}, 1, 0, %p1;", U32, a, b)
    np.testing.assert_array_equal(got, want)


def test_setp_gives_the_opposite_and_combines():
    text = (
        "setp.eq.s32 %p3, {1}, 0; setp.lt.and.s32 %p1|%p2, {0}, 5, !%p3;"
        "selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; add.u32 {d}, %r2, %r3;"
    )
    np.testing.assert_array_equal(computed(text, U32, s32(1, 9, 1), s32(1, 1, 0)), [1, 2, 0])


def test_slct_and_set():
    np.testing.assert_array_equal(computed("slct.u32.s32 {d}, 7, 8, {0};", U32, s32(-1, 0)), [8, 7])
    np.testing.assert_array_equal(computed("set.gt.u32.f32 {d}, {0}, {1};", U32, f32(2, 1), f32(1, 1)), [0xFFFFFFFF, 0])


LANES = np.arange(32, dtype=U32)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("shfl.sync.bfly.b32 {d}, {0}, 3, 31, -1;", LANES ^ 3),
        ("shfl.sync.up.b32 {d}, {0}, 1, 0, -1;", np.maximum(LANES.astype(int) - 1, 0)),
        ("shfl.sync.down.b32 {d}, {0}, 2, 31, -1;", np.where(LANES < 30, LANES + 2, LANES)),
        ("shfl.sync.idx.b32 {d}, {0}, 9, 0x181f, -1;", LANES // 8 * 8 + 1),
        ("setp.gt.u32 %p1, {0}, 29; vote.sync.ballot.b32 {d}, %p1, -1;", np.full(32, 3 << 30)),
        ("setp.gt.u32 %p1, {0}, 29; vote.sync.any.pred %p2, %p1, -1; selp.u32 {d}, 1, 0, %p2;", np.ones(32)),
        ("setp.gt.u32 %p1, {0}, 29; vote.sync.all.pred %p2, !%p1, -1; selp.u32 {d}, 1, 0, %p2;", np.zeros(32)),
        ("redux.sync.add.u32 {d}, {0}, -1;", np.full(32, 496)),
        ("shr.u32 %r2, {0}, 4; match.any.sync.b32 {d}, %r2, -1;", np.where(LANES < 16, 0xFFFF, 0xFFFF0000)),
        ("elect.sync {d}|%p1, 0xfffffff0;", None),
        ("activemask.b32 {d};", np.full(32, 0xFFFFFFFF)),
    ],
)
def test_warps(text, want):
    if want is None:
        with pytest.raises(PtxFault, match="mask does not name it"):
            computed(text, U32, LANES)
        return
    np.testing.assert_array_equal(computed(text, U32, LANES), want)


def test_division_by_zero_is_a_fault():
    with pytest.raises(PtxFault) as caught:
        computed("div.s32 {d}, {0}, {1};", S32, s32(1, 2), s32(1, 0))
    assert caught.value.code == "E-7018"


@pytest.mark.parametrize("text", ["tcgen05.alloc {d}, {0};", "add.f32.wild {d}, {0}, {0};", "ld.wild.u32 {d}, [%rd1];"])
def test_what_has_no_rule_is_refused(text):
    with pytest.raises(PtxFault) as caught:
        computed(text, U32, u32(0))
    assert caught.value.code == "E-7002"
