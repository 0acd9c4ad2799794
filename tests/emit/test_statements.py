"""When a value is written out, when it gets a name, and what stands above the text that a statement became."""

from __future__ import annotations

import re

import pytest

from croq.emit import emit_cuda
from croq.emit.text import base_name, statement_text
from croq.ir.core import Op
from croq.ir.objects import Kernel
from croq.source import SourceFile, Span
from tests.emit.samples import PIPELINE, VARIABLES, body_of, cuda, kernel

X = "param @x type=s32, shape=(N)\nvariable @n type=s32"


def test_a_variable_read_before_a_write_keeps_its_old_value() -> None:
    lines = body_of(cuda(*VARIABLES)).splitlines()
    assert "const s32 n_before = n;" in lines
    assert lines.index("const s32 n_before = n;") < lines.index("n += one;")
    assert "out[n_before] = n * n;" in lines


def test_a_single_use_is_inlined_and_an_unused_value_vanishes() -> None:
    body = """
    %0: s32 = thread_index
    %1: s32 = binary add, %0, %0
    %2: s32 = binary mul, %1, %0
    %unused: s32 = binary mul, %1, %1
    store_element @x[0:N], (%0), %2
    """
    assert body_of(cuda(X, body)) == "x[thread] = (thread + thread) * thread;"


def test_loads_are_not_moved_behind_stores() -> None:
    body = """
    %0: s32 = const 0
    %1: s32 = const 1
    %2: s32 = load_element @x[0:N], (%0)
    %3: s32 = load_element @x[0:N], (%1)
    store_element @x[0:N], (%0), %3
    store_element @x[0:N], (%1), %2
    """
    assert body_of(cuda(X, body)).splitlines() == ["const s32 x_value = x[0];", "x[0] = x[1];", "x[1] = x_value;"]


def test_what_a_loop_uses_is_computed_before_it() -> None:
    body = """
    %a: s32 = thread_index
    %0: s32 = binary mul, %a, %a
    %1: s32 = const 8
    for %i: s32, %1 {
      store_element @x[0:N], (%i), %0
    }
    """
    assert body_of(cuda(X, body)).splitlines()[1] == "const s32 n = a * a;"


def test_a_count_that_changes_in_the_loop_is_evaluated_once() -> None:
    body = """
    %0: s32 = const 5
    var.declare @n, %0
    %1: s32 = var.get @n
    for %i: s32, %1 {
      var.set @n, %i
    }
    """
    assert "for (s32 i = 0; i < i_count; ++i) {" in body_of(cuda(X, body))


def test_names_of_closed_scopes_are_given_again() -> None:
    objects = "param @x type=s32, shape=(N)\nvariable @n type=s32\nvariable @n_2 type=s32"
    body = """
    %a: s32 = thread_index
    %0: s32 = const 9
    %c: bool = binary lt, %a, %0
    if %c then {
      var.declare @n, %0
      %1: s32 = var.get @n
      store_element @x[0:N], (%a), %1
    } otherwise {
      var.declare @n_2, %0
      %2: s32 = var.get @n_2
      store_element @x[0:N], (%a), %2
    }
    """
    assert body_of(cuda(objects, body)).count("s32 n = 9;") == 2


def test_whole_warps_quotients_of_the_thread_index_are_uniform() -> None:
    assert "const s32 p = croq::uniform(t / 128);" in body_of(cuda(*PIPELINE, threads=256))


def test_register_budgets_need_a_minimum_of_resident_blocks() -> None:
    assert "__launch_bounds__(256, 1)" in cuda(*PIPELINE, threads=256)


def test_instructions_are_defined_once() -> None:
    text = cuda(*PIPELINE, threads=256)
    assert text.count("CROQ_FN void wgmma_m64n128k16_bf16_ss(") == 1
    assert text.count("CROQ_FN void register_fence(") == 1


def test_two_kernels_share_a_file() -> None:
    first, second = kernel(*PIPELINE, threads=256), kernel(*PIPELINE, threads=256)
    second.name = "other"
    text = emit_cuda([first, second])
    assert text.count('extern "C" __global__') == 2
    assert text.count("CROQ_FN void wgmma_m64n128k16_bf16_ss(") == 1
    assert text.count("extern __shared__") == 1


# -------------------------------------------------------------------------------------------------------- comments
SOURCE = SourceFile(
    "some/folder/k.co",
    """__co__ void k(global s32 [N] x) {
  parallel b by 1 : block {
    one = b + 1;  // a comment
    x.at(0) = one
      * one;

    foreach {i} in [8] {
      x.at(i) = i;
    }
  }
}
""",
)


def span(first: str, last: str) -> Span:
    start = SOURCE.text.index(first)
    return Span(SOURCE, start, SOURCE.text.index(last, start) + len(last))


def with_spans(spans: dict[str, Span]) -> Kernel:
    body = """
    %b: s32 = block_index 0
    %0: s32 = const 1
    %one: s32 = binary add, %b, %0
    %1: s32 = const 0
    %2: s32 = binary mul, %one, %one
    store_element @x[0:N], (%1), %2
    %3: s32 = const 8
    for %i: s32, %3 {
      store_element @x[0:N], (%i), %i
    }
    """
    made = kernel("param @x type=s32, shape=(N)", body)
    made.file = SOURCE

    def key(op: Op) -> str:
        return f"{op.NAME}{sum(1 for o in seen if o.NAME == op.NAME)}"

    seen: list[Op] = []
    for op in made.walk():
        op.span = spans.get(key(op))
        seen.append(op)
    return made


SPANS = {
    "binary0": span("one = b + 1", "1"),
    "binary1": span("* one", "one"),
    "store_element0": span("x.at(0)", "* one"),
    "for0": span("foreach", "}\n"),
    "store_element1": span("x.at(i)", "= i"),
}


def test_each_statement_is_quoted_once_above_what_it_became() -> None:
    text = emit_cuda([with_spans(SPANS)])
    assert re.findall(r"^ *// k\.co:.*$", text, re.MULTILINE) == [
        "  // k.co:3  one = b + 1",
        "  // k.co:4  x.at(0) = one * one",
        "  // k.co:7  foreach {i} in [8]",
        "    // k.co:8  x.at(i) = i",
    ]
    assert "\n\n  // k.co:7" in text  # the source's paragraphs


def test_lineinfo_speaks_of_source_lines() -> None:
    lines = emit_cuda([with_spans(SPANS)], lineinfo=True).splitlines()
    at = lines.index("    x[i] = i;")
    assert lines[at - 1] == '#line 8 "k.co"'
    assert lines[lines.index("  x[0] = one * one;") - 1] == '#line 4 "k.co"'
    assert "#line" not in emit_cuda([with_spans(SPANS)])


@pytest.mark.parametrize(("name", "base"), [("a/b/k.co", "k.co"), ("C:\\x\\k.co", "k.co"), ("k.co", "k.co")])
def test_file_names_are_bare(name: str, base: str) -> None:
    assert base_name(SourceFile(name, "")) == base


def test_long_statements_are_cut() -> None:
    file = SourceFile("k.co", "x = " + "y + " * 60 + "y;\n")
    text = statement_text(Span(file, 0, len(file.text) - 1), header_only=False)
    assert len(text) <= 100 and text.endswith("...")
