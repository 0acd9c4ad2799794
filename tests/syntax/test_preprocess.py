"""Macros, directives, and the split into host, device and `__co__` text."""

from __future__ import annotations

import pytest

from croq.diagnostics import CompileError, Sink
from croq.source import Span
from croq.syntax import source_text
from croq.syntax.preprocess import Chunk, DeviceChunk, HostChunk, KernelChunk, preprocess


def split(text: str, defines: dict[str, str] | None = None) -> tuple[list[Chunk], Sink]:
    sink = Sink()
    return preprocess(source_text("t.co", text), defines or {}, sink).chunks, sink


def kernel(text: str, defines: dict[str, str] | None = None) -> KernelChunk:
    chunks, sink = split(text, defines)
    assert not sink.failed, [d.render() for d in sink.diagnostics]
    (found,) = [c for c in chunks if isinstance(c, KernelChunk)]
    return found


def body(text: str, defines: dict[str, str] | None = None) -> str:
    """The expanded text between the braces of `__co__ void f() {...}`, blanks squeezed."""
    expanded = kernel(text, defines).expanded.text
    return " ".join(expanded[expanded.index("{") + 1 : expanded.rindex("}")].split())


def codes(text: str, defines: dict[str, str] | None = None) -> list[str]:
    try:
        return [d.code for d in split(text, defines)[1].diagnostics]
    except CompileError as fault:
        return [d.code for d in fault.diagnostics]


def test_object_macros_are_replaced_inside_functions_only() -> None:
    chunks, _ = split("#define N 4\nint a = N;\n__co__ void f() { x = N; }\nint b = N;\n")
    assert [type(c) for c in chunks] == [HostChunk, KernelChunk, HostChunk]
    assert isinstance(chunks[0], HostChunk) and chunks[0].span.text == "#define N 4\nint a = N;\n"
    assert body("#define N 4\n__co__ void f() { x = N; }") == "x = 4;"


# operators of two characters, and of three
TWO = ("<=", ">=", "==", "!=", "&&", "||", "<<", ">>", "++", "--", "+=", "-=", "*=", "/=", "%=", "=>", "::", "->")


@pytest.mark.parametrize(
    ("define", "use", "expected"),
    [
        ("#define N 4 // four", "N", "4"),
        ("#define N 1 + \\\n 2", "N", "1 + 2"),
        ("#define N", "N", "1"),
        ("#define M N\n#define N 3", "M", "3"),
        ("#define N N + 1", "N", "N + 1"),
        ("#define A B\n#define B A", "A", "A"),
        ("#define N 3\n#define N 4", "N", "4"),
        ("#define N 3\n#undef N", "N", "N"),
        ("#define F(a, b) (a * b)", "F(1 + 2, x.at(3, 4))", "(1 + 2 * x.at(3, 4))"),
        ("#define F(a) a\n#define N 5", "F(N) F", "5 F"),
        ("#define F() 7", "F()", "7"),
        ("#define F(a) (a)", "F(F(1))", "((1))"),
        ("#define NEG -1", "2 -NEG", "2 - -1"),
        ("#define LE(a, b) ((a) <= (b))", "LE(x, 3)", "((x) <= (3))"),
        *[(f"#define OP(a, b) a{op}b\n#define SIGN {op}", "OP(x, y) SIGN", f"x{op}y {op}") for op in TWO],
        *[("#define ID(a) a", f"ID(x{op}y) ID({op})z", f"x{op}y {op}z") for op in TWO],
        ("#define LT <\n#define EQ =", "x LT= y LT EQ z LT<", "x < = y < = z < <"),
        ("#define EMPTY()", "x <EMPTY()= y", "x < = y"),
        ("#define N 2", "N.0f N.at xN N_", "2 .0f 2 .at xN N_"),
        ("#define E 1e", "E-5 1e-5 0x1E-E", "1e -5 1e-5 0x1E-1e"),
        ("#define R R", 'R"(x)"', 'R"(x)"'),
        ("#define N 3", '"N"', '"N"'),
        ("#define PAIR(a, b) a # b", "PAIR(x, y)", "x # y"),
    ],
)
def test_expansion(define: str, use: str, expected: str) -> None:
    assert body(f"{define}\n__co__ void f() {{ x = {use}; }}") == f"x = {expected};"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("1", True),
        ("UNKNOWN", False),
        ("defined X", True),
        ("defined(X) && !defined(Y)", True),
        ("X == 3 && X * 2 >= 6", True),
        ("(X + 1) % 2 == 0", True),
        ("X > 3 || X < 3", False),
        ("0 && 1 / 0", False),
        ("1 || 1 / 0", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("1 ? 0 : 1", False),
        ("0x10 == 16 && 4u == 4L", True),
        ("1 << 4 == 16", True),
        ("__has_include(<x.h>)", False),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    text = f"#define X 3\n__co__ void f() {{\n#if {condition}\n yes\n#else\n no\n#endif\n}}"
    assert body(text) == ("yes" if holds else "no")


def test_nested_conditions_choose_one_branch() -> None:
    lines = ["#if 0", "#if 1", "a", "#endif", "#elif 1", "b", "#ifdef N", "c", "#else", "d", "#endif", "#else", "e"]
    assert body("__co__ void f() {\n" + "\n".join([*lines, "#endif"]) + "\n}") == "b d"


def test_a_function_in_an_inactive_region_is_host_text() -> None:
    chunks, sink = split("#if 0\n__co__ void f() { }\n#endif\n__co__ void g() { }\n")
    assert not sink.failed
    assert len([c for c in chunks if isinstance(c, KernelChunk)]) == 1


def test_the_command_line_wins_over_a_guarded_definition() -> None:
    text = "#ifndef N\n#define N 2\n#endif\n__co__ void f() { x = N; }"
    assert body(text, {"N": "5"}) == "x = 5;"
    assert body(text) == "x = 2;"


def test_a_plain_definition_wins_over_the_command_line_with_a_warning() -> None:
    text = "#define N 2\n__co__ void f() { x = N; }"
    assert body(text, {"N": "5"}) == "x = 2;"
    assert codes(text, {"N": "5"}) == ["W-2001"]
    assert codes(text, {"N": "2"}) == []


def test_comments_vanish_and_lines_keep_their_number() -> None:
    text = "__co__ void f() {\n  a /* x\n y */ b // c\n  d\n}"
    expanded = kernel(text).expanded
    assert body(text) == "a b d"
    at = expanded.text.index("d\n")
    assert expanded.span(at, at + 1).line == 4


def test_an_expanded_token_lies_at_the_use_and_knows_the_body() -> None:
    text = "#define M 1 + N\n#define N 7\n__co__ void f() { x = M; }"
    expanded = kernel(text).expanded
    at = expanded.text.index("7")
    span = expanded.span(at, at + 1)
    assert (span.line, span.text) == (3, "M")
    assert span.expansion is not None and (span.expansion.line, span.expansion.text) == (1, "N")
    inner = span.expansion.expansion
    assert inner is not None and (inner.line, inner.text) == (2, "7")


def test_a_macro_argument_lies_where_it_was_written() -> None:
    expanded = kernel("#define F(a) (a)\n__co__ void f() { x = F(abc); }").expanded
    at = expanded.text.index("abc")
    span = expanded.span(at, at + 3)
    assert (span.text, span.expansion) == ("abc", None)


def test_a_command_line_macro_names_the_option() -> None:
    expanded = kernel("__co__ void f() { x = N; }", {"N": "42"}).expanded
    at = expanded.text.index("42")
    expansion = expanded.span(at, at + 2).expansion
    assert isinstance(expansion, Span) and expansion.file.text == "N=42"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#if 1\n", "E-210"),
        ("#else\n", "E-210"),
        ("#endif\n", "E-210"),
        ("#elif 1\n", "E-210"),
        ("#if 1\n#else\n#else\n#endif\n", "E-210"),
        ("#if 1\n#else\n#elif 1\n#endif\n", "E-210"),
        ("#if\n#endif\n", "E-210"),
        ("#if 1 +\n#endif\n", "E-210"),
        ("#if (1\n#endif\n", "E-210"),
        ("#if 1 2\n#endif\n", "E-210"),
        ("#if 1 / 0\n#endif\n", "E-210"),
        ("#if 1.5\n#endif\n", "E-210"),
        ("#ifdef\n#endif\n", "E-210"),
        ("#define\n", "E-210"),
        ("#define 3\n", "E-210"),
        ("#define F(a, a) a\n", "E-210"),
        ("#define F(a\n", "E-210"),
        ("#undef\n", "E-210"),
        ("#error stop\n", "E-211"),
        ("#define F(a) a\n__co__ void f() { F(1, 2); }", "E-210"),
        ("#define F(a) a\n__co__ void f() { F(1; }", "E-210"),
        ("#define F(...) a\n__co__ void f() { F(1); }", "E-210"),
        ("#define F(a) a ## b\n__co__ void f() { F(1); }", "E-210"),
        ("__co__ void f() {\n#include <x>\n}", "E-210"),
        ("__co__ void f() {\n#pragma unroll\n}", "W-2002"),
        ("/* never closed", "E-200"),
        ('__co__ void f() { x = "abc; }', "E-200"),
        ('int x = R"(abc;', "E-200"),
        ("__co__ void f() { { }", "E-200"),
        ("__co__ void f", "E-200"),
        ("__co__ void f() { } }", "E-200"),
        ("namespace a { __co__ void f() { } }", "E-200"),
        ("__device__ void f() {", "E-200"),
    ],
)
def test_each_fault_has_its_code(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_host_text_may_hold_what_only_cpp_understands() -> None:
    assert codes("#define CAT(a, ...) a ## b\n#pragma once\n#include <cstdio>\n#line 3\n# \nint x = CAT(1);\n") == []


@pytest.mark.parametrize("name", ["", "3x", "a b", "defined", "a-b"])
def test_a_bad_define_is_refused(name: str) -> None:
    assert codes("", {name: "1"}) == ["E-2009"]


def test_a_compose_operator_at_the_start_of_a_line_is_no_directive() -> None:
    assert body("__co__ void f() {\n x = a\n   # b;\n}") == "x = a # b;"


def test_the_missing_brace_is_found_by_indentation() -> None:
    text = "__co__ void f() {\n  while (x) {\n    y = 1;\n  if (z) {\n    y = 2;\n  }\n}\n"
    _, sink = split(text)
    (fault,) = sink.diagnostics
    assert fault.span is not None and fault.span.line == 2


def test_a_missing_brace_does_not_swallow_the_next_function() -> None:
    chunks, sink = split("__co__ void f() {\n  x = 1;\n\n__co__ void g() { }\n")
    assert [d.code for d in sink.diagnostics] == ["E-200"]
    assert len([c for c in chunks if isinstance(c, KernelChunk)]) == 2


# ------------------------------------------------------------------------------------------------------ device text
def device(text: str) -> list[DeviceChunk]:
    chunks, sink = split(text)
    assert not sink.failed, [d.render() for d in sink.diagnostics]
    return [c for c in chunks if isinstance(c, DeviceChunk)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("__device__ int f(int x) { return x; }", "f"),
        ("template <int N>\n__device__ __forceinline__ float f(float* x) { return x[N]; }", "f"),
        ("static inline __device__ void f();", "f"),
        ("__device__ __launch_bounds__(128) void f() { }", "f"),
        ("__device__ void f() { const char* s = \"}\"; char c = '}'; /* } */ // }\n }", "f"),
        ('__device__ void f() { auto s = R"x(})")x"; }', "f"),
        ("__device__ void f(int a = 3) {\n#pragma unroll\n  for (;;) { }\n}", "f"),
        ("__device__ void f() {\n#if 0\n}\n#endif\n}", "f"),
        ("__device__ int table[2] = {1, 2};", None),
        ("__device__ bool operator==(A a, A b) { return true; }", None),
    ],
)
def test_device_functions_are_captured_whole(text: str, name: str | None) -> None:
    (chunk,) = device(f"int before;\n{text}\nint after;\n")
    assert chunk.text == text
    assert chunk.name == name


def test_files_and_namespaces_have_device_functions_and_classes_do_not() -> None:
    text = "namespace n { __device__ void f() { } }\nstruct S { __device__ void g(); };"
    assert [chunk.name for chunk in device(text)] == ["f"]


def test_device_marks_of_the_language_do_not_reach_cpp() -> None:
    first, second = device("__co_device__ void f() { }\n__cok__ { int x; }\n")
    assert (first.text, first.name) == ("__device__ void f() { }", "f")
    assert (second.text.strip(), second.name) == ("int x;", None)


def test_chunks_leave_no_gap() -> None:
    text = "int a;\n__device__ void g() { }\n__co__ void f() { }\n// end\n"
    chunks, _ = split(text)
    assert "".join(c.span.text for c in chunks) == text


@pytest.mark.parametrize("op", TWO)
def test_values_of_the_command_line_keep_their_operators(op: str) -> None:
    assert body("__co__ void f() { a OP b; }", {"OP": op}) == f"a {op} b;"
