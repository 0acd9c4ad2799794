"""Hostile input: always a coded diagnostic, never a traceback, never a wait."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq.diagnostics import CompileError, Sink
from croq.resources import resource
from croq.syntax import codes, load_source, parse_program, source_text
from croq.syntax.dump import dump

MEGABYTE = 1 << 20


def outcome(text: str) -> list[str]:
    """The codes of what is wrong with `text`."""
    sink = Sink()
    try:
        dump(parse_program(source_text("t.co", text), {}, sink))
    except CompileError as fault:
        assert fault.diagnostics
    for diagnostic in sink.diagnostics:
        diagnostic.render()
    return [d.code for d in sink.diagnostics if d.severity == "error"]


def kernel(body: str) -> str:
    return f"__co__ void f() {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "E-2005"),
        ("\n\n", "E-2005"),
        ("\x7f\x01ELF" * 1000, "E-2005"),
        (kernel("\x01\x02\x03"), "E-200"),
        ("__co__", "E-200"),
        ("__co__ void", "E-200"),
        ("__co__ void f(", "E-200"),
        ("__co__ void f() {", "E-200"),
        (kernel("a = 1" + "+1" * codes.MAX_TOKENS + ";"), "E-2006"),
        (kernel("a = " + "1" * MEGABYTE + ";"), "E-201"),
        (kernel("a = " + "0x" + "f" * MEGABYTE + ";"), "E-201"),
        (kernel("a = " + "1" * 5000 + "e5;"), "E-201"),
        (kernel("a" * MEGABYTE + " b;"), "E-200"),
        (kernel('a = "' + "x" * MEGABYTE + ";"), "E-200"),
        (kernel('R"(' * 100_000), "E-200"),
        (kernel("(" * 10_000), "E-200"),
        (kernel("a = " + "(" * 10_000 + ";"), "E-200"),
        (kernel("a = " + "!" * 10_000 + "b;"), "E-2007"),
        (kernel("a = b" + ".sqz()" * 3_000 + ";"), "E-2007"),
        (kernel("a = " + "b + " * 3_000 + "b;"), "E-2007"),
        (kernel("a = " + "x.at(" * 3_000 + "b" + ")" * 3_000 + ";"), "E-2007"),
        (kernel("if (a) " * 3_000 + "b = 1;"), "E-2007"),
        (kernel("if (a) { " * 2_000 + "}" * 2_000), "E-2007"),
        (kernel("a = " + "b ? c : " * 3_000 + "d;"), "E-2007"),
        ("#if " + "(" * 10_000 + "1" + ")" * 10_000 + "\n#endif\n" + kernel(""), "E-210"),
        ("#if " + "!" * 10_000 + "1\n#endif\n" + kernel(""), "E-210"),
        ("#if 1\n" * 30, "E-210"),
    ],
    ids=lambda value: value if len(value) < 8 else None,
)
def test_hostile_text_gets_a_code(text: str, code: str) -> None:
    assert outcome(text)[0] == code


def test_parentheses_alone_do_not_nest() -> None:
    assert outcome(kernel("a = " + "(" * 10_000 + "1" + ")" * 10_000 + ";")) == []


def test_a_long_function_is_no_deep_one() -> None:
    assert outcome(kernel("a = b;\n" * 2000)) == []


def test_nesting_up_to_the_limit_can_be_walked() -> None:
    assert outcome(kernel("a = " + "!" * (codes.MAX_NESTING - 8) + "b;")) == []


# ------------------------------------------------------------------------------------------------------------- macros
def test_a_macro_inside_itself_stays() -> None:
    assert outcome("#define A A\n#define B C\n#define C B + 1\n" + kernel("x = A + B;")) == []


@pytest.mark.parametrize(
    "text",
    [
        "#define A0 1+1\n" + "".join(f"#define A{i} A{i - 1}+A{i - 1}\n" for i in range(1, 40)) + kernel("a = A39;"),
        "#define A0 1\n" + "".join(f"#define A{i} A{i - 1}\n" for i in range(1, 400)) + kernel("a = A399;"),
        "#define F(x) x+x\n" + kernel("a = " + "F(" * 40 + "1" + ")" * 40 + ";"),
        "#define F(x) x\n" + kernel("a = " + "F(" * 400 + "1" + ")" * 400 + ";"),
        "#define A 1\n" + kernel("a = A" + " + A" * 30_000 + ";"),
        "#define A0 1+1\n" + "".join(f"#define A{i} A{i - 1}+A{i - 1}\n" for i in range(1, 40)) + "#if A39\n#endif\n",
    ],
)
def test_macros_cannot_run_away(text: str) -> None:
    assert outcome(text)[0] == "E-2008"


# -------------------------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xfe\x00", "E-2004"),
        (b"__co__ void f() { \xc3\x28 }", "E-2003"),
        (b"a" * (codes.MAX_FILE_BYTES + 1), "E-2006"),
        (b"__co__ void f() { }\0", "E-2004"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "t.co"
    path.write_bytes(data)
    with pytest.raises(CompileError) as caught:
        load_source(str(path))
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "attention.co").write_text("")
    for path, code, hint in [
        (tmp_path / "atention.co", "E-2001", "attention.co"),
        (tmp_path, "E-2002", ""),
        (Path("a\0b"), "E-2001", ""),
        (tmp_path / "none" / "x.co", "E-2001", ""),
        (tmp_path / "attention.co" / "x.co", "E-2002", ""),
    ]:
        with pytest.raises(CompileError) as caught:
            load_source(str(path))
        (found,) = caught.value.diagnostics
        assert found.code == code and hint in (found.hint or "")


def test_byte_order_marks_and_foreign_line_ends_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "t.co"
    path.write_bytes(b"\xef\xbb\xbf__co__ void f() {\r\n  a = ;\r\n}\r\n")
    file = load_source(str(path))
    assert file.text == "__co__ void f() {\n  a = ;\n}\n"
    sink = Sink()
    parse_program(file, {}, sink)
    assert str(sink.diagnostics[0].span).endswith(":2:7")


# -------------------------------------------------------------------------------------------------------------- chance
@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("#\"'/*\\\n(){}[]<>=;,.:?& a1_")), max_size=60))
def test_any_text_is_taken_without_a_traceback(text: str) -> None:
    outcome(text)
    outcome(kernel(text))


@pytest.mark.parametrize("seed", range(12))
def test_damaged_kernels_are_taken_without_a_traceback(seed: int) -> None:
    random_ = random.Random(seed)
    tokens = re.findall(r"\s+|\w+|.", resource("kernels", "v4.co").read_text())
    for _ in range(4):
        damaged = list(tokens)
        at = random_.randrange(len(damaged))
        match random_.randrange(3):
            case 0:
                del damaged[at : at + random_.randrange(1, 4)]
            case 1:
                damaged.insert(at, random_.choice(tokens))
            case _:
                damaged[at] = random_.choice(["}", "{", "(", ")", "#", '"', "/*", "call", "mma", ".at", ";", "<"])
        outcome("".join(damaged))
