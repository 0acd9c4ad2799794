"""Wrong programs: one coded message at the right place, in the words of the language, with what to write instead."""

from __future__ import annotations

import pytest

from croq.diagnostics import CompileError, Diagnostic, Sink
from croq.syntax import parse_program, source_text

HEAD = "__co__ void f(global f32 [N] x) {\n"


def diagnostics(text: str) -> list[Diagnostic]:
    sink = Sink()
    try:
        parse_program(source_text("t.co", text), {}, sink)
    except CompileError as fault:
        assert list(fault.diagnostics) == sink.diagnostics
    return sink.diagnostics


# (statement, code, the text under the caret, a part of the message, a part of the hint)
SLIPS = [
    ("a = 1\nb = 2;", "E-200", "", "`;` is missing here", "end the statement"),
    ("wait e", "E-200", "", "`;` is missing here", "end the statement"),
    ("tma.copy a = b;", "E-200", "=", "written with `=>`", "source => destination"),
    ("a => b;", "E-200", "=>", "belongs to a move", "tma.copy"),
    ("if (a = 3) { }", "E-200", "=", "`=` assigns", "`==`"),
    ("for (int i = 0; i < 3; ++i) { }", "E-200", "for", "not a word", "foreach {i} in [n]"),
    ("unsigned a = 3;", "E-200", "unsigned", "not a word", "u32"),
    ("thing a = 3;", "E-200", "thing", "neither a type", "element type"),
    ("a = max(1, 2);", "E-200", "max", "no builtin", "`__max`"),
    ("a = foo(1);", "E-200", "foo", "not how a function is called", "call foo"),
    ("a = 1 + call foo(2);", "E-200", "call", "inside an expression", "name first"),
    ("a = x::y;", "E-200", "x", "qualified name", "call x::"),
    ("a = 010;", "E-200", "010", "not a number", "leading zeros"),
    ("a = 1.0fx;", "E-200", "1.0fx", "not a number", "1.0f"),
    ("a = 12ab;", "E-200", "12ab", "not a number", ""),
    ("a = 'c';", "E-200", "'", "character literals", "number"),
    ("x. at(3) = 2;", "E-200", ".", "a lone `.`", "white space"),
    ("x.att(3) = 2;", "E-200", ".att", "there is no `.att`", "`.at`"),
    ("a = @;", "E-200", "@", "unexpected character", ""),
    ("a = 1；", "E-200", "；", "unexpected character", "ASCII `;`"),
    ("a = (1 + 2;", "E-200", ";", "expected `)`", "missing"),
    ("a = 1 + ;", "E-200", ";", "expected an expression", "missing"),
    ("u32 block = 3;", "E-200", "block", "cannot be a name", "block_"),
    ("a = b ? c;", "E-200", ";", "expected `:`", "missing"),
    ("parallel p by 3 : groupx { }", "E-200", "groupx", "`block`, `group-4`, `group` or `thread`", ""),
    ("parallel p by 3 : group - 4 { }", "E-200", "-", "found `-`", ""),
    ("[[launch_bounds(_, 1)]] a = 3;", "E-200", "a", "directly before `parallel`", "move it"),
    ("[[fast(1)]] parallel p by 3 { }", "E-200", "fast", "unknown attribute", "launch_bounds"),
    ("apply {i} in x { }", "E-200", "x", "span of a fragment", "x.span"),
    ("else { }", "E-200", "else", "has no `if`", ""),
    ("x;", "E-200", "x", "does nothing", "assignment"),
    ("x.subspan(3).at(1);", "E-200", ".subspan", "does nothing by itself", "give it a name"),
    ("tile[0] = 3;", "E-200", "tile[0]", "only a variable or an element", ".at(i)"),
    ("wait e.span;", "E-200", "e.span", "takes events and futures", ".at(order)"),
    ("trigger e after 3;", "E-200", "3", "expected a name", ""),
    ("u32 a[4];", "E-200", "4", "no extents", "after the type"),
    ("frag f32 [4] r = 2;", "E-200", "2", "not initialised with `=`", "{value}"),
    ("shared q;", "E-200", "shared", "type", "event"),
    ("shared global f32 [3] q;", "E-200", "global", "one qualifier too many", ""),
    ("shared frag f32 [3] q;", "E-200", "shared", "no storage", "registers"),
    ("q = mma.row.row a, b, c;", "E-200", "q", "gives nothing to name", ".async"),
    ("mma.row.row.async a, b, c;", "E-200", "mma.row.row.async a, b, c", "nothing can wait", "wait qk"),
    ("q[0] = mma.fill 0.0f;", "E-200", "q[0]", "plain name", ""),
    ("a = b.at(1).step(2);", "E-200", ".step", "directly follow", ".subspan"),
    ("tma.swiz<128> a => b;", "E-200", ".swiz<128>", "say what it does", "tma.load"),
    ("f = tma.load.copy.async a => b;", "E-200", ".copy", "directly follow", ""),
    ("f = tma.load.swiz<128>.async a => b;", "E-200", ".async", "too late", "the order is"),
    # what older programs wrote
    ("f = tma.copy.async<ev> a => b;", "E-200", "<", "gone", "trigger event after load"),
    ("tma.store a => b;", "E-200", ".store", "`tma.store` is gone", "tma.copy"),
    ("f = tma.load.async swiz<128> a => b;", "E-200", "swiz", "gone", "tma.load.async.swiz<128>"),
    ("f = tma.load.async.swiz<3> a => b;", "E-804", "3", "no swizzle of 3 bytes", ".swiz<128>"),
    ("mma.wait<1>;", "E-1101", ".wait", "`mma.wait` is gone", "wait op"),
    ("mma.commit;", "E-1101", ".commit", "`mma.commit` is gone", "remove it"),
    ("a = mma.desc b;", "E-1101", ".desc", "`mma.desc` is gone", "shared tile"),
    ("mma.row.row.col acc, a, b;", "E-1101", ".col", "two layouts", "mma.row.row"),
    ("a = stage<2>(b);", "E-202", "stage<2>", "gone", "order % 2"),
    ("call croq::cuda::evict_first(a);", "E-1203", "call croq::cuda::evict_first(a)", "gone", ".evict_first"),
    # static rules that are visible in the syntax
    ("f = dma.load.async a => b;", "E-801", ".load", "`dma` has no `.load`", "dma.copy"),
    ("tma.copy.evict_first a => b;", "E-802", ".evict_first", "`tma.load` only", "tma.load"),
    ("f = tma.load.evict_first.evict_last a => b;", "E-803", ".evict_last", "one too many", "the order is"),
    ("f = tma.load.swiz<128>.evict_last a => b;", "E-803", ".evict_last", "too late", "the order is"),
    ("event e = 3;", "E-1012", "3", "only `ready`", "= ready"),
    ("event e {ready};", "E-1012", "ready", "only `ready`", "= ready"),
    ("shared mutable f32 [3] b;", "E-318", "mutable", "cannot be `mutable`", "remove"),
    ("a = 99999999999999999999;", "E-201", "99999999999999999999", "64 bits", ""),
    ("a = 9223372036854775808;", "E-201", "9223372036854775808", "64 bits", "`u`"),
    ("a = 1e99f;", "E-201", "1e99f", "f32", "inf"),
    # not taken yet
    ("dma.pad a => b;", "E-2010", ".pad", "not supported yet", ""),
    ("a = select(i, b, c);", "E-2010", "select", "not supported yet", "array"),
    ("swap(a, b);", "E-2010", "swap", "not supported yet", "order % 2"),
    ('asm volatile ("x");', "E-2010", "asm", "not supported yet", "__cpp__"),
    ("mma.row.row.sp acc, a, b;", "E-2010", ".sp", "not supported yet", ""),
    ("a = __sin(b);", "E-2010", "__sin", "not supported yet", ""),
    ("a = b #+ 1;", "E-2010", "#+", "not supported yet", ""),
    ("a = { 1, 2 };", "E-2010", "{", "not supported yet", ""),
    ("a = [1, 2];", "E-2010", "[", "not supported yet", ""),
    ("a : [1, 2];", "E-2010", ":", "not supported yet", ""),
    ("parallel.async<s> p by 3 { }", "E-2010", "<", "not supported yet", ""),
    ("shared event<3> e;", "E-2010", "<", "not supported yet", "counted"),
    ("f = tma.load.async a => b after g;", "E-2010", "after", "not supported yet", ""),
    ("[[maxnreg(40)]] parallel p by 3 { }", "E-2010", "maxnreg", "not supported yet", "launch_bounds"),
]


@pytest.mark.parametrize(("text", "code", "under", "message", "hint"), SLIPS, ids=[s[0].split("\n")[0] for s in SLIPS])
def test_a_slip_is_reported_once_where_it_is(text: str, code: str, under: str, message: str, hint: str) -> None:
    (found,) = diagnostics(f"{HEAD}{text}\n}}\n")
    assert found.code == code
    assert found.severity == "error"
    assert found.span is not None and found.span.text == under
    assert message in found.message
    assert hint in (found.hint or "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("shared f32 [3] x", "E-102"),
        ("float& x", "E-104"),
        ("global f32 [3]& x", "E-104"),
        ("f32 [3]&", "E-104"),
        ("f32 [3]& x", "E-2010"),
        ("f32 x[]", "E-106"),
        ("f32 x[3]", "E-106"),
        ("f32 [??] x", "E-108"),
        ("stream s", "E-2010"),
        ("mdspan<2> s", "E-2010"),
        ("vec4 x", "E-200"),
    ],
)
def test_wrong_parameters(text: str, code: str) -> None:
    assert [d.code for d in diagnostics(f"__co__ void f({text}) {{ }}")] == [code]


@pytest.mark.parametrize(
    "text",
    ["a = b & c + d;", "a = 1 << b | c;", "a = b | c & d;", "a = -b & c;", "a = b * c ^ d;"],
)
def test_a_mix_that_c_would_group_otherwise_is_warned_of(text: str) -> None:
    (found,) = diagnostics(f"{HEAD}{text}\n}}")
    assert (found.code, found.severity) == ("W-201", "warning")


@pytest.mark.parametrize(
    "text",
    ["a = (b & c) + d;", "a = (1 << b) | c;", "a = b & c & d;", "a = (b >> 8) & 63;", "a = b & c == d;", "a = b & -1;"],
)
def test_parentheses_silence_the_warning(text: str) -> None:
    assert diagnostics(f"{HEAD}{text}\n}}") == []


def test_each_function_has_its_own_first_error() -> None:
    found = diagnostics("__co__ void f() { a = ; }\n__co__ void g() { b = 1; }\n__co__ void h() { c = ) ; }\n")
    assert [(d.code, d.span.line if d.span else 0) for d in found] == [("E-200", 1), ("E-200", 3)]


def test_a_fault_at_the_end_of_a_macro_names_the_macro() -> None:
    (found,) = diagnostics(f"#define K 3 +\n{HEAD}a = K;\n}}")
    assert "`K`" in found.notes[0] and "t.co:1:13" in found.notes[0]


def test_a_fault_inside_a_macro_points_at_the_use_and_the_body() -> None:
    (found,) = diagnostics(f"#define K 3 + * 4\n{HEAD}a = K;\n}}")
    assert found.span is not None and (found.span.line, found.span.text) == (3, "K")
    assert found.span.expansion is not None and found.span.expansion.text == "*"
    assert "macro defined at t.co:1:15" in found.render()


def test_a_file_without_a_kernel_says_so() -> None:
    (found,) = diagnostics("int main() { return 0; }\n")
    assert found.code == "E-2005"
    (found,) = diagnostics("// __co__ void f() { }\n")
    assert found.code == "E-2005" and "comment" in found.notes[0]


def test_a_declaration_is_no_kernel() -> None:
    (found,) = diagnostics("__co__ void f(float x);\n")
    assert found.code == "E-200" and "body" in (found.hint or "")
