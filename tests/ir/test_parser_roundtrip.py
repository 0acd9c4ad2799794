"""Printed IR parses back: every registered operation, every object, every notation of a dimension."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import croq.ir.hw
import croq.ir.scalar
import croq.ir.tile
from croq.diagnostics import CompileError
from croq.ir.core import REGISTRY, Block, Op, Value
from croq.ir.notation import op_fields, options
from croq.ir.objects import (
    Buffer,
    Event,
    EventRef,
    Fragment,
    FragRef,
    Kernel,
    Matrix,
    Param,
    Start,
    TensorMap,
    Variable,
    View,
)
from croq.ir.parser import parse_kernel
from croq.ir.printer import print_kernel
from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import SourceFile, Span
from croq.target.fragments import AccumulatorLayout, RowLayout, UniformLayout

FILE = SourceFile("some/kernel.co", "one\ntwo\nthree\nfour\n")
SPAN = Span(FILE, 8, 10)


class Fill:
    """Makes operations with something in every field, deterministically, from the declarations."""

    def __init__(self, rich: bool) -> None:
        self.rich = rich  # optional things present, tuples of two
        self.kernel = Kernel("k", FILE, [], (Dim.of(1), Dim.of(1), Dim.of(1)), 256, Block())
        self.param = Param("q", "bf16", (Dim.symbol("Q"), Dim.of(128)), access={"tma", "pointer"}, span=SPAN)
        self.buffer = Buffer("q_s", "bf16", (64, 128), slots=2, array=True, requested_swizzle=128, offset=1024)
        self.frag = Fragment("acc", "f32", (64, 128), AccumulatorLayout(64, 128), why='the "MMA" at line 3')
        self.event = Event("full", slots=3, array=True, lowering="mbarrier", arrivals=4, waiters=ThreadSet.all(128))
        self.variable = Variable("order", "u32")
        self.map = TensorMap("q_map", self.param, (64, 64), (1, 0), 64, (Dim.of(64), Dim.symbol("Q")), 128)
        kernel = self.kernel
        kernel.params, kernel.buffers, kernel.fragments = [self.param], [self.buffer], [self.frag]
        kernel.events, kernel.variables, kernel.tensor_maps = [self.event], [self.variable], [self.map]

    def define(self, type: str, name: str | None = None) -> Value:
        op = croq.ir.scalar.Const(1, Value(type, name, (1, 2) if self.rich else None))
        op.result.op = op
        self.kernel.body.ops.append(op)
        return op.result

    def op(self, cls: type[Op]) -> Op:
        hints = get_type_hints(cls)
        made: dict[str, Any] = {}
        for info in op_fields(cls):
            if info.role in ("left", "definition"):
                made[info.name] = self.result(hints[info.name])
            else:
                made[info.name] = self.item(hints[info.name])
        op = cls(
            **made, span=SPAN if self.rich else None, threads=ThreadSet(((0, 32), (64, 96))) if self.rich else None
        )
        if isinstance(op, croq.ir.scalar.While):
            inner = croq.ir.scalar.Const(True, Value("bool"))
            op.head, op.condition = Block([inner]), inner.result
        return op

    def result(self, hint: Any) -> Any:
        if get_origin(hint) is tuple:
            return (Value("s32", "i"), Value("s32", "i")) if self.rich else ()
        optional = type(None) in get_args(hint)
        return None if optional and not self.rich else Value("s32", "x" if self.rich else None)

    def item(self, hint: Any) -> Any:
        if type(None) in get_args(hint) and not self.rich:
            return None
        kind = next(iter(options(hint)))
        if get_origin(kind) is tuple:
            return (self.item(get_args(kind)[0]), self.item(get_args(kind)[0])) if self.rich else ()
        if get_origin(kind) is Literal:
            return get_args(kind)[-1]
        simple = {int: 7, str: "two words" if self.rich else "word", bool: self.rich, float: 0.5}
        if kind in simple:
            return simple[kind]
        makers = {
            Value: lambda: self.define("s32", "v" if self.rich else None),
            Block: lambda: Block([croq.ir.scalar.ThreadIndex(Value("s32"), span=SPAN)]),
            Param: lambda: self.param,
            Buffer: lambda: self.buffer,
            Fragment: lambda: self.frag,
            Event: lambda: self.event,
            Variable: lambda: self.variable,
            TensorMap: lambda: self.map,
            View: self.view,
            EventRef: lambda: EventRef(self.event, self.define("s32"), self.define("u32") if self.rich else None),
            FragRef: lambda: FragRef(self.frag, 1 if self.rich else None),
            Start: lambda: Start(64, (self.define("s32"),), (8192,)),
            Matrix: lambda: Matrix(16, 1024, 1, Start(64), 2, 512, self.define("s32"), 4, 64, 32),
        }
        return makers[kind]()

    def view(self) -> View:
        offset = self.define("s32", "row")
        if self.rich:
            return View(self.buffer, offset, (offset, 64), (Dim.of(1), Dim.of(64)), (1,))
        return View(self.param, None, (0, offset), (Dim.symbol("Q").cdiv(128) + 1, Dim.of(128)), (1, 0))


@pytest.mark.parametrize("rich", [False, True], ids=["bare", "rich"])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_operation_round_trips(name: str, rich: bool) -> None:
    fill = Fill(rich)
    op = fill.op(REGISTRY[name])
    fill.kernel.body.ops.append(op)
    text = print_kernel(fill.kernel)
    again = parse_kernel(text)
    assert print_kernel(again) == text
    assert type(again.body.ops[-1]) is type(op)


@pytest.mark.parametrize("layout", [AccumulatorLayout(64, 8), RowLayout(128), UniformLayout((100,), 32)])
def test_layouts_survive(layout: Any) -> None:
    fill = Fill(False)
    fill.frag.layout = layout
    assert parse_kernel(print_kernel(fill.kernel)).fragments[0].layout == layout


Q, B = Dim.symbol("Q_SEQ"), Dim.symbol("B")


@pytest.mark.parametrize(
    "dim",
    [
        Dim.of(0), Q, Q * B * 2 - 3, Q * -1 + 1, Q.cdiv(128), (Q + 1).cdiv(128).min(B), (Q * B).div(6), Q.div(6) * B,
        (Q + B).mod(128), Q.mod(128).div(3), Q.max(B + 1) * 4,
        (B * Q.cdiv(2)).div(4), (B + Q.cdiv(2)).mod(6), Q.cdiv(2).div(3),
    ],
    ids=str,
)  # fmt: skip
def test_dimensions_survive(dim: Dim) -> None:
    fill = Fill(False)
    fill.kernel.grid = (dim, Dim.of(2), dim)
    assert parse_kernel(print_kernel(fill.kernel)).grid == fill.kernel.grid


def test_attributes_of_objects_survive() -> None:
    fill = Fill(True)
    fill.kernel.device_text = ("__device__ int f() {\n  return 1;\n}\n",)
    fill.kernel.min_blocks = 1
    again = parse_kernel(print_kernel(fill.kernel))
    assert again.device_text == fill.kernel.device_text
    assert again.min_blocks == 1
    assert again.params[0].access == {"tma", "pointer"}
    assert again.events[0].waiters == ThreadSet.all(128)
    assert again.tensor_maps[0].param is again.params[0]
    assert again.fragments[0].why == fill.frag.why
    assert again.params[0].span is not None and again.params[0].span.line == 3


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e-05, 0.1, -0.0, 1e300, True, False, -3, 2**40])
def test_constants_survive(value: float) -> None:
    fill = Fill(False)
    fill.kernel.body.ops.append(croq.ir.scalar.Const(value, Value("f32")))
    again = parse_kernel(print_kernel(fill.kernel)).body.ops[-1]
    assert isinstance(again, croq.ir.scalar.Const)
    assert repr(again.value) == repr(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kernel k file=x {\n  nonsense 1\n}\n", "the name of an operation"),
        ("kernel k file=x, grid=(1, 1, 1), threads=1 {\n  var.set @v, %0\n}\n", "no @v"),
        ("kernel k file=x, grid=(1, 1, 1), threads=1 {\n  sync block\n", "`}`"),
        ("kernel k file=x, grid=(1, 1, 1), threads=1 {\n  %1: s32 = cast %0\n}\n", "a definition of %0"),
        ("kernel k file=x, grid=(1, 1, 1), threads=1 {\n  setreg inc count=4\n}\n", "expected"),
        ("kernel k file=x {\n}\n", "a kernel with `grid`"),
        ("kernel k file=x, grid=(1, 1, 1), threads=1 {\n  buffer @b shape=(1)\n}\n", "a complete buffer"),
        ("kernel k file=x, grid=(1, 1, 1), threads=1 {%0: s32 = const 1\n%0: s32 = const 2\n}", "not taken"),
        ("", "0 kernels"),
    ],
)
def test_a_wrong_text_is_an_error_with_a_place(text: str, expected: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse_kernel(text)
    assert caught.value.diagnostics[0].code == "E-2190"
    assert expected in str(caught.value)
