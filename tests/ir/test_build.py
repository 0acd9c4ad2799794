"""From programs to tile IR: what is made of each construct."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from croq.diagnostics import Sink
from croq.ir import scalar, tile
from croq.ir import types as ir_types
from croq.ir.build import build
from croq.ir.core import Op, Value
from croq.ir.objects import Buffer, Kernel, Module
from croq.ir.rewrite import constant
from croq.ir.verify import verify
from croq.sema import analyse
from croq.sema import types as sema_types
from croq.source import SourceFile
from croq.syntax import parse_program
from tests.sema.helpers import block, function, warpgroups

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*ROOT.glob("kernels/*.co"), *ROOT.glob("tests/cases/*.co")])
OpT = TypeVar("OpT", bound=Op)


def built(text: str, name: str = "test.co") -> Module:
    sink = Sink()
    module = build(analyse(parse_program(SourceFile(name, text), {}, sink), sink), sink)
    for kernel in module.kernels:
        verify(kernel, "tile")
    return module


def kernel_of(text: str) -> Kernel:
    (kernel,) = built(text).kernels
    return kernel


def shipped(name: str) -> Kernel:
    return kernel_of((ROOT / "kernels" / name).read_text())


def ops(kernel: Kernel, kind: type[OpT]) -> list[OpT]:
    return [op for op in kernel.walk() if isinstance(op, kind)]


def only(kernel: Kernel, kind: type[OpT]) -> OpT:
    (op,) = ops(kernel, kind)
    return op


def named(kernel: Kernel, name: str) -> Value:
    found: list[Value] = [value for op in kernel.walk() for value in op.results() if value.name == name]
    return found[0]


def chain(value: Value) -> str:
    """The expression behind a value, in prefix form."""
    op = value.op
    if isinstance(op, scalar.Const):
        return str(op.value)
    if isinstance(op, scalar.Binary):
        return f"({op.op} {chain(op.left)} {chain(op.right)})"
    if isinstance(op, scalar.Cast):
        return f"({op.result.type} {chain(op.operand)})"
    if isinstance(op, scalar.ThreadIndex):
        return "thread"
    if isinstance(op, scalar.VarGet):
        return op.var.name
    return value.name or "?"


# --------------------------------------------------------------------------------------------------------- the programs
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_program_builds_and_every_operation_has_a_place(path: Path) -> None:
    module = built(path.read_text(), path.name)
    assert module.kernels
    for kernel in module.kernels:
        assert all(op.span is not None and op.span.file.name == path.name for op in kernel.walk())
        assert kernel.threads % 32 == 0


def test_pipelined_attention() -> None:
    kernel = shipped("v4.co")
    assert kernel.threads == 384 and kernel.min_blocks == 1 and kernel.is_async and kernel.grid_rank == 3
    assert [str(d) for d in kernel.grid] == ["cdiv(Q_SEQ, 128)", "H", "B"]
    assert [(op.level) for op in ops(kernel, tile.Scope)] == ["group-4", "thread"]
    assert [op.is_async for op in ops(kernel, tile.Role)] == [True, True]
    assert len(ops(kernel, tile.TmaLoad)) == 3 and len(ops(kernel, tile.TmaStore)) == 1
    assert [(m.a_layout, m.b_layout, m.future and m.future.name) for m in ops(kernel, tile.Mma)] == [
        ("row", "row", "first_qk"),
        ("row", "row", "qk"),
        ("row", "col", "pv"),
        ("row", "col", "final_pv"),
    ]
    assert {e.name: (e.slots, e.ready, e.array) for e in kernel.events} == {
        "qf": (1, False, False),
        "kf": (2, False, True),
        "vf": (2, False, True),
        "ke": (2, True, True),
        "ve": (2, True, True),
    }
    assert {f.name: f.shape for f in kernel.fragments}["acc_o"] == (64, 128)
    assert [s.count for s in ops(kernel, tile.SetReg)] == [40, 232]
    assert len(ops(kernel, scalar.FragDeclare)) == len(kernel.fragments)


def test_sequential_attention() -> None:
    kernel = shipped("v1.co")
    assert kernel.threads == 256 and kernel.min_blocks is None
    assert {b.name: (b.slots, b.requested_swizzle) for b in kernel.buffers} == {
        "q_s": (1, 128),
        "k_s": (1, 128),
        "v_s": (1, 128),
    }
    store = only(kernel, tile.FragStore)
    bm, wgm = named(kernel, "bm"), named(kernel, "wgm")
    row = store.dest.offsets[1]
    assert isinstance(row, Value)
    assert chain(row) == f"(mul (add (mul {chain(bm)} 2) {chain(wgm)}) 64)"
    query = ops(kernel, tile.Mma)[0].a
    assert chain(query.offsets[0]) == "(mul (div thread 128) 64)" and query.static_shape == (64, 128)  # type: ignore


def test_persistent_attention_has_its_device_functions() -> None:
    kernel = shipped("v3.co")
    macro, first, second = kernel.device_text  # the C++ of the file, and what it names
    assert macro == "#define BLOCK_N 128"
    assert first.startswith("template <int COLUMNS>") and "local_row_sums" in first and first.endswith("}")
    assert second.startswith("__device__")
    calls = ops(kernel, scalar.Call)
    assert (calls[0].callee, calls[0].template_args) == ("local_row_sums", ("128",))
    assert all(c.result is None for c in calls)
    assert [str(d) for d in kernel.grid] == ["114", "1", "1"]


# ----------------------------------------------------------------------------------------------------- parallel levels
def test_parallel_variables_come_from_the_thread_index() -> None:
    kernel = kernel_of(block("parallel p by 3 : group-4 { parallel {x, y} by [32, 4] : thread { z = p + x + y; } }"))
    assert kernel.threads == 384
    assert chain(named(kernel, "p")) == "(div thread 128)"
    assert chain(named(kernel, "x")) == "(mod (mod thread 128) 32)"
    assert chain(named(kernel, "y")) == "(div (mod thread 128) 32)"
    assert named(kernel, "p").bounds == (0, 3) and named(kernel, "y").bounds == (0, 4)


@pytest.mark.parametrize(
    "head, threads, grid, levels",
    [
        ("parallel b by 4 : block", 1, "4", []),
        ("parallel b by 4 : block, p by 2 : group-4", 256, "4", ["group-4"]),
        ("parallel b by 4 : block, w by 3 : group", 96, "4", ["group"]),
        ("parallel b by 4 : block, w by 3 : group, t by 32 : thread", 96, "4", ["group", "thread"]),
        ("parallel t by 64 : thread", 64, "1", ["thread"]),
        ("parallel p by 2 : group-4", 256, "1", ["group-4"]),
        ("parallel t by 64", 64, "1", ["thread"]),
        ("parallel b by 4, t by 64", 64, "4", ["thread"]),
        ("parallel b by 4, w by 2, t by 32", 64, "4", ["group", "thread"]),
        ("parallel b by 4, p by 2, w by 4, t by 32", 256, "4", ["group-4", "group", "thread"]),
        ("parallel by 4 : block, by 128 : thread", 128, "4", ["thread"]),
    ],
)
def test_missing_levels_are_completed(head: str, threads: int, grid: str, levels: list[str]) -> None:
    kernel = kernel_of(function(head + " { }"))
    assert (kernel.threads, str(kernel.grid[0])) == (threads, grid)
    assert [scope.level for scope in ops(kernel, tile.Scope)] == levels


def test_siblings_run_on_the_same_threads() -> None:
    kernel = kernel_of(block("foreach i in n { parallel p by 2 : group-4 { } parallel t by 256 : thread { } }"))
    assert kernel.threads == 256 and len(ops(kernel, tile.Scope)) == 2


def test_each_launch_is_a_kernel() -> None:
    module = built(
        function("int middle = n / 2;\nparallel a_ by middle : block { y = middle + 1; }\nparallel b_ by n : block { }")
    )
    first, second = module.kernels
    assert (first.name, second.name) == ("f", "f_2")
    assert str(first.grid[0]) == "n/2"
    assert chain(named(first, "middle")) == "(div n 2)"
    assert not ops(second, scalar.Symbol)  # what a kernel does not use is not there


# ----------------------------------------------------------------------------------------------------------- scalars
def test_an_order_is_incremented_after_its_use() -> None:
    kernel = kernel_of(
        warpgroups(
            "inthreads.async (p == 0) { mutable u32 o = 0; wait e.at(o++); }\n"
            "inthreads.async (p == 1) { trigger e.at(0); }",
            "shared event e[2];",
        )
    )
    body = ops(kernel, tile.Role)[0].body.ops
    place = next(k for k, op in enumerate(body) if isinstance(op, tile.EventWait))
    wait, change = body[place], body[-1]
    assert isinstance(wait, tile.EventWait) and isinstance(change, scalar.VarSet)
    assert wait.refs[0].order is not None and isinstance(wait.refs[0].order.op, scalar.VarGet)
    assert chain(change.value) == "(add o 1)" and change.value.type == "u32"


def test_literals_take_the_type_of_what_they_meet() -> None:
    kernel = kernel_of(block("mutable u32 o = 0;\ny = (o + 1) * 2 % 3;\nz = x * 2.0 + 1;"))
    assert {v.type for op in ops(kernel, scalar.Binary) for v in (op.left, op.right)} == {"u32", "f32"}
    assert not ops(kernel, scalar.Cast)


def test_mixed_integers_promote_as_in_c() -> None:
    kernel = kernel_of(block("mutable u32 o = 0;\ny = o + n;"))
    assert named(kernel, "y").type == "u32" and only(kernel, scalar.Cast).result.type == "u32"


def test_constants_are_folded() -> None:
    kernel = kernel_of(block("y = (3 + 4 * 5) / 2 - cdiv(7, 2);\nbool big = y > 3;"))
    assert constant(named(kernel, "y")) == 7 and constant(named(kernel, "big")) is True
    assert not ops(kernel, scalar.Binary)


def test_and_is_short_where_its_right_side_could_fault() -> None:
    plain = kernel_of(block("bool y = n > 0 && bm > 1;"))
    assert [op.op for op in ops(plain, scalar.Binary)][-1] == "land"
    for right in ("list.at(n) > 0", "7 / n > 2", "7 % n > 2"):
        kernel = kernel_of(block(f"bool y = n > 0 && {right};"))
        inner = only(kernel, scalar.If)
        assert inner.otherwise is None and isinstance(inner.then.ops[-1], scalar.VarSet)


def test_or_evaluates_its_right_side_when_the_left_is_false() -> None:
    kernel = kernel_of(block("bool y = n > 0 || list.at(0) > 0;"))
    condition = only(kernel, scalar.If).condition
    assert isinstance(condition.op, scalar.Unary) and condition.op.op == "lnot"


def test_ternary_selects_or_branches() -> None:
    assert only(kernel_of(block("y = n > 0 ? n : bm;")), scalar.Select).result.type == "s32"
    branching = kernel_of(block("y = n > 0 ? list.at(0) : 3;"))
    assert not ops(branching, scalar.Select) and only(branching, scalar.If).otherwise is not None


def test_compound_assignments_of_elements() -> None:
    kernel = kernel_of(block("shared f32 [8] s;\ns.at(1) *= 2.0f;"))
    assert only(kernel, scalar.LoadElement).indices == only(kernel, scalar.StoreElement).indices
    assert only(kernel, scalar.Binary).op == "mul"


def test_loops() -> None:
    kernel = kernel_of(
        block("foreach {i, j} in [n, 4] { y = i + j; }\nwith {i, j} in a.span { foreach j { foreach i { } } }")
    )
    loops = ops(kernel, scalar.For)
    assert [(loop.iv.name, loop.iv.bounds) for loop in loops[:2]] == [("i", (0, 2**31 - 1)), ("j", (0, 4))]
    assert [chain(loop.count) for loop in loops[2:]] == ["K", "M"]
    loop = only(kernel_of(block("mutable y = n;\nwhile (y > 0) { y -= 1; break; }")), scalar.While)
    assert isinstance(loop.body.ops[-1], scalar.Break) and loop.condition.op is loop.head.ops[-1]


def test_conditions_narrow_what_is_known() -> None:
    kernel = kernel_of(warpgroups("inthreads.async (p > 0) { cid = p - 1; }", count=3))
    assert named(kernel, "cid").bounds == (0, 2)
    kernel = kernel_of(block("if (n >= 2 && n < 6) { y = n * 3; }"))
    assert named(kernel, "y").bounds == (6, 16)


# ------------------------------------------------------------------------------------------------------------- views
def test_views_compose() -> None:
    kernel = kernel_of(
        block(
            "plane = a.subspan(256, 64).at(bm, 2);\ntail = plane.subspan(64, _).step(32, 64).at(n, _);\n"
            "s = dma.copy tail.subspan(8, 16).at(1, 3) => shared;"
        )
    )
    source = only(kernel, tile.DmaCopy).source
    rows, columns = source.offsets
    assert isinstance(rows, Value)
    # What may not fit in 32 bits is computed in 64, and stays outside of all data where it lies outside.
    plane = "(s32 (max (min (mul (s64 bm) 256) 2146435072) -2146435072))"
    tail = f"(s32 (max (min (add (s64 {plane}) (mul (s64 n) 32)) 2146435072) -2146435072))"
    assert chain(rows) == f"(add {tail} 8)" and columns == 128 + 48
    assert source.static_shape == (8, 16)


def test_a_group_of_variables_is_as_many_indices() -> None:
    kernel = kernel_of(
        block("foreach q = {i, j} in [n % 9, 4] { y = a.at(q); s = dma.copy a.subspan(8, 8).at(q) => shared; }")
    )
    assert [index.name for index in only(kernel, scalar.LoadElement).indices] == ["i", "j"]
    assert [chain(o) for o in only(kernel, tile.DmaCopy).source.offsets if isinstance(o, Value)] == [
        "(mul i 8)",
        "(mul j 8)",
    ]


def test_squeezed_dimensions_are_not_kept() -> None:
    text = block("row = a.subspan(1, 64).at(bm, 0).sqz();\ns = dma.copy row => shared;")
    source = only(kernel_of(text), tile.DmaCopy).source
    assert source.kept == (1,) and source.shape[0].known == 64


def test_chunks_of_a_rounded_up_bound_are_tiles() -> None:
    kernel = kernel_of(
        function("parallel i by cdiv(M, 48) : block { s = dma.copy a.chunkat(i, _).subspan(48, 8) => shared; }")
    )
    source = only(kernel, tile.DmaCopy).source
    assert isinstance(source.offsets[0], Value) and chain(source.offsets[0]) == "(mul i 48)"


def test_a_tile_of_each_warpgroup_gets_a_buffer_of_each_warpgroup() -> None:
    kernel = kernel_of(warpgroups("s = dma.copy a.subspan(64, 64).at(bm # p, 0) => shared;"))
    (buffer,) = kernel.buffers
    assert (buffer.name, buffer.slots, buffer.array) == ("s", 2, True)
    assert only(kernel, tile.DmaCopy).dest.slot is named(kernel, "p")
    kernel = kernel_of(warpgroups("inthreads.async (p == 0) { s = dma.copy a.subspan(64, 64).at(p, 0) => shared; }"))
    assert kernel.buffers[0].slots == 1  # the role leaves one warpgroup


def test_future_names_are_views_of_their_buffers() -> None:
    kernel = kernel_of(
        block(
            "s = dma.copy a.subspan(128, 64).at(bm, 0) => shared;\n"
            "t = dma.copy s.data.subspan(64, 32).at(1, 0) => shared;"
        )
    )
    source = ops(kernel, tile.DmaCopy)[1].source
    assert isinstance(source.root, Buffer) and source.root.name == "s" and source.offsets == (64, 0)


# ----------------------------------------------------------------------------------------------- fragments and futures
def test_accumulators_take_the_shape_of_their_first_mma() -> None:
    kernel = kernel_of(
        warpgroups(
            "z = mma.fill.f32 0;\nmma.row.col z, s, u;\nforeach i in n { z = mma.fill.f32 1.0f; mma.row.col z, s, u; }",
            "shared f16 [128, 64] s;\nshared f16 [64, 96] u;",
        )
    )
    assert [f.shape for f in kernel.fragments] == [(128, 96)]
    assert len(ops(kernel, scalar.FragDeclare)) == 1 and len(ops(kernel, tile.FragFill)) == 2
    assert ops(kernel, tile.FragFill)[0].value.type == "f32"


def test_apply_reads_and_writes_elements() -> None:
    kernel = kernel_of(
        warpgroups(
            "frag f32 [64, 32] s {0.0f};\nfrag f16 [64] r {-inf};\n"
            "apply {i, j} in s.span { g = s.at(i, j) * 2.0f; if (j > i) s.at(i, j) -= g; else r.at(i) = __to<f16>(g); }"
        )
    )
    body = only(kernel, tile.FragMap)
    i, j = body.iterators
    assert (i.bounds, j.bounds) == ((0, 64), (0, 32))
    writes = ops(kernel, scalar.FragWrite)
    assert [w.indices for w in writes] == [(i, j), (i,)]
    assert constant(ops(kernel, tile.FragFill)[1].value) == float("-inf")


def test_arrays_of_fragments_are_fragments() -> None:
    kernel = kernel_of(warpgroups("frag f32 [64, 32] s[2];\ncopy(s[0], s[1]);"))
    copy = only(kernel, tile.FragCopy)
    assert (copy.dest.frag.name, copy.source.frag.name) == ("s_0", "s_1")


def test_waits_keep_their_order() -> None:
    kernel = kernel_of(
        warpgroups(
            "inthreads.async (p == 0) { l = tma.load.async a.subspan(64, 64).at(bm, 0) => s; wait e, l, g; }\n"
            "inthreads.async (p == 1) { trigger e, g; }",
            "shared f16 [64, 64] s;\nshared event e, g;",
        )
    )
    waits = [op for op in kernel.walk() if isinstance(op, tile.EventWait | tile.FutureWait)]
    assert [type(op) for op in waits] == [tile.EventWait, tile.FutureWait, tile.EventWait]
    assert len(only(kernel, tile.EventTrigger).refs) == 2


def test_slots_of_events_in_the_old_form() -> None:
    kernel = kernel_of(
        warpgroups(
            "inthreads.async (p == 0) { foreach i in n { wait e[i % 2]; } }\n"
            "inthreads.async (p == 1) { foreach i in n { trigger e[i % 2]; } }",
            "shared event e[2];",
        )
    )
    ref = only(kernel, tile.EventWait).refs[0]
    assert ref.order is None and ref.slot is not None and chain(ref.slot) == "(mod i 2)"


# -------------------------------------------------------------------------------------------------------------- calls
def test_calls_get_fragments_views_and_values() -> None:
    text = "__device__ int g(float* r, int k) { return k; }\n__cok__ { float h(); bool k(); }\n" + warpgroups(
        "frag f32 [64] r;\ny = call g(r, n);\nfloat z = call h<64, true, float>(s, |f16|);\nif (call k(z)) { w = y; }",
        "shared f16 [64, 64] s;",
    )
    kernel = kernel_of(text)
    first, second, third = ops(kernel, scalar.Call)
    assert first.result is not None and (first.result.type, first.result.name) == ("s32", "y")
    assert second.template_args == ("64", "true", "croq::f32")
    assert third.result is not None and third.result.type == "bool"
    assert kernel.device_text == ("__device__ int g(float* r, int k) { return k; }", "float h(); bool k();")


def test_synchronisation_belongs_to_the_unit() -> None:
    kernel = kernel_of(block("sync.shared;\nparallel p by 2 : group-4 { sync.shared; sync.barrier : block; }"))
    assert [op.level for op in ops(kernel, tile.Sync)] == ["block", "group-4", "block"]


def test_buffers_may_be_filled() -> None:
    fill = only(kernel_of(block("shared f16 [8, 8] s[2] {0.0f};")), tile.BufferFill)
    assert fill.dest.slot is None and fill.value.type == "f16"


def test_both_stages_agree_about_element_types() -> None:
    assert sema_types.BYTES == ir_types.BYTES
    assert sema_types.FLOATS == ir_types.FLOATS and sema_types.INTEGERS == ir_types.INTEGERS


@pytest.mark.parametrize(
    ("body", "roles"),
    [
        ("inthreads.async (p == w + 1) { c.at(w, 0) = 0.0f; }", 2),
        ("inthreads.async (p == w + 1) { foreach {i} in [4] { if (i == w) break; } }", 2),
        ("if (w == n) break; inthreads.async (p == w + 1) { c.at(w, 0) = 0.0f; }", 1),
        ("inthreads (p == w + 1) { c.at(w, 0) = 0.0f; }", 1),
        ("c.at(w, 0) = 0.0f;", 0),
        ("", 0),
    ],
)
def test_a_loop_over_nothing_but_roles_is_written_out(body: str, roles: int) -> None:
    kernel = kernel_of(warpgroups(f"foreach {{w}} in [2] {{ {body} }}", count=3))
    assert len(ops(kernel, tile.Role)) == roles
    assert len(ops(kernel, scalar.For)) == (body.count("foreach") * 2 if roles == 2 else 1)
