"""Faults of emission, one at a time: what a wrong template, handler or runtime function would make of a kernel.

Each is a change of the text that emission makes for a program of tests/programs, or of the runtime that every kernel
includes. `tools/mutate_emission.py` asks what notices them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

RUNTIME = "runtime"


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in the CUDA of program `subject`, everywhere; with `RUNTIME` first, in the prelude."""

    name: str
    subject: str
    old: str
    new: str
    place: str = "text"


def _text(group: str, subject: str, *changes: tuple[str, str, str]) -> Iterator[Mutant]:
    for name, old, new in changes:
        yield Mutant(f"{group}: {name}", subject, old, new)


def _runtime(group: str, subject: str, *changes: tuple[str, str, str]) -> Iterator[Mutant]:
    for name, old, new in changes:
        yield Mutant(f"{group}: {name}", subject, old, new, RUNTIME)


def mutants() -> Iterator[Mutant]:
    yield from _text(
        "descriptor", "gemm_plain",
        ("K-step of 16 bytes", "a + k_2 * 2,", "a + k_2 * 1,"),
        ("K-step of B forgotten", "b + k_2 * 2,", "b,"),
        ("half the stride offset", "b_s_desc_hi = 0x40000040", "b_s_desc_hi = 0x40000020"),
        ("another swizzle of A", "a_s_desc_hi = 0x40000040", "a_s_desc_hi = 0x80000040"),
        ("no swizzle of B", "b_s_desc_hi = 0x40000040", "b_s_desc_hi = 0x00000040"),
        ("start of the other operand", "croq::descriptor_word(b_s,", "croq::descriptor_word(a_s,"),
        ("words of A and B", "make_descriptor(b + k_2 * 2, b_s_desc_hi)", "make_descriptor(a + k_2 * 2, b_s_desc_hi)"),
        ("one step too few", "k_2 < 4", "k_2 < 3"),
    )  # fmt: skip
    yield from _text(
        "descriptor", "attn_streams-d64",
        ("rows of the warpgroup", "q_s + p * 8192", "q_s + p * 4096"),
        ("step over the rows of V", "b + k * 128", "b + k * 64"),
        ("slot of V", "v_buf + n % 3 * v_buf_stride, v_buf_desc_lo", "v_buf + n % 2 * v_buf_stride, v_buf_desc_lo"),
        ("MN-major said to be K-major", "p, 1, 1, 1;", "p, 1, 1, 0;"),
    )  # fmt: skip
    yield from _text(
        "descriptor", "mn_parts-bf16-128-16-by-16",
        ("offset of a part", "b_s + 26624", "b_s + 24576"),
    )  # fmt: skip
    yield from _text(
        "descriptor", "attn_streams-d128_n80",
        ("half the leading offset", "v_buf_desc_lo = 0x2800000", "v_buf_desc_lo = 0x1400000"),
        ("slab of another height", "k / 4 * 640", "k / 4 * 512"),
    )  # fmt: skip
    yield from _text(
        "wgmma", "attn_streams-d64",
        ("an accumulator that is not cleared", "k_buf_desc_hi), k > 0)", "k_buf_desc_hi), 1)"),
        ("an accumulator that is cleared", "v_buf_desc_hi), 1)", "v_buf_desc_hi), k > 0)"),
        ("registers of A in another order", "probs[k * 4], probs[k * 4 + 1]", "probs[k * 4 + 1], probs[k * 4]"),
        ("registers of another step", "probs[k * 4 + 2], probs[k * 4 + 3]", "probs[k * 4], probs[k * 4 + 1]"),
        ("a negated operand", "p, 1, 1, 0, 0;", "p, 1, -1, 0, 0;"),
        ("no wait for the scores", "croq::wgmma_wait<0>();  // qk", ""),
        ("a wait too shallow", "croq::wgmma_wait<0>();  // pv", "croq::wgmma_wait<1>();  // pv"),
        ("a group that is not closed", "croq::wgmma_commit();  // pv", ""),
        ("no fence before the first", "croq::wgmma_fence();", ""),
    )  # fmt: skip
    yield from _text(
        "TMA", "attn_streams-d64",
        ("half the bytes expected", "expect_tx(qf, 16384)", "expect_tx(qf, 8192)"),
        ("twice the bytes expected", "expect_tx(vf + ve_slot * 8, 8192)", "expect_tx(vf + ve_slot * 8, 16384)"),
        ("heads and batches exchanged", "tile * 128, head, batch, croq", "tile * 128, batch, head, croq"),
        ("rows of the wrong tile", "&k_map, kf + ke_slot * 8,\n                          0, n * 64,",
         "&k_map, kf + ke_slot * 8,\n                          0, n * 32,"),
        ("another slot", "k_buf + n % 2 * k_buf_stride, &k_map", "k_buf, &k_map"),
        ("another map", "&v_map, vf", "&k_map, vf"),
        ("another barrier", "&v_map, vf + ve_slot * 8,", "&v_map, vf,"),
        ("issued by a whole warp", "if (thread == 256)", "if (thread < 288)"),
        (
            "a store of other rows",
            "tma_store_4d(&o_map, q_s, 0, tile * 128,",
            "tma_store_4d(&o_map, q_s, 0, tile * 128 + 8,",
        ),
        ("a store that is not committed", "croq::bulk_commit();", ""),
        ("a store that is not waited for", "croq::bulk_wait_read<0>();", ""),
        ("no fence between the proxies", "croq::fence_proxy_async();", ""),
    )  # fmt: skip
    yield from _text(
        "TMA", "tma_five",
        ("coordinates exchanged", "c, first_3, first_4", "c, first_4, first_3"),
        ("one box twice", "tile + 2048, &x_map, tile_full, 64,", "tile + 2048, &x_map, tile_full, 0,"),
        ("box at another place", "croq::tma_load_5d(tile + 2048", "croq::tma_load_5d(tile + 1024"),
    )  # fmt: skip
    yield from _text(
        "barrier", "attn_streams-d64",
        ("arrivals of four warps of eight", "mbarrier_init(ke, 8)", "mbarrier_init(ke, 4)"),
        ("one arrival too many expected", "mbarrier_init(ke, 8)", "mbarrier_init(ke, 9)"),
        (
            "every lane arrives",
            "if (lane == 0) {\n        croq::mbarrier_arrive(ke",
            "if (lane >= 0) {\n        croq::mbarrier_arrive(ke",
        ),
        ("a parity that never turns", "kf + kf_slot * 8, (u32(n) / 2) & 1", "kf + kf_slot * 8, 0"),
        ("a parity of the other kind", "((u32(n) / 2) & 1) ^ 1", "(u32(n) / 2) & 1"),
        ("the slot of another ring", "const u32 vf_slot = u32(n) % 3", "const u32 vf_slot = u32(n) % 2"),
        ("no wait for V", "croq::mbarrier_wait(vf + vf_slot * 8, (u32(n) / 3) & 1);", ""),
        ("no wait for a free slot", "croq::mbarrier_wait(ke + ke_slot * 8, ((u32(n) / 2) & 1) ^ 1);", ""),
        ("two barriers in one place", "vf_offset = 57368", "vf_offset = 57352"),
        ("a named barrier of too few", "named_barrier_sync(1, 256)", "named_barrier_sync(1, 128)"),
    )  # fmt: skip
    yield from _text(
        "barrier", "barrier_ids",
        ("another named barrier", "named_barrier_arrive(14, 64)", "named_barrier_arrive(13, 64)"),
        ("a first wait that is not left out", "free0_begun != 0", "free0_begun == 0"),
    )  # fmt: skip
    yield from _text(
        "layout", "attn_streams-d64",
        ("buffers on top of one another", "v_buf_offset = 32768", "v_buf_offset = 24576"),
        ("stmatrix without the pattern", "((chunk % 8) ^ (row % 8)) * 16", "(chunk % 8) * 16"),
        ("rows of the other warps", "thread % 128 / 32 * 16", "thread % 128 / 32 * 8"),
        ("lanes of stmatrix", "warp_row + lane % 16", "warp_row + lane / 2"),
        ("row of a register", "const s32 row = r / 2 % 2", "const s32 row = r % 2"),
        ("pairs exchanged", "pack<bf16>(acc_o[c * 4], acc_o[c * 4 + 1])", "pack<bf16>(acc_o[c * 4 + 1], acc_o[c * 4])"),
    )  # fmt: skip
    yield from _text(
        "layout", "loaded_operand-bf16",
        ("ldmatrix without the pattern", "((chunk % 8) ^ (row % 8)) * 16);", "(chunk % 8) * 16);"),
        ("lanes of ldmatrix", "warp_row + lane % 16", "warp_row + lane / 2"),
        ("columns of ldmatrix", "c_2 + lane / 16", "c_2 + lane / 8 % 2"),
        ("the rows of the other warpgroup", "(p - 1) * 64 + warp_row", "warp_row"),
        ("registers of ldmatrix", "left[c_2 * 2 + 1],", "left[c_2 * 2 + 2],"),
        ("half of the columns", "c_2 < 8; c_2 += 2", "c_2 < 4; c_2 += 2"),
    )  # fmt: skip
    yield from _text(
        "layout", "gemm_plain",
        ("columns of a lane", "lane % 4 * 2", "lane / 8 * 2"),
        ("rows of a lane", "warp_row + lane / 4", "warp_row + lane % 8"),
        ("columns of a register", "lane_col + r / 4 * 8 + r % 2", "lane_col + r / 4 * 8 + r / 2 % 2"),
        ("rows of a register", "lane_row + r / 2 % 2 * 8", "lane_row + r / 2 % 2 * 4"),
    )  # fmt: skip
    yield from _text(
        "layout", "stored_by_copy",
        ("another swizzle of the copy", "croq::cp_async_16(b_s + croq::slab_offset<128, 64>",
         "croq::cp_async_16(b_s + croq::slab_offset<64, 64>"),
        (
            "a swizzle that the reader has not",
            "c_s + croq::slab_offset<128, 64>(row, col * 2)",
            "c_s + row * 128 + col * 2",
        ),
        ("half the copy", "step < 512", "step < 256"),
        ("tail that is not zero filled", "a_at0 + row < M ? 16 : 0", "16"),
        ("tail that is cut short", "a_at0 + row < M ? 16 : 0", "a_at0 + row < M ? 8 : 0"),
        ("no wait for the copies", "croq::cp_async_wait<0>();", ""),
        ("no barrier before the read", "croq::cta_sync();\n  {  // 64 x 64 bf16, 16 bytes a step\n    const s32 c_at0",
         "{\n    const s32 c_at0"),
    )  # fmt: skip
    yield from _text(
        "guard", "clipped_views",
        ("one row too many", "first_row < M", "first_row <= M"),
        ("one column too many", "bn * 32 + tx < N", "bn * 32 + tx <= N"),
        ("one element too few", "x_at1 + col < N", "x_at1 + col + 1 < N"),
        ("a row that is as long as the tile", "s64(x_at0 + row) * N + x_at1", "s64(x_at0 + row) * 32 + x_at1"),
    )  # fmt: skip
    yield from _text(
        "guard", "gemm_plain",
        ("the whole tile is stored", "if (c_at0 + i < M && c_at1 + j < N) {", "if (c_at1 + j < N) {"),
        ("blocks exchanged", "const s32 bm = blockIdx.x;\n  const s32 bn = blockIdx.y;",
         "const s32 bm = blockIdx.y;\n  const s32 bn = blockIdx.x;"),
    )  # fmt: skip
    yield from _text(
        "arithmetic", "softmax_rows",
        ("a lane's share only", "croq::lanes_sum<4>(total[row])", "total[row]"),
        ("half of the lanes", "croq::lanes_max<4>", "croq::lanes_max<2>"),
        ("a reduction that begins late", "s32 r = 4; r < 48", "s32 r = 8; r < 48"),
        ("the maximum of the other row", "tile[r] - top[row]", "tile[r] - top[1 - row]"),
    )  # fmt: skip
    yield from _text(
        "arithmetic", "integers",
        ("a signed shift", "u >> 3", "s32(u) >> 3"),
        ("an unsigned shift", "x >> 3", "u32(x) >> 3"),
        ("an unsigned quotient", "x / 7", "u32(x) / 7"),
        ("a signed maximum", "croq::max(u, 2147483648u)", "u32(croq::max(s32(u), s32(2147483648u)))"),
    )  # fmt: skip
    yield from _text(
        "arithmetic", "conversions",
        ("a conversion to a narrower type left out", "s32(u8(v_2))", "s32(v_2)"),
        ("a product that is not rounded", "bf16(float(low) * float(low))", "bf16(x[n] * float(low))"),
        ("comparison the other way about", "nothing != v ? 1 : 0", "nothing == v ? 1 : 0"),
    )  # fmt: skip
    yield from _runtime(
        "runtime", "gemm_plain",
        ("address of a descriptor", "(addr >> 4) | word", "(addr >> 3) | word"),
        ("halves of a descriptor", '"r"(lo), "r"(hi));\n    return desc', '"r"(hi), "r"(lo));\n    return desc'),
        ("coordinates of a load", "[%0], [%1, {%3, %4}], [%2];\" ::", "[%0], [%1, {%4, %3}], [%2];\" ::"),
        ("rounding toward zero", "cvt.rn.bf16.f32", "cvt.rz.bf16.f32"),
        ("a wait that does not wait", "@p bra DONE;\\n", "bra DONE;\\n"),
        ("an arrival without its bytes", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
         "mbarrier.arrive.shared::cta.b64 _, [%0];"),
    )  # fmt: skip
    yield from _runtime(
        "runtime", "attn_streams-d64",
        ("halves of a pair", '"f"(hi), "f"(lo));', '"f"(lo), "f"(hi));'),
        (
            "registers of stmatrix",
            "m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4}",
            "m8n8.x4.shared.b16 [%0], {%1, %3, %2, %4}",
        ),
        ("stmatrix transposed", "stmatrix.sync.aligned.m8n8.x4.shared", "stmatrix.sync.aligned.m8n8.x4.trans.shared"),
        ("a maximum that is a minimum", "max.f32 %0, %1, %2;", "min.f32 %0, %1, %2;"),
        (
            "lanes of a reduction",
            "mask = LANES / 2; mask > 0; mask /= 2) x = x +",
            "mask = LANES / 2; mask > 1; mask /= 2) x = x +",
        ),
        ("a barrier of all for a named one", "bar.sync %0, %1;", "bar.sync %0;"),
        ("an exponential of another base", "ex2.approx.ftz.f32 %0, %1;",
         "mul.f32 %0, %1, 0f3F880000; ex2.approx.ftz.f32 %0, %0;"),
    )  # fmt: skip
    yield from _runtime(
        "runtime", "k_parts-bf16-64-48-by-48",
        ("the pattern of another swizzle", "(offset >> 3) &", "(offset >> 4) &"),
        ("slabs of another height", "byte / W * (ROWS * W)", "byte / W * W"),
        ("a copy of too few bytes", "[%0], [%1], 16, %2;", "[%0], [%1], 16, 8;"),
    )  # fmt: skip
