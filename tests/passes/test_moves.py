"""Passes `moves` and `swizzles` on tiles: TMA boxes and maps, stores, drains, cooperative copies (T1 to T6)."""

from __future__ import annotations

import pytest

from croq.ir.core import Op
from croq.ir.hw import (
    BulkTensorLoad,
    BulkTensorStore,
    BulkWait,
    CopyTile,
    CtaSync,
    Elect,
    FillTile,
    NamedBarrierSync,
    RegMap,
    WarpSync,
)
from croq.ir.objects import Kernel, TensorMap
from croq.ir.scalar import For, If, StoreElement
from tests.passes.helpers import every, literal, lower, names, program, reported, role, warpgroups

XY = "global f32 [M, 64] x, global f32 [M, 64] y"
HEADS = "global bf16 [B, S, H, 128] q, global f16 [B, S, 64] r"


def moved(body: str, declared: str, params: str = XY, count: int = 1) -> Kernel:
    return lower(warpgroups(count, body, declared, params=params))


def only_map(kernel: Kernel) -> TensorMap:
    (found,) = kernel.tensor_maps
    return found


def shape(made: TensorMap) -> tuple[tuple[int, ...], tuple[int, ...], int | None, int, int]:
    return made.box, made.axes, made.split, made.swizzle, made.loads_per_tile


def refused(body: str, declared: str, params: str = XY, count: int = 1) -> str:
    return reported(warpgroups(count, body, declared, params=params))[0]


# ----------------------------------------------------------------------------------------------------------- T1, T2, T3
@pytest.mark.parametrize(
    ("move", "declared", "params", "want"),
    [
        # plain buffers: the whole row
        ("tma.load x.subspan(32, 64).at(0, 0) => s;", "shared f32 [32, 64] s;", XY, ((64, 32), (1, 0), None, 0, 1)),
        ("tma.load x.subspan(8, 64).at(1, 0) => s.subspan(8, 64).at(3, 0);", "shared f32 [32, 64] s;", XY,
         ((64, 8), (1, 0), None, 0, 1)),
        # one slab
        ("tma.load.swiz<128> r.subspan(1, 16, 64).at(0, 0, 0).sqz() => s;", "shared f16 [16, 64] s;", HEADS,
         ((64, 16, 1), (2, 1, 0), None, 128, 1)),
        # slabs as a dimension of the map: the innermost extent is a constant
        ("tma.load.swiz<128> x.subspan(32, 64).at(0, 0) => s;", "shared f32 [32, 64] s;", XY,
         ((32, 32, 2), (1, 0, 1), 32, 128, 1)),
        ("tma.load.swiz<32> r.subspan(2, 16, 64).at(0, 0, 0) => s;", "shared f16 [2, 16, 64] s;", HEADS,
         ((16, 16, 2, 4), (2, 1, 0, 2), 16, 32, 1)),
        ("tma.load.swiz<128> q.subspan(1, 32, 1, 128).at(0, 0, 0, 0).sqz() => s;", "shared bf16 [32, 128] s;", HEADS,
         ((64, 32, 2, 1, 1), (3, 1, 3, 2, 0), 64, 128, 1)),
        # one instruction a slab: not all rows of the buffer; an innermost extent that is not constant; rank 5
        ("tma.load.swiz<128> x.subspan(16, 64).at(0, 0) => s.subspan(16, 64).at(1, 0);", "shared f32 [32, 64] s;", XY,
         ((32, 16), (1, 0), None, 128, 2)),
        ("tma.load.swiz<128> z.subspan(16, 64).at(0, 0) => s;", "shared f32 [16, 64] s;", "global f32 [M, N] z",
         ((32, 16), (1, 0), None, 128, 2)),
        ("tma.load.swiz<128> z.subspan(1, 1, 1, 16, 64).at(0, 0, 0, 0, 0).sqz() => s;", "shared f32 [16, 64] s;",
         "global f32 [A, B, C, D, 64] z", ((32, 16, 1, 1, 1), (4, 3, 2, 1, 0), None, 128, 2)),
        # rows along another dimension, and three of them
        ("tma.load r.subspan(4, 1, 64).at(0, 5, 0).sqz() => s;", "shared f16 [4, 64] s;", HEADS,
         ((64, 4, 1), (2, 0, 1), None, 0, 1)),
        ("tma.load r.subspan(4, 6, 64).at(0, 0, 0) => s;", "shared f16 [4, 6, 64] s;", HEADS,
         ((64, 6, 4), (2, 1, 0), None, 0, 1)),
        # more than 256 rows: equal parts where that takes no more of them
        ("tma.load x.subspan(320, 64).at(0, 0) => s;", "shared f32 [320, 64] s;", XY, ((64, 160), (1, 0), None, 0, 2)),
        ("tma.load.swiz<128> x.subspan(264, 64).at(0, 0) => s;", "shared f32 [264, 64] s;", XY,
         ((32, 132), (1, 0), None, 128, 4)),
        # a row of more than 256 elements
        ("tma.load z.subspan(512).at(1) => s;", "shared f32 [512] s;", "global f32 [M] z", ((256,), (0,), None, 0, 2)),
        # no gaps: parts of rows, and parts of planes, one by one
        ("tma.load x.subspan(8, 32).at(0, 1) => s.subspan(8, 32).at(0, 1);", "shared f32 [8, 64] s;", XY,
         ((32, 1), (1, 0), None, 0, 8)),
        ("tma.load r.subspan(2, 8, 64).at(0, 0, 0) => s.subspan(2, 8, 64).at(0, 1, 0);", "shared f16 [2, 16, 64] s;",
         HEADS, ((64, 8, 1), (2, 1, 0), None, 0, 2)),
    ],
)  # fmt: skip
def test_boxes(move: str, declared: str, params: str, want: tuple[object, ...]) -> None:
    made = only_map(moved(move, declared, params))
    assert shape(made) == want


def test_a_remainder_has_a_box_of_its_own() -> None:
    kernel = moved("tma.load z.subspan(300).at(1) => s;", "shared f32 [300] s;", "global f32 [M] z")
    assert [m.box for m in kernel.tensor_maps] == [(256,), (44,)]
    first, second = every(kernel, BulkTensorLoad)
    assert [literal(op.coords[0]) for op in (first, second)] == [300, 556]
    assert [(op.dest.offsets, op.dest.static_shape) for op in (first, second)] == [((0,), (256,)), ((256,), (44,))]


def test_coordinates_of_merged_slabs() -> None:
    """Column 32 of slabs of 16 is slab 2; the box begins at element 0 of it."""
    kernel = moved("tma.load.swiz<32> r.subspan(1, 16, 32).at(1, 2, 1).sqz() => s;", "shared f16 [16, 32] s;", HEADS)
    (load,) = every(kernel, BulkTensorLoad)
    assert [literal(c) for c in load.coords] == [0, 32, 2, 1]


def test_tiles_of_one_shape_share_a_map() -> None:
    body = "tma.load x.subspan(8, 64).at(0, 0) => s; tma.load x.subspan(8, 64).at(5, 0) => s;"
    body += "tma.copy s => x.subspan(8, 64).at(1, 0);"
    kernel = moved(body, "shared f32 [8, 64] s;")
    assert shape(only_map(kernel)) == ((64, 8), (1, 0), None, 0, 1)
    assert only_map(kernel).param.access == {"tma"}


def test_two_shapes_of_one_parameter_are_two_maps() -> None:
    body = "tma.load x.subspan(8, 64).at(0, 0) => s; tma.load x.subspan(4, 64).at(5, 0) => u; y.at(t, 0) = x.at(t, 1);"
    kernel = moved(body, "shared f32 [8, 64] s; shared f32 [4, 64] u;")
    assert [m.name for m in kernel.tensor_maps] == ["x_map", "x_map_2"]
    assert [p.access for p in kernel.params] == [{"tma", "pointer"}, {"pointer"}]


@pytest.mark.parametrize(
    ("move", "declared", "params"),
    [
        ("tma.load z.subspan(16, 3).at(0, 0) => s; //!", "shared f32 [16, 3] s;", "global f32 [M, 3] z"),
        ("tma.load x.subspan(8, 8).at(0, 1) => s.subspan(8, 8).at(0, 1); //!", "shared f32 [8, 64] s;", XY),
        ("tma.load x.subspan(1, 4).at(0, 0) => s.subspan(1, 4).at(M, 0); //!", "shared f32 [64, 4] s;", XY),
        ("tma.load x.subspan(128, 32).at(0, 0) => s.subspan(128, 32).at(0, 0); //!", "shared f32 [128, 64] s;", XY),
        ("tma.load.swiz<64> x.subspan(8, 8).at(0, 0) => s.subspan(8, 8).at(0, 0); //!", "shared f32 [8, 64] s;", XY),
    ],
    ids=["row-bytes", "sub-row", "start-unknown", "too-many", "part-of-slab"],
)
def test_tiles_that_no_instruction_moves(move: str, declared: str, params: str) -> None:
    assert refused(move, declared, params) == "E-831"


def test_a_column_tile_is_whole_slabs_wherever_it_is() -> None:
    move = "tma.load.swiz<64> x.subspan(8, 16).at(0, 0) => s.subspan(8, 16).at(0, M);"
    assert len(every(moved(move, "shared f32 [8, 64] s;"), BulkTensorLoad)) == 1


def test_a_tile_of_unknown_extent() -> None:
    assert (
        refused("tma.load z.subspan(8, N).at(0, 0) => s; //!", "shared f32 [8, 64] s;", "global f32 [M, N] z")
        == "E-830"
    )


# ------------------------------------------------------------------------------------------------------------------- T4
ACC = """
shared f16 [64, 64] a;
shared f16 [64, 64] b;
"""
FILLED = "acc = mma.fill.f32 0.0f; mma.row.row acc, a, b;"


def test_a_store_is_issued_once_for_all() -> None:
    kernel = moved(
        "inthreads.async (p > 0) { cid = p - 1; " + FILLED + " mma.store acc, o.subspan(64, 64).at(cid, 0);"
        " tma.copy o => y.subspan(128, 64).at(0, 0); }",
        ACC + "shared f32 [128, 64] o;",
        count=3,
    )
    section = role(kernel, "p > 0")
    assert names(section, "reg.store", "fence.", "named", "elect", "bulk") == [
        "reg.store", "fence.proxy_async", "named_barrier.sync",
        "elect", "bulk_tensor.store", "bulk.commit", "bulk.wait",
    ]  # fmt: skip
    (elected,) = every(section, Elect)
    assert (elected.scope, elected.thread) == ("set", 128)
    (sync,) = every(section, NamedBarrierSync)
    assert sync.count == 256


def test_a_store_of_each_warpgroup() -> None:
    body = (
        "cid = p;"
        + FILLED
        + " mma.store acc, o.subspan(64, 64).at(cid, 0);"
        + " tma.copy o.subspan(64, 64).at(cid, 0) => y.subspan(64, 64).at(cid, 0);"
    )
    kernel = moved(body, ACC + "shared f32 [128, 64] o;", count=2)
    assert [op.scope for op in every(kernel, Elect) if every(op, BulkTensorStore)] == ["warpgroup"]
    assert [(str(op.threads), op.count) for op in every(kernel, NamedBarrierSync)] == [
        ("{0..128}", 128), ("{128..256}", 128),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "rows", "code"),
    [
        ("cid = p; tma.copy o.subspan(64, 64).at(cid, 0) => y.subspan(64, 64).at(0, 0); //!", 128, "E-2106"),
        ("cid = p; dma.copy x.subspan(64, 64).at(cid, 0) => o; //!", 64, "E-2106"),
        ("c = p + t / 64; dma.copy x.subspan(64, 64).at(c, 0) => o.subspan(64, 64).at(c, 0); //!", 192, "E-832"),
        ("if (x.at(t, 0) > 0.0f) {\n tma.copy o => y.subspan(64, 64).at(0, 0); //!\n }", 64, "E-2101"),
    ],
)  # fmt: skip
def test_moves_of_threads_that_disagree(body: str, rows: int, code: str) -> None:
    assert refused(body, f"shared f32 [{rows}, 64] o;", count=2) == code


def test_a_store_by_one_thread_needs_no_barrier() -> None:
    kernel = lower(
        program("shared f32 [4, 32] s; s.at(0, 0) = 1.0f; tma.copy s => y.subspan(4, 32).at(0, 0);", params=XY)
    )
    assert names(kernel, "store_element", "fence", "cta", "elect", "bulk") == [
        "store_element", "fence.proxy_async", "elect", "bulk_tensor.store", "bulk.commit", "bulk.wait",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------- T5
OUT = ACC + "shared f32 [64, 64] o;"
STORED = "mma.store acc, o; tma.copy o => y.subspan(64, 64).at(0, 0);"


def order_of(kernel: Kernel, scope: Op | None = None) -> list[str]:
    return names(scope or kernel, "reg.store", "reg.map", "store_element", "bulk", "cta")


def test_a_single_store_waits_at_once() -> None:
    kernel = moved(FILLED + STORED, OUT)
    assert order_of(kernel) == ["reg.store", "cta.sync", "bulk_tensor.store", "bulk.commit", "bulk.wait"]


def test_in_a_loop_the_wait_stands_before_the_next_write() -> None:
    kernel = moved("foreach i in [M] { " + FILLED + STORED + " }", OUT)
    (loop,) = every(kernel, For)
    assert order_of(kernel, loop) == [
        "bulk.wait", "cta.sync", "reg.store", "cta.sync", "bulk_tensor.store", "bulk.commit",
    ]  # fmt: skip
    assert len(every(kernel, BulkWait)) == 2  # and once more before the threads are gone


def test_a_store_under_a_condition_is_drained_before_the_next_write() -> None:
    body = (
        "foreach i in [M] { "
        + FILLED
        + " mma.store acc, o; if (i > 3) { tma.copy o => y.subspan(64, 64).at(i, 0); } mma.store acc, o; }"
    )
    (loop,) = every(moved(body, OUT), For)
    assert order_of(moved(body, OUT), loop) == [
        "bulk.wait", "cta.sync", "reg.store", "cta.sync", "bulk_tensor.store", "bulk.commit",
        "bulk.wait", "cta.sync", "reg.store",
    ]  # fmt: skip


def test_a_write_in_apply_is_drained_in_front_of_it() -> None:
    body = (
        "foreach i in [M] { "
        + FILLED
        + " apply {q, j} in acc.span { o.at(q, j) = acc.at(q, j); } tma.copy o => y.subspan(64, 64).at(i, 0); }"
    )
    kernel = moved(body, OUT)
    (loop,) = every(kernel, For)
    assert order_of(kernel, loop)[:4] == ["bulk.wait", "cta.sync", "reg.map", "store_element"]
    assert not every(every(kernel, RegMap)[0], CtaSync)


def test_stores_of_other_threads_wait_at_once() -> None:
    """Another role writes the buffer next: its event must mean that the copy engine has read it."""
    body = f"""
    inthreads.async (p == 0) {{
      foreach i in [M] {{ wait full; tma.copy o => y.subspan(64, 64).at(i, 0); trigger free; }}
    }}
    inthreads.async (p == 1) {{ {FILLED} foreach i in [M] {{ wait free; mma.store acc, o; trigger full; }} }}
    """
    kernel = moved(body, OUT + "shared event full; shared event free = ready;", count=2)
    section = role(kernel, "p == 0")
    assert names(section, "bulk", "named_barrier") == [
        "named_barrier.sync", "bulk_tensor.store", "bulk.commit", "bulk.wait",
        "named_barrier.sync", "named_barrier.arrive",
    ]  # fmt: skip


def test_a_part_of_the_threads_that_writes_makes_the_store_wait_at_once() -> None:
    body = "foreach i in [M] { " + FILLED + STORED + " if (t < 32) { o.at(0, t) = 1.0f; } }"
    (loop,) = every(moved(body, OUT), For)
    assert order_of(moved(body, OUT), loop)[-4:] == ["bulk.commit", "bulk.wait", "cta.sync", "store_element"]


def test_a_buffer_that_is_loaded_again_is_read_first() -> None:
    body = "foreach i in [M] { tma.load x.subspan(8, 64).at(i, 0) => s; tma.copy s => y.subspan(8, 64).at(i, 0); }"
    (loop,) = every(moved(body, "shared f32 [8, 64] s;"), For)
    found = names(loop, "bulk", "cta", "mbarrier.wait")
    assert found == [
        "cta.sync",
        "bulk_tensor.load",
        "mbarrier.wait",
        "cta.sync",
        "bulk_tensor.store",
        "bulk.commit",
        "bulk.wait",
        "cta.sync",
    ]


@pytest.mark.parametrize(
    ("later", "whole"),
    [
        ("y.at(4, t % 64) = y.at(0, t % 64);", True),
        ("tma.load y.subspan(8, 64).at(0, 0) => s;", True),
        ("dma.copy y.subspan(8, 64).at(0, 0) => s;", True),
        ("tma.copy u => y.subspan(8, 64).at(0, 0);", True),
        ("tma.copy u => y.subspan(8, 64).at(1, 0);", False),
        ("y.at(4, 0) = 1.0f;", True),
        ("", False),
    ],
)
def test_a_destination_in_further_use_is_written_first(later: str, whole: bool) -> None:
    kernel = moved("tma.copy s => y.subspan(8, 64).at(0, 0);" + later, "shared f32 [8, 64] s; shared f32 [8, 64] u;")
    assert every(kernel, BulkWait)[0].read != whole


def test_stores_by_different_groups_are_all_drained() -> None:
    body = (
        "cid = p; foreach i in [M] { "
        + FILLED
        + " mma.store acc, o.subspan(64, 64).at(cid, 0);"
        + " tma.copy o.subspan(64, 64).at(cid, 0) => y.subspan(64, 64).at(cid, 0);"
        + " tma.copy o => y.subspan(128, 64).at(i, 0); }"
    )
    kernel = moved(body, ACC + "shared f32 [128, 64] o;", count=2)
    drains = [op.scope for op in every(kernel, Elect) if every(op, BulkWait)]
    assert sorted(drains) == ["set", "set", "warpgroup", "warpgroup"]  # before the write, and at the end


# ------------------------------------------------------------------------------------------------------------------- T6
@pytest.mark.parametrize(
    ("body", "declared", "barriers"),
    [
        ("dma.copy x.subspan(8, 64).at(0, 0) => s;", "shared f32 [8, 64] s;", [False, True]),
        ("dma.copy s => y.subspan(8, 64).at(0, 0);", "shared f32 [8, 64] s {1.0f};", [True, True]),
        ("s.at(0, t % 64) = 1.0f; dma.copy s => u;", "shared f32 [8, 64] s; shared f32 [8, 64] u;", [True, True]),
        ("y.at(t, 0) = 1.0f; dma.copy y.subspan(8, 64).at(0, 0) => s;", "shared f32 [8, 64] s;", [True, True]),
        ("y.at(t, 0) = x.at(t, 0); dma.copy x.subspan(8, 64).at(0, 0) => s;", "shared f32 [8, 64] s;", [False, True]),
        ("foreach i in [M] { dma.copy x.subspan(8, 64).at(i, 0) => s; y.at(i, t) = s.at(0, 0); }",
         "shared f32 [8, 64] s;", [True, True]),
    ],
)  # fmt: skip
def test_barriers_of_a_cooperative_copy(body: str, declared: str, barriers: list[bool]) -> None:
    kernel = moved(body, declared)
    found = names(kernel, "copy_tile", "cta.sync", "store_element", "section", "for")
    at = found.index("copy_tile")
    assert [found[at - 1] == "cta.sync", found[at + 1] == "cta.sync"] == barriers


def test_each_warpgroup_copies_its_own_tile() -> None:
    body = "cid = p; dma.copy x.subspan(64, 64).at(cid, 0) => s.subspan(64, 64).at(cid, 0);"
    kernel = moved(body, "shared f32 [128, 64] s;", count=2)
    copies = every(kernel, CopyTile)
    assert [(op.rank_base, op.count, str(op.threads)) for op in copies] == [
        (0, 128, "{0..128}"),
        (128, 128, "{128..256}"),
    ]
    assert [op.count for op in every(kernel, NamedBarrierSync)] == [128, 128]


@pytest.mark.parametrize(
    ("params", "tile", "vector"),
    [
        (XY, "subspan(8, 64).at(0, 0)", 16),
        ("global f32 [M, N] x", "subspan(8, 64).at(0, 0)", 4),
        ("global f32 [M, 62] x", "subspan(8, 62).at(0, 0)", 4),
        (XY, "subspan(8, 2).at(0, 1)", 4),
    ],
)
def test_how_wide_a_copy_steps(params: str, tile: str, vector: int) -> None:
    cols = tile.split(", ")[1].split(")")[0]
    (copy,) = every(moved(f"dma.copy x.{tile} => s;", f"shared f32 [8, {cols}] s;", params), CopyTile)
    assert copy.vector == vector


def test_a_fill_is_between_barriers_where_the_buffer_is_in_use() -> None:
    kernel = moved("foreach i in [3] { shared f32 [64] s {0.0f}; y.at(i, t % 64) = s.at(t % 64); }", "")
    (loop,) = every(kernel, For)
    assert names(loop, "cta.sync", "fill_tile") == ["cta.sync", "fill_tile", "cta.sync"]
    assert names(moved("shared f32 [64] s {0.0f};", ""), "cta.sync", "fill_tile") == ["fill_tile", "cta.sync"]


def test_a_thread_fills_its_own_local_buffer() -> None:
    kernel = moved("local f32 [2, 3] r {1.5f}; y.at(t, 0) = r.at(1, 2);", "")
    assert not every(kernel, FillTile) and len(every(kernel, For)) == 2 and len(every(kernel, StoreElement)) == 2


def test_threads_that_copy_together_are_consecutive() -> None:
    body = "inthreads.async (t < 32 || t >= 64) {\n dma.copy x.subspan(8, 64).at(0, 0) => s; //!\n }"
    assert refused(body, "shared f32 [8, 64] s;") == "E-2105"


# -------------------------------------------------------------------------------------------------- barriers of threads
@pytest.mark.parametrize(
    ("threads", "kind"),
    [
        ("t >= 0", "cta.sync"), ("t < 64", "named_barrier.sync"), ("t < 32", "warp.sync"), ("t < 7", "warp.sync"),
        ("t == 3", None),
    ],
)  # fmt: skip
def test_the_barrier_of_a_set(threads: str, kind: str | None) -> None:
    kernel = moved(f"inthreads.async ({threads}) {{ inthreads (t == 3) {{ y.at(0, 0) = 1.0f; }} }}", "")
    assert names(kernel, "cta.sync", "named_barrier", "warp.sync") == ([kind] if kind else [])


def test_a_set_has_one_barrier() -> None:
    body = "inthreads.async (t < 64) { " + "inthreads (t == 3) { y.at(0, 0) = 1.0f; } " * 3 + "}"
    assert {op.barrier for op in every(moved(body, ""), NamedBarrierSync)} == {1}


def test_a_set_that_does_not_fill_its_warps() -> None:
    body = "inthreads.async (t < 40) {\n inthreads (t == 3) { y.at(0, 0) = 1.0f; } //!\n }"
    assert refused(body, "") == "E-2103"


def test_more_sets_than_barriers() -> None:
    roles = [
        f"inthreads.async (p * 4 + t / 32 < {n}) {{ inthreads (t == 3) {{ y.at(0, 0) = 1.0f; }} }}"
        for n in range(2, 16)
    ]
    assert not [op for op in every(moved("\n".join(roles), "", count=5), If) if every(op, WarpSync)]
    roles.append("inthreads.async (p * 4 + t / 32 < 16) {\n inthreads (t == 3) { y.at(0, 0) = 1.0f; } //!\n }")
    assert refused("\n".join(roles), "", count=5) == "E-2104"
