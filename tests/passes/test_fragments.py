"""Pass `fragments`: layouts from uses, and register operations in place of tile operations."""

from __future__ import annotations

import re

import pytest

from croq.diagnostics import Sink
from croq.ir.objects import Kernel
from croq.ir.parser import parse_kernel
from croq.ir.printer import print_kernel
from croq.ir.verify import verify
from croq.passes.fragments import Fragments

HEAD = "kernel k file=k.co, grid=(1, 1, 1), threads=128 {\n"
PARAMS = """
param @out type=f32, shape=(M, 128)
param @row_out type=f32, shape=(M)
buffer @a type=bf16, shape=(64, 128)
buffer @b type=bf16, shape=(32, 128)
buffer @c type=bf16, shape=(32, 64)
"""


def run(objects: str, body: str, threads: str = "{0..128}", level: str = "group-4") -> tuple[Kernel, Sink]:
    """Run the pass on a scope; every operation gets the threads."""
    text = f'{HEAD}{PARAMS}{objects}\n section "", {level}, role=false, _ {{\n{body}\n}}\n}}\n'
    kernel = parse_kernel(text)
    members = parse_kernel(f"{HEAD} warp.sync threads {threads}\n}}").body.ops[0].threads if threads else None
    for op in kernel.walk():
        op.threads = members
    verify(kernel, "tile")
    sink = Sink()
    Fragments().apply(kernel, sink)
    if not sink.failed:
        verify(kernel, "tile")
        assert not any(op.NAME.startswith("frag.") and op.VOCABULARY == "tile" for op in kernel.walk())
    return kernel, sink


def layouts(kernel: Kernel) -> dict[str, str]:
    printed = print_kernel(kernel, only="fragments").splitlines()
    matches = [re.search(r"@(\w+) .*layout=(\w+\((?:[^()]|\([^()]*\))*\))", line) for line in printed]
    return {match.group(1): match.group(2) for match in matches if match is not None}


def body(kernel: Kernel) -> str:
    """The section's body as text, without threads."""
    lines = print_kernel(kernel, only="body").replace(" threads {0..128}", "").splitlines()
    return "\n".join(line[2:] for line in lines[1:-1])


def codes(sink: Sink) -> list[str]:
    return [d.code for d in sink.diagnostics]


ACC = "fragment @acc type=_, shape=_\n"
MMA = "frag.declare @acc\n mma row, row, @acc, @a[0:64, 0:128], @b[0:32, 0:128]\n"


def test_an_mma_gives_its_accumulator_shape_type_and_layout() -> None:
    kernel, sink = run(ACC, MMA)
    assert not sink.diagnostics
    acc = kernel.fragments[0]
    assert (acc.type, acc.shape, acc.packed) == ("f32", (64, 32), False)
    assert layouts(kernel) == {"acc": "accumulator(m=64, n=32)"}
    assert acc.why.startswith("accumulates the MMA")


def test_a_register_operand_is_packed_and_so_is_its_copy() -> None:
    objects = (
        "fragment @o type=_, shape=_\n fragment @p type=bf16, shape=(64, 32)\n fragment @s type=bf16, shape=(64, 32)"
    )
    code = """
    frag.declare @o
    frag.declare @p
    frag.declare @s
    frag.copy @p, @s
    mma row, col, @o, @p, @c[0:32, 0:64]
    """
    kernel, sink = run(objects, code)
    assert not sink.diagnostics
    assert [frag.packed for frag in kernel.fragments] == [False, True, True]
    assert layouts(kernel)["s"] == "accumulator(m=64, n=32)"
    assert "reg.copy @p, @s" in body(kernel)
    assert kernel.fragments[2].why == "copied to or from `p` (fragments.F4)"


def test_rows_follow_maps_reductions_and_copies() -> None:
    objects = ACC + "".join(f"fragment @{name} type=f32, shape=(64)\n" for name in ("top", "old", "scale", "total"))
    code = (
        MMA
        + """
    frag.declare @top
    frag.declare @old
    frag.declare @scale
    frag.declare @total
    frag.copy @old, @top
    frag.reduce max, @top, @acc
    frag.map @top, (%i: s32) {
      %t: f32 = frag_read @top, (%i)
      frag_write @scale, (%i), %t
    }
    frag.map @acc, (%m: s32, %j: s32) {
      %0: f32 = frag_read @total, (%m)
      %x: f32 = frag_read @acc, (%m, %j)
      %y: f32 = binary add, %0, %x
      frag_write @total, (%m), %y
    }
    frag.all_reduce sum, @total
    """
    )
    kernel, sink = run(objects, code)
    assert not sink.diagnostics
    found = layouts(kernel)
    assert {found[name] for name in ("top", "old", "scale", "total")} == {"row(m=64)"}
    text = body(kernel)
    assert "reg.reduce_row max, @top, @acc\nreg.shuffle_reduce max, @top, lanes=4" in text
    assert "reg.shuffle_reduce sum, @total, lanes=4" in text
    # F9: the partial sum is an element's statement, so there is no row section
    assert "row_body" not in text


def test_row_statements_run_once_a_row_and_before_the_elements() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    %two: f32 = const 2.0
    frag.map @acc, (%i: s32, %j: s32) {
      %x: f32 = frag_read @acc, (%i, %j)
      %r0: f32 = frag_read @r, (%i)
      %y: f32 = binary mul, %x, %r0
      frag_write @acc, (%i, %j), %y
      %r1: f32 = frag_read @r, (%i)
      %z: f32 = binary mul, %r1, %two
      frag_write @r, (%i), %z
    }
    """
    )
    kernel, sink = run(ACC + "fragment @r type=f32, shape=(64)", code)
    assert not sink.diagnostics
    # %r0 is a name, so it keeps the value of before the row statements: it is kept in a row register
    text = body(kernel).split("reg.map", 1)[1]
    assert (
        text
        == """ @acc, (%i: s32), (%i.1: s32, %j: s32), guard=false row_body {
  %r0: f32 = frag_read @r, (%i)
  frag_write @r0, (%i), %r0
  %r1: f32 = frag_read @r, (%i)
  %z: f32 = binary mul, %r1, %two
  frag_write @r, (%i), %z
} body {
  %x: f32 = frag_read @acc, (%i.1, %j)
  %r0.1: f32 = frag_read @r0, (%i.1)
  %y: f32 = binary mul, %x, %r0.1
  frag_write @acc, (%i.1, %j), %y
}"""
    )


def test_unnamed_reads_belong_to_the_statement_that_uses_them() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    frag.map @acc, (%i: s32, %j: s32) {
      %0: f32 = frag_read @r, (%i)
      frag_write @acc, (%i, %j), %0
      %1: f32 = const 1.0
      frag_write @r, (%i), %1
    }
    """
    )
    kernel, sink = run(ACC + "fragment @r type=f32, shape=(64)", code)
    assert not sink.diagnostics
    assert len(kernel.fragments) == 2
    assert "row_body" in body(kernel)


def test_a_condition_of_the_row_is_split_with_its_statements() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    %one: f32 = const 1.0
    %n: s32 = const 9
    frag.map @acc, (%i: s32, %j: s32) {
      %c: bool = binary lt, %i, %n
      if %c then {
        frag_write @r, (%i), %one
        %d: bool = binary lt, %j, %n
        if %d then {
          frag_write @acc, (%i, %j), %one
        }
      }
    }
    """
    )
    kernel, sink = run(ACC + "fragment @r type=f32, shape=(64)", code)
    assert not sink.diagnostics
    assert (
        body(kernel).split("reg.map", 1)[1]
        == """ @acc, (%i: s32), (%i.1: s32, %j: s32), guard=false row_body {
  %c: bool = binary lt, %i, %n
  if %c then {
    frag_write @r, (%i), %one
  }
} body {
  %c.1: bool = binary lt, %i.1, %n
  if %c.1 then {
    %d: bool = binary lt, %j, %n
    if %d then {
      frag_write @acc, (%i.1, %j), %one
    }
  }
}"""
    )


VARIABLE = "fragment @r type=f32, shape=(64)\n variable @v type=f32\n"


def test_a_mutable_scalar_of_elements_stays_with_them() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    frag.map @acc, (%i: s32, %j: s32) {
      %x: f32 = frag_read @acc, (%i, %j)
      var.declare @v, %x
      %0: f32 = var.get @v
      %1: f32 = binary add, %0, %0
      var.set @v, %1
      %2: f32 = var.get @v
      frag_write @acc, (%i, %j), %2
    }
    """
    )
    kernel, sink = run(ACC + VARIABLE, code)
    assert not sink.diagnostics
    assert "row_body" not in body(kernel)
    assert body(kernel).count("var.") == 4


def test_a_mutable_scalar_of_rows_that_elements_read_goes_with_them() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    frag.map @acc, (%i: s32, %j: s32) {
      %x: f32 = frag_read @r, (%i)
      var.declare @v, %x
      %2: f32 = var.get @v
      frag_write @acc, (%i, %j), %2
    }
    """
    )
    kernel, sink = run(ACC + VARIABLE, code)
    assert not sink.diagnostics
    assert "row_body" not in body(kernel)


def test_a_row_write_cannot_hang_on_a_scalar_of_the_elements() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    frag.map @acc, (%i: s32, %j: s32) {
      %x: f32 = frag_read @r, (%i)
      var.declare @v, %x
      %2: f32 = var.get @v
      frag_write @acc, (%i, %j), %2
      frag_write @r, (%i), %2
    }
    """
    )
    _, sink = run(ACC + VARIABLE, code)
    assert codes(sink) == ["E-2112"]


def test_one_lane_of_a_row_stores() -> None:
    code = (
        MMA
        + """
    frag.declare @r
    frag.reduce sum, @r, @acc
    frag.map @r, (%i: s32) {
      %x: f32 = frag_read @r, (%i)
      store_element @row_out[0:M], (%i), %x
    }
    """
    )
    kernel, sink = run(ACC + "fragment @r type=f32, shape=(64)", code)
    assert not sink.diagnostics
    assert (
        body(kernel).split("lanes=4\n", 1)[1]
        == """%0: s32 = thread_index
%1: s32 = const 4
%2: s32[-3..4] = binary mod, %0, %1
%3: s32[0..1] = const 0
%first_lane: bool = binary eq, %2, %3
reg.map @r, (), (%i: s32), guard=false body {
  %x: f32 = frag_read @r, (%i)
  if %first_lane then {
    store_element @row_out[0:M], (%i), %x
  }
}""".replace("%1: s32 =", "%1: s32[4..5] =")
    )


def test_no_mma_means_evenly_spread() -> None:
    code = """
    frag.declare @x
    frag.declare @y
    frag.map @x, (%i: s32) {
      %0: f32 = frag_read @y, (%i)
      frag_write @x, (%i), %0
    }
    """
    objects = "fragment @x type=f32, shape=(200)\n fragment @y type=f32, shape=(200)"
    kernel, sink = run(objects, code)
    assert not sink.diagnostics
    assert layouts(kernel) == dict.fromkeys("xy", "uniform(shape=(200), threads=128)")
    assert "guard=true" in body(kernel)
    kernel, sink = run(objects, code, threads="{0..200}", level="block")
    assert layouts(kernel) == dict.fromkeys("xy", "uniform(shape=(200), threads=200)")
    assert "guard=false" in body(kernel)


def test_rows_without_an_mma_make_an_accumulator_of_a_warpgroup() -> None:
    objects = "fragment @x type=f32, shape=(64, 24)\n fragment @r type=f32, shape=(64)"
    code = "frag.declare @x\n frag.declare @r\n frag.reduce max, @r, @x"
    kernel, sink = run(objects, code)
    assert not sink.diagnostics
    assert layouts(kernel) == {"x": "accumulator(m=64, n=24)", "r": "row(m=64)"}
    _, sink = run(objects, code, threads="{0..64}")
    assert codes(sink) == ["E-1156"]
    assert "no thread's reach" in sink.diagnostics[0].message
    _, sink = run(objects.replace("64", "48"), code)
    assert set(codes(sink)) == {"E-1152"}


@pytest.mark.parametrize(
    ("dest", "method", "checked", "pairs"),
    [
        ("@s[0:64, 0:32]", "stmatrix", "()", "false"),
        ("@s[%n:64, 0:32]", "stmatrix", "()", "false"),
        ("@s[0:64, %n:32]", "store", "()", "false"),
        ("@s[0:64, 4:32]", "store", "()", "true"),
        ("@f[0:64, 0:32]", "store", "()", "true"),
        ("@out[%n:64, 0:32]", "store", "(0)", "true"),
        ("@fixed[0:64, 0:32]", "store", "()", "true"),
        ("@fixed[%n:64, 0:32]", "store", "(0)", "true"),
        ("@fixed[%m:64, 0:32]", "store", "()", "true"),
        ("@three[%n:1!, 0:64, 0:32]", "store", "()", "true"),
        ("@apart[0:64, 1:1!, 0:32]", "store", "()", "true"),
    ],
)
def test_how_a_fragment_is_stored(dest: str, method: str, checked: str, pairs: str) -> None:
    objects = """
    param @fixed type=f32, shape=(128, 32)
    param @three type=f32, shape=(B, 64, 32)
    buffer @s type=bf16, shape=(128, 64)
    buffer @f type=f32, shape=(128, 64)
    buffer @apart type=bf16, shape=(64, 2, 32)
    fragment @acc type=_, shape=_
    """
    code = MMA + f"%n: s32 = block_index 0\n %m: s32[0..65] = block_index 1\n frag.store @acc, {dest}"
    kernel, sink = run(objects, code)
    assert not sink.diagnostics
    assert f", {method}, {checked}, pairs={pairs}" in body(kernel)


LOAD = "%v: bf16 = load_element {}, (%i, %j)\n frag_write @q, (%i, %j), %v\n"
LOADING = """
buffer @s type=bf16, shape=(128, 128), slots=2, array=true
buffer @half type=f16, shape=(64, 64)
buffer @odd type=bf16, shape=(64, 68)
buffer @own storage=local, type=bf16, shape=(64, 64)
buffer @apart type=bf16, shape=(64, 2, 64)
buffer @blocks type=bf16, shape=(2, 64, 64)
buffer @right type=bf16, shape=(64, 64)
param @g type=bf16, shape=(64, 64)
param @ints type=s32, shape=(N)
fragment @acc type=_, shape=_
fragment @q type=bf16, shape=(64, 64)
"""


def _mapped(statements: str, before: str = "", threads: str = "{0..128}") -> str:
    """What becomes of a map over a register operand of an MMA."""
    code = f"frag.declare @acc\n frag.declare @q\n %n: s32 = block_index 0\n %t: s32 = thread_index\n {before}"
    code += f"frag.map @q, (%i: s32[0..64], %j: s32[0..64]) {{\n {statements} }}\n"
    code += "mma row, row, @acc, @q, @right[0:64, 0:64]"
    kernel, sink = run(LOADING, code, threads)
    assert not sink.diagnostics
    return body(kernel)


@pytest.mark.parametrize(
    "tile",
    ["@s<0>[0:64, 0:64]", "@s<%n>[%n:64, 64:64]", "@s<1>[64:64, 8:64]", "@blocks[%n:1!, 0:64, 0:64]"],
)
def test_a_map_that_copies_a_shared_tile_is_a_load(tile: str) -> None:
    text = _mapped(LOAD.format(tile))
    assert f"reg.load @q, {tile}" in text
    assert "reg.map" not in text


def test_what_a_load_needs_is_computed_in_front() -> None:
    text = _mapped("%two: s32 = const 2\n %slot: s32 = binary mod, %n, %two\n" + LOAD.format("@s<%slot>[0:64, 0:64]"))
    assert re.search(r"%slot: s32 = binary mod.*\nreg.load @q, @s<%slot>\[0:64, 0:64\]", text)


def test_warps_meet_around_a_load_of_what_ordinary_code_writes() -> None:
    store = "store_element @s<0>[0:128, 0:128], (%t, %t), %c\n"
    text = _mapped(LOAD.format("@s<0>[0:64, 0:64]"), "%c: bf16 = const 1.0\n" + store)
    load = "reg.load @q, @s<0>[0:64, 0:64]"
    meet = "warp.sync by fragments.F14"
    assert f"{meet}\n{load}\n{meet}" in text
    assert "warp.sync" not in _mapped(LOAD.format("@s<0>[0:64, 0:64]"))


def test_warps_may_load_different_tiles() -> None:
    each = "%w: s32 = const {}\n %at: s32 = binary div, %t, %w\n"
    tile = LOAD.format("@s<0>[%at:64, 0:64]")
    assert "reg.load @q" in _mapped(tile, each.format(32))
    assert "reg.map @q" in _mapped(tile, each.format(16))


@pytest.mark.parametrize(
    "statements",
    [
        LOAD.format("@s<0>[0:64, 4:64]"),  # rows do not start on 16 bytes
        LOAD.format("@s<0>[0:64, %n:64]"),
        LOAD.format("@odd[0:64, 0:64]"),
        LOAD.format("@s<0>[0:128, 0:64]"),  # another shape
        LOAD.format("@apart[0:64, 1:1!, 0:64]"),  # rows with something in between
        LOAD.format("@own[0:64, 0:64]"),
        LOAD.format("@g[0:64, 0:64]"),
        LOAD.format("@s<%t>[0:64, 0:64]"),  # a tile for each lane
        LOAD.format("@s<0>[%i:64, 0:64]"),  # rows that depend on the element
        LOAD.replace("(%i, %j)", "(%j, %i)", 1).format("@s<0>[0:64, 0:64]"),
        LOAD.replace("(%i, %j)", "(%n, %j)", 1).format("@s<0>[0:64, 0:64]"),
        LOAD.format("@s<0>[0:64, 0:64]") + "frag_write @q, (%i, %j), %v",
        "frag_write @q, (%i, %j), %c\n",
        "%v: f16 = load_element @half[0:64, 0:64], (%i, %j)\n %w: bf16 = cast %v\n frag_write @q, (%i, %j), %w",
        "%v: bf16 = load_element @s<0>[0:64, 0:64], (%i, %j)\n %b: bool = binary lt, %i, %n\n if %b then {\n"
        " frag_write @q, (%i, %j), %v }",
        "%x: s32 = load_element @ints[0:N], (%j)\n" + LOAD.format("@s<%x>[0:64, 0:64]"),
    ],
)
def test_other_maps_stay_maps(statements: str) -> None:
    text = _mapped(statements, "%c: bf16 = const 1.0\n")
    assert "reg.map @q" in text
    assert "reg.load" not in text


def test_threads_that_are_no_whole_warps_load_element_by_element() -> None:
    tile = LOAD.format("@s<0>[0:64, 0:64]")
    assert "reg.load" in _mapped(tile, threads="{0..96}")
    assert "reg.load" not in _mapped(tile, threads="{0..112}")


def test_an_evenly_spread_fragment_is_filled_element_by_element() -> None:
    tile = LOAD.format("@s<0>[0:64, 0:64]")
    kernel, sink = run(LOADING, f"frag.declare @q\n frag.map @q, (%i: s32[0..64], %j: s32[0..64]) {{ {tile} }}")
    assert not sink.diagnostics
    assert "reg.map @q" in body(kernel)


def test_a_fill_is_converted_to_the_element_type() -> None:
    objects = "fragment @h type=f16, shape=(256)\n"
    kernel, sink = run(objects, "frag.declare @h\n %0: f32 = const 0.0\n frag.fill @h, %0")
    assert not sink.diagnostics
    assert "%0: f16 = const 0.0\nreg.fill @h, %0" in body(kernel)
    kernel, _ = run(objects, "frag.declare @h\n %0: f32 = const 0.1\n frag.fill @h, %0")
    assert "%0: f16 = const 0.0999755859375\nreg.fill @h, %0" in body(kernel)


ROW = "fragment @r type=f32, shape=(64)\n fragment @w type=f32, shape=(128)\n fragment @t type=f32, shape=(32, 64)\n"
DECLARE = MMA + "frag.declare @r\n frag.declare @w\n frag.declare @t\n"


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        ("frag.map @acc, (%i: s32, %j: s32) {\n %0: f32 = frag_read @r, (%j)\n }", "E-1152"),
        ("frag.map @acc, (%i: s32, %j: s32) {\n %0: f32 = frag_read @t, (%j, %i)\n }", "E-1152"),
        ("frag.map @acc, (%i: s32, %j: s32) {\n %0: f32 = frag_read @w, (%i)\n }", "E-1152"),
        ("frag.map @acc, (%i: s32, %j: s32) {\n %0: f32 = frag_read @t, (%i, %j)\n }", "E-1152"),
        ("frag.map @r, (%i: s32) {\n %0: f32 = frag_read @acc, (%i, %i)\n }", "E-1152"),
        ("frag.map @r, (%i: s32) {\n %0: f32 = frag_read @w, (%i)\n }", "E-1152"),
        ("%n: s32 = const 3\n %0: f32 = frag_read @r, (%n)", "E-1152"),
        ("frag.copy @r, @w", "E-1154"),
        ("frag.reduce max, @w, @acc", "E-1155"),
        ("frag.all_reduce sum, @w", "E-1156"),
        ("frag.all_reduce sum, @acc", "E-1156"),
        ("frag.store @acc, @out[0:64, 0:64]", "E-1133"),
        ("mma row, row, @acc, @a[0:64, 0:128], @c[0:24, 0:64]", "E-1111"),
        ("mma row, row, @acc, @a[0:32, 0:128], @b[0:32, 0:128]", "E-1113"),
        ("mma row, row, @acc, @r, @b[0:32, 0:128]", "E-1112"),
        ("mma row, row, @acc, @t, @b[0:32, 0:64]", "E-1113"),
    ],
)
def test_what_no_layout_allows_is_an_error(statements: str, code: str) -> None:
    _, sink = run(ACC + ROW, DECLARE + statements)
    assert codes(sink) == [code], [d.render() for d in sink.diagnostics]


def test_a_conflict_names_both_uses() -> None:
    code = (
        MMA
        + """
    frag.declare @big  // line 11
    frag.declare @r  // line 12
    frag.reduce max, @r, @acc  // line 13
    frag.reduce max, @r, @big  // line 14
    mma row, row, @big, @a[0:128, 0:128], @b[0:32, 0:128]  // line 15
    """
    )
    objects = ACC + "fragment @big type=_, shape=_ // line 2\n fragment @r type=f32, shape=(64) // line 3"
    _, sink = run(objects, code)
    (fault,) = sink.diagnostics
    assert fault.code == "E-1155"
    assert fault.span is not None and fault.span.line == 14
    assert 13 in {label.span.line for label in fault.labels}


def test_types_of_a_copy_must_agree() -> None:
    _, sink = run(
        "fragment @x type=f32, shape=(64)\n fragment @y type=f16, shape=(64)",
        "frag.declare @x\n frag.declare @y\n frag.copy @x, @y",
    )
    assert codes(sink) == ["E-1154"]


def test_an_accumulator_that_no_mma_uses_has_no_shape() -> None:
    _, sink = run(ACC, "frag.declare @acc\n %0: f32 = const 0.0\n frag.fill @acc, %0")
    assert codes(sink) == ["E-1117"]


def test_a_reduction_needs_whole_warps() -> None:
    objects = ACC + "fragment @r type=f32, shape=(64)"
    _, sink = run(objects, MMA + "frag.declare @r\n frag.reduce max, @r, @acc", threads="{0..48}")
    assert "E-2111" in codes(sink)


def test_unknown_threads_hold_nothing() -> None:
    code = "frag.declare @x\n %0: f32 = const 0.0\n frag.fill @x, %0"
    _, sink = run("fragment @x type=f32, shape=(64)", code, threads="", level="block")
    assert codes(sink) == ["E-2101"]
    _, sink = run("fragment @x type=f32, shape=(64)", code, threads="{0..32, 64..96}", level="block")
    assert codes(sink) == ["E-2101"]
