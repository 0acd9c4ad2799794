"""The printer: deterministic, complete text of kernels."""

from __future__ import annotations

import pytest

from croq.ir.core import Block, Value
from croq.ir.hw import Elect, MbarrierArrive, MbarrierExpectTx, Section
from croq.ir.objects import Buffer, Event, Kernel, Module, Param
from croq.ir.printer import print_kernel, print_module, print_op
from croq.ir.scalar import Binary, Const, For, If, LoadElement, ThreadIndex, While
from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import SourceFile, Span

FILE = SourceFile("k.co", "a\nb\nc\n")


def kernel() -> Kernel:
    q = Dim.symbol("Q")
    made = Kernel(
        "scores", FILE, [Param("q", "f32", (q, Dim.of(64)))], (q.cdiv(64), Dim.of(1), Dim.of(1)), 128, Block()
    )
    made.buffers.append(Buffer("tile", "bf16", (64, 64), slots=2, span=Span(FILE, 2, 3)))
    made.events.append(Event("full", slots=2, array=True))
    return made


def test_a_whole_kernel() -> None:
    made = kernel()
    thread = ThreadIndex(Value("s32", "t", (0, 128)), span=Span(FILE, 0, 1), threads=ThreadSet.all(128))
    half = Const(64, Value("s32"))
    first = Binary("lt", thread.result, half.result, Value("bool", "t"))
    arrive = MbarrierArrive(made.events[0], None)
    expect = MbarrierExpectTx(made.events[0], thread.result, 4096)
    elect = Elect("set", 0, Block([arrive, expect]))
    branch = If(first.result, Block([elect]), Block(), span=Span(FILE, 4, 5))
    made.body.ops = [thread, half, first, branch]
    assert (
        print_kernel(made)
        == """\
kernel scores file="k.co", grid=(cdiv(Q, 64), 1, 1), threads=128 {
  param @q type=f32, shape=(Q, 64)
  buffer @tile type=bf16, shape=(64, 64), slots=2  // line 2
  event @full slots=2, array=true
  %t: s32[0..128] = thread_index threads {0..128}  // line 1
  %0: s32 = const 64
  %t.1: bool = binary lt, %t, %0
  if %t.1 then {  // line 3
    elect set, thread=0 {
      mbarrier.arrive @full, _
      mbarrier.expect_tx @full, %t, bytes=4096
    }
  } otherwise {
  }
}
"""
    )
    assert print_kernel(made) == print_kernel(made)


def test_parts_of_a_kernel() -> None:
    made = kernel()
    assert print_kernel(made, only="events") == "event @full slots=2, array=true\n"
    assert print_kernel(made, only="body") == ""
    with pytest.raises(ValueError, match="no part"):
        print_kernel(made, only="everything")


def test_a_module_is_its_kernels() -> None:
    module = Module(FILE, [kernel(), kernel()])
    assert print_module(module).count("kernel scores") == 2


def test_loops_and_sections_print_their_own_values_in_place() -> None:
    count = Const(3, Value("s32"))
    loop = For(Value("s32", "n", (0, 3)), count.result, Block())
    section = Section("p == 0", "group-4", True, None, Block([loop]))
    assert print_op(section) == 'section "p == 0", group-4, role=true, _ {\n  for %n: s32[0..3], %0 {\n  }\n}'
    condition = Const(True, Value("bool"))
    head = While(Block([condition]), condition.result, Block())
    assert print_op(head).splitlines()[0] == "while %0 head {"


def test_one_name_for_two_kinds_of_objects_stays_readable() -> None:
    made = kernel()
    made.buffers[0].name = "q"
    index = Const(0, Value("s32"))
    from croq.ir.objects import View

    view = View(made.params[0], None, (0, 0), (Dim.symbol("Q"), Dim.of(64)), (0, 1))
    made.body.ops = [index, LoadElement(view, (index.result, index.result), Value("f32"))]
    assert "load_element param@q[0:Q, 0:64], (%0, %0)" in print_kernel(made)
