"""Helpers that passes build on."""

from __future__ import annotations

from croq.ir.core import Block, Op, Value
from croq.ir.parser import parse_kernel
from croq.ir.printer import print_kernel
from croq.ir.rewrite import Builder, clone_ops, constant, parent_map, remove_dead, rewrite_blocks, uses
from croq.ir.scalar import Const, For, Symbol
from croq.ir.types import ThreadSet
from croq.ir.verify import verify

HEAD = "kernel k file=k.co, grid=(1, 1, 1), threads=128 {\n variable @v type=s32\n"
LOOP = (
    HEAD
    + """
  %n: s32 = const 4
  %zero: s32 = const 0
  var.declare @v, %zero
  for %i: s32, %n {
    %x: s32 = binary add, %i, %n
    %unused: s32 = binary mul, %x, %x
    if %c then {
      var.set @v, %x
    }
    while %more head {
      %0: s32 = var.get @v
      %more: bool = binary lt, %0, %x
    } body {
      var.set @v, %x
    }
  }
}
"""
).replace("    if %c then", "    %c: bool = binary lt, %i, %n\n    if %c then")


def test_a_clone_is_complete_and_apart() -> None:
    kernel = parse_kernel(LOOP)
    original = print_kernel(kernel)
    mapping: dict[Value, Value] = {}
    copies = clone_ops([kernel.body.ops[-1]], mapping)
    kernel.body.ops += copies
    verify(kernel, "tile")
    assert print_kernel(kernel).count("while") == 2
    kernel.body.ops.pop()
    assert print_kernel(kernel) == original
    old, new = kernel.body.ops[-1], copies[0]
    assert isinstance(old, For) and isinstance(new, For)
    assert mapping[old.iv] is new.iv and old.iv is not new.iv
    assert new.count is old.count


def test_rewriting_sees_inner_operations_first_and_replacements_once() -> None:
    kernel = parse_kernel(LOOP)
    seen: list[str] = []

    def twice(op: Op) -> list[Op] | None:
        seen.append(op.NAME)
        return [op, op] if op.NAME == "var.set" else [] if op.NAME == "if" else None

    rewrite_blocks(kernel.body, twice)
    assert seen.index("var.set") < seen.index("if") < seen.index("for")
    text = print_kernel(kernel)
    assert text.count("var.set") == 2
    assert "if " not in text


def test_dead_code_goes_and_what_it_used() -> None:
    kernel = parse_kernel(
        HEAD + "%a: s32 = const 1\n %b: s32 = binary add, %a, %a\n %c: s32 = const 2\n var.declare @v, %c\n}"
    )
    remove_dead(kernel.body)
    assert [op.NAME for op in kernel.body.ops] == ["const", "var.declare"]
    kernel = parse_kernel(LOOP)
    remove_dead(kernel.body)
    verify(kernel, "tile")
    assert "unused" not in print_kernel(kernel)


def test_uses_and_parents() -> None:
    kernel = parse_kernel(LOOP)
    found = uses(kernel.body)
    n = next(iter(kernel.body.ops[0].results()))
    assert [op.NAME for op in found[n]] == ["for", "binary", "binary"]
    parents = parent_map(kernel)
    inner = next(op for op in kernel.walk() if op.NAME == "var.get")
    assert parents[inner].NAME == "while"  # type: ignore[union-attr]
    assert parents[kernel.body.ops[0]] is None


def test_the_builder_folds_constants_and_keeps_bounds() -> None:
    builder = Builder(threads=ThreadSet.all(128))
    thread = builder.thread_index(384)
    group = builder.binary("div", thread, 128, "p")
    assert group.bounds == (0, 3)
    lane = builder.binary("mod", thread, 128)
    assert lane.bounds == (0, 128)
    assert builder.binary("add", group, 0) is group
    assert builder.binary("mul", group, 1) is group
    seven = builder.binary("add", builder.const("s32", 3), 4)
    assert constant(seven) == 7
    assert constant(builder.binary("lt", seven, 8)) is True
    assert constant(builder.binary("cdiv", seven, 2)) == 4
    assert constant(builder.cast(builder.const("f32", 2.0), "bf16")) == 2.0
    assert constant(builder.cast(builder.const("f32", 0.1), "bf16")) == 0.10009765625
    assert constant(builder.cast(builder.const("f32", 300.7), "s8")) == 127
    assert constant(builder.cast(builder.const("f32", float("-inf")), "f16")) == float("-inf")
    assert constant(builder.binary("add", builder.const("u32", 2**32 - 1), 1)) == 0
    assert constant(builder.binary("div", builder.const("s32", 1), 0)) is None
    assert builder.select(builder.const("bool", True), group, lane) is group
    assert all(op.threads == ThreadSet.all(128) for op in builder.take())
    assert builder.ops == []


def test_the_builder_tells_what_defines_a_value() -> None:
    builder = Builder()
    size = builder.symbol("N")
    assert isinstance(size.op, Symbol)
    assert isinstance(builder.const("u32", 3).op, Const)
    assert Block(builder.take()).ops[0] is size.op
