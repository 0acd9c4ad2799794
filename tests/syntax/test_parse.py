"""What programs become: the tree, its spans, the order of operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import pytest

from croq.diagnostics import Sink
from croq.resources import resource
from croq.syntax import ast, load_source, parse_program, source_text
from croq.syntax.dump import dump

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [*sorted(resource("kernels").glob("*.co")), *sorted((ROOT / "tests" / "cases").glob("*.co"))]
N = TypeVar("N", bound=ast.Node)


def parse(text: str) -> ast.Program:
    sink = Sink()
    program = parse_program(source_text("t.co", text), {}, sink)
    assert not sink.failed, "\n".join(d.render() for d in sink.diagnostics)
    return program


def statements(text: str) -> tuple[ast.Stmt, ...]:
    return parse(f"__co__ void f() {{ {text} }}").functions[0].body.body


def statement(text: str) -> ast.Stmt:
    (only,) = statements(text)
    return only


def expression(text: str) -> ast.Expr:
    assign = statement(f"x = {text};")
    assert isinstance(assign, ast.Assign)
    return assign.value


def walk(node: ast.Node) -> Iterator[ast.Node]:
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, ast.Node):
                yield from walk(child)


def shown(node: ast.Expr) -> str:
    """An expression with all its parentheses."""
    if isinstance(node, ast.Binary):
        return f"({shown(node.left)} {node.op} {shown(node.right)})"
    if isinstance(node, ast.Unary):
        return f"{node.op}{shown(node.operand)}"
    if isinstance(node, ast.Ternary):
        return f"({shown(node.condition)} ? {shown(node.then)} : {shown(node.otherwise)})"
    if isinstance(node, ast.IncDec):
        return node.op + shown(node.target) if node.prefix else shown(node.target) + node.op
    return node.span.text


# ---------------------------------------------------------------------------------------------------- whole programs
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_programs_parse_without_a_word(path: Path) -> None:
    sink = Sink()
    program = parse_program(load_source(str(path)), {}, sink)
    assert sink.diagnostics == []
    assert program.functions


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_every_name_lies_where_it_is_written(path: Path) -> None:
    program = parse_program(load_source(str(path)), {}, Sink())
    for node in walk(program):
        assert 0 <= node.span.start <= node.span.end <= len(node.span.file.text)
        if isinstance(node, ast.Name) and node.span.expansion is None:
            assert node.span.text.strip("() ") == node.id
        if isinstance(node, ast.IntLit) and node.span.expansion is None:
            assert int(node.span.text.strip("()uUlL "), 0) == node.value


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_children_lie_inside_their_parent(path: Path) -> None:
    program = parse_program(load_source(str(path)), {}, Sink())
    for node in walk(program):
        for field in fields(node):
            child = getattr(node, field.name)
            if isinstance(child, ast.Node):
                assert node.span.start <= child.span.start and child.span.end <= node.span.end, (node, child)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_the_dump_is_deterministic_and_shows_each_node(path: Path) -> None:
    file = load_source(str(path))
    first, second = (dump(parse_program(file, {}, Sink())) for _ in range(2))
    assert first == second
    assert first.count("\n") == sum(1 for _ in walk(parse_program(file, {}, Sink())))


def test_the_dump_reads_so() -> None:
    text = dump(parse("__co__ void f(global f32 [N] x) {\n  x.at(0) = 1.0f;\n}\n"))
    assert text.splitlines() == [
        "Program @1",
        "  items[0]: Function name='f' return_type='void' return_dims=None @1",
        "    params[0]: Param name='x' is_global=True type='f32' @1",
        "      dims[0]: Dim @1",
        "        value: Name id='N' @1",
        "    body: Block @1",
        "      body[0]: Assign op='=' @2",
        "        target: At @2",
        "          base: Name id='x' @2",
        "          indices[0]: IntLit value=0 type='s32' @2",
        "        value: FloatLit value=1.0 type='f32' @2",
        "  items[1]: HostText text='\\n' @3",
    ]


def test_tuning_macros_reach_the_tree() -> None:
    file = load_source(str(resource("kernels", "v4.co")))
    program = parse_program(file, {"K_STAGES": "3"}, Sink())
    (decl,) = [n for n in walk(program) if isinstance(n, ast.BufferDecl) and n.name == "k_buf"]
    assert isinstance(decl.array[0], ast.IntLit) and decl.array[0].value == 3


# -------------------------------------------------------------------------------------------------------- expressions
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a & b + c", "((a & b) + c)"),
        ("a << b | c", "(a << (b | c))"),
        ("a | b & c", "((a | b) & c)"),
        ("a # b # c * d", "(((a # b) # c) * d)"),
        ("-a * b", "(-a * b)"),
        ("-a & b", "-(a & b)"),
        ("a & -1", "(a & -1)"),
        ("!a && b || c", "((!a && b) || c)"),
        ("a < b == c > d", "((a < b) == (c > d))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("~a & #b", "(~a & #b)"),
        ("a - -b", "(a - -b)"),
        ("- - a", "--a"),
        ("a++ + ++b", "(a++ + ++b)"),
        ("1.0f / x.at(i) - y", "((1.0f / x.at(i)) - y)"),
        ("a % b / c", "((a % b) / c)"),
    ],
)
def test_precedence(text: str, expected: str) -> None:
    assert shown(expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "value", "type"),
    [
        ("0", 0, "s32"),
        ("0x1F", 31, "s32"),
        ("2147483647", 2147483647, "s32"),
        ("2147483648", 2147483648, "s64"),
        ("4294967295u", 4294967295, "u32"),
        ("4294967296U", 4294967296, "u64"),
        ("1ll", 1, "s64"),
        ("1ULL", 1, "u64"),
        ("18446744073709551615u", 18446744073709551615, "u64"),
    ],
)
def test_integer_literals(text: str, value: int, type: str) -> None:
    literal = expression(text)
    assert isinstance(literal, ast.IntLit) and (literal.value, literal.type) == (value, type)


@pytest.mark.parametrize(
    ("text", "value", "type"),
    [
        ("1.5", 1.5, "f64"),
        ("1.5f", 1.5, "f32"),
        ("1.f", 1.0, "f32"),
        ("0.1f", float.fromhex("0x1.99999ap-4"), "f32"),
        ("2.5e3", 2500.0, "f64"),
        ("3.4028235e38f", float.fromhex("0x1.fffffep127"), "f32"),
        ("1e-60f", 0.0, "f32"),
    ],
)
def test_float_literals(text: str, value: float, type: str) -> None:
    literal = expression(text)
    assert isinstance(literal, ast.FloatLit) and (literal.value, literal.type) == (value, type)


def test_views_keep_their_parts() -> None:
    view = expression("q.subspan(1, S, _, D).step(1, 8, 1, D).at(b, 0, h, 0).sqz()")
    assert isinstance(view, ast.Squeeze) and isinstance(view.base, ast.Subspan)
    assert view.base.at is not None and view.base.step is not None
    assert [type(e) for e in view.base.extents] == [ast.IntLit, ast.Name, ast.Wildcard, ast.Name]
    element = expression("q.subspan(4).at(1).at(2)")
    assert isinstance(element, ast.At) and isinstance(element.base, ast.Subspan)


def test_brackets_of_one_array_are_one_subscript() -> None:
    subscript = expression("a[i][j + 1]")
    assert isinstance(subscript, ast.Subscript) and len(subscript.indices) == 2


def test_other_expressions() -> None:
    assert isinstance(expression("|f32|"), ast.SizeOf)
    assert isinstance(expression("|x.span|"), ast.CountOf)
    span = expression("x.span(1)")
    assert isinstance(span, ast.SpanOf) and isinstance(span.axis, ast.IntLit)
    assert isinstance(expression("f.data"), ast.DataOf)
    cast = expression("__to<float>(x)")
    assert isinstance(cast, ast.Cast) and cast.type == "f32"
    builtin = expression("__fmaf(a, b, c)")
    assert isinstance(builtin, ast.Builtin) and len(builtin.args) == 3
    call = expression("call a::b<64, bf16>(x, 1)")
    assert isinstance(call, ast.DeviceCall) and call.name == "a::b"
    assert len(call.template_args) == 2 and len(call.args) == 2


@pytest.mark.parametrize("word", ["ready", "schedule", "k_tiles", "launch_bounds", "maxnreg", "step", "free", "order"])
def test_contextual_words_stay_names(word: str) -> None:
    declared, used = statements(f"mutable u32 {word} = 0; x = {word} + 1;")
    assert isinstance(declared, ast.ScalarDecl) and declared.name == word
    assert isinstance(used, ast.Assign)


# --------------------------------------------------------------------------------------------------------- statements
def test_element_type_words_declare_variables_and_int_does_not() -> None:
    a, b, c, d, e = statements("u32 a = 0; int b = 1, c = 2; mutable int d = 3; mutable e = 4;")
    made = [(s.name, s.type, s.mutable) for s in (a, b, c, d, e) if isinstance(s, ast.ScalarDecl)]
    assert made == [
        ("a", "u32", True),
        ("b", "s32", False),
        ("c", "s32", False),
        ("d", "s32", True),
        ("e", None, True),
    ]


def test_declarations() -> None:
    first, second, frag, full, empty = statements(
        "shared bfp16 [128, 64] a[2], b; frag half [64] r {-inf}; shared event full; shared event empty[3] = ready;"
    )
    assert isinstance(first, ast.BufferDecl) and (first.element, first.storage) == ("bf16", "shared")
    assert len(first.array) == 1 and first.name_span.text == "a"
    assert isinstance(second, ast.BufferDecl) and second.array == ()
    assert isinstance(frag, ast.FragDecl) and frag.element == "f16" and isinstance(frag.init, ast.Unary)
    assert isinstance(full, ast.EventDecl) and not full.ready
    assert isinstance(empty, ast.EventDecl) and empty.ready and len(empty.array) == 1


def test_moves() -> None:
    load = statement("f = tma.load.async.evict_first.swiz<64> q.subspan(8, 8).at(i, 0) => tile[slot];")
    assert isinstance(load, ast.Move)
    assert (load.name, load.engine, load.op, load.is_async) == ("f", "tma", "load", True)
    assert (load.evict, load.swizzle) == ("evict_first", 64)
    copy = statement("s = dma.copy.swiz q => shared;")
    assert isinstance(copy, ast.Move) and (copy.dest, copy.swizzle, copy.evict) == ("shared", 128, None)
    store = statement("tma.copy tile => out.subspan(8, 8).at(i, 0);")
    assert isinstance(store, ast.Move) and store.name is None and isinstance(store.dest, ast.Subspan)


def test_mma_forms() -> None:
    fill, refill, load, plain, late, store = statements(
        "acc = mma.fill.f32 0.0f; mma.fill acc, 1.0f; a = mma.load.swiz<128> s.chunkat(_, k);"
        "mma.row.col acc, a, b; op = mma.row.row.async acc, a, b[1]; mma.store acc, o.subspan(64, 64).at(0, 0);"
    )
    assert isinstance(fill, ast.MmaFill) and (fill.name, fill.element, fill.refill) == ("acc", "f32", False)
    assert isinstance(refill, ast.MmaFill) and refill.refill
    assert isinstance(load, ast.MmaLoad) and load.swizzle == 128
    assert isinstance(plain, ast.Mma) and (plain.name, plain.a_layout, plain.b_layout) == (None, "row", "col")
    assert isinstance(late, ast.Mma) and late.is_async and late.name == "op"
    assert isinstance(store, ast.MmaStore)


def test_fragment_operations_and_events() -> None:
    copy, reduce, whole, wait, trigger, publish = statements(
        "copy(a, b); reduce_sum(a, b, 1); all_reduce_sum(a); wait e.at(n), f; trigger e.at(n++), g[1];"
        "trigger e after f1, f2;"
    )
    assert isinstance(copy, ast.FragCopy)
    assert isinstance(reduce, ast.FragReduce) and reduce.kind == "sum"
    assert isinstance(whole, ast.FragAllReduce)
    assert isinstance(wait, ast.Wait) and [type(r) for r in wait.refs] == [ast.At, ast.Name]
    assert isinstance(trigger, ast.Trigger) and trigger.after == ()
    order = trigger.events[0]
    assert isinstance(order, ast.At) and isinstance(order.indices[0], ast.IncDec)
    assert isinstance(publish, ast.Trigger) and [n.id for n in publish.after] == ["f1", "f2"]


def test_parallel_forms() -> None:
    grid = statement("[[launch_bounds(_, 1)]] parallel.async {a, b} by [x, cdiv(y, 2)] : block { }")
    assert isinstance(grid, ast.Parallel) and grid.is_async
    assert [a.name for a in grid.attributes] == ["launch_bounds"]
    assert [n.id for n in grid.bindings[0].names] == ["a", "b"] and grid.bindings[0].level == "block"
    comma = statement("parallel p by [3] : group-4, t by 128 : thread { }")
    assert isinstance(comma, ast.Parallel) and [b.level for b in comma.bindings] == ["group-4", "thread"]
    bare = statement("parallel by 128 x = 1;")
    assert isinstance(bare, ast.Parallel) and bare.bindings[0].names == () and bare.bindings[0].level is None
    named = statement("parallel t = {a, b} by [2, 3] : group { }")
    assert isinstance(named, ast.Parallel) and named.bindings[0].tuple_name == "t"


def test_loop_forms() -> None:
    for text, names in [
        ("foreach {i} in [n] { }", [("i",)]),
        ("foreach i in n { }", [("i",)]),
        ("foreach i in n - 1 x = i;", [("i",)]),
        ("foreach {i, j} in [m, n] { }", [("i", "j")]),
        ("foreach t = {i, j} in [m, n] { }", [("i", "j")]),
        ("foreach i in m, j in n { }", [("i",), ("j",)]),
        ("foreach i, j { }", [("i",), ("j",)]),
    ]:
        loop = statement(text)
        assert isinstance(loop, ast.Foreach)
        assert [tuple(n.id for n in w.names) for w in loop.iterators] == names, text
    assert isinstance(statement("with {i} in [n] { foreach i { } }"), ast.With)
    assert isinstance(statement("while (a < b) { break; continue; }"), ast.While)


def test_an_else_belongs_to_the_nearest_if() -> None:
    outer = statement("if (a) if (b) x = 1; else x = 2;")
    assert isinstance(outer, ast.If) and outer.otherwise is None
    inner = outer.then.body[0]
    assert isinstance(inner, ast.If) and inner.otherwise is not None
    through = statement("if (a) foreach i in [3] if (b) x = 1; else x = 2;")
    assert isinstance(through, ast.If) and through.otherwise is None


def test_other_statements() -> None:
    kinds = [
        type(s) for s in statements("n++; --n; call f(x); return; sync.shared; sync.barrier : block; ; a = 1, b = 2;")
    ]
    assert kinds == [ast.ExprStmt] * 3 + [ast.Return, ast.Sync, ast.Sync, ast.Assign, ast.Assign]
    raw = statement('__cpp__(R"(asm("x");)" "\\n");')
    assert isinstance(raw, ast.CppText) and raw.text == 'asm("x");\n'
    apply = statement("apply {i, j} in acc.span { if (j > i) acc.at(i, j) = -inf; }")
    assert isinstance(apply, ast.Apply) and [n.id for n in apply.iterators] == ["i", "j"]
    inside = statement("inthreads.async (p == 0 && t < 64) { }")
    assert isinstance(inside, ast.InThreads) and inside.is_async


def test_parameters() -> None:
    function = parse(
        "__co__ f32 [M, 4] f(global bf16 [B, M, 2 * 4, ?] q, float s, f32 [M], bool) { return q; }"
    ).functions[0]
    q, s, unnamed, flag = function.params
    assert q.is_global and q.dims is not None and q.dims[3].value is None
    assert (s.type, s.dims, s.name) == ("f32", None, "s")
    assert unnamed.name is None and unnamed.dims is not None and not unnamed.is_global
    assert (flag.type, flag.name) == ("bool", None)
    assert function.return_type == "f32" and function.return_dims is not None and len(function.return_dims) == 2
