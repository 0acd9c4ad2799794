"""The text of PTX: scopes, places, operands, data, and what is beyond it."""

from __future__ import annotations

import pytest

from croq.ptx.faults import PtxFault
from croq.ptx.parse import parse
from croq.ptx.syntax import Imm, Mem, Pair, Reg, Sink, Sym, Vec
from tests.ptx.ptx_running import HEAD, program


def body(text: str):
    return parse(program(text, 1)).functions["k"]


def test_operands():
    made = body("shfl.sync.bfly.b32 %r2|%p1, %r1, 16, 31, -1; st.global.v2.f32 [%rd1+8], {%f1, %f2};").body
    shuffle, store = made[2:]
    assert shuffle.operands[0] == Pair(Reg("%r2", "b32"), Reg("%p1", "pred"))
    assert shuffle.operands[4] == Imm(-1)
    assert store.operands == (Mem(Reg("%rd1", "b64"), 8), Vec((Reg("%f1", "f32"), Reg("%f2", "f32"))))


def test_a_tensor_operand_has_coordinates():
    made = body("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];").body[-1]
    assert made.operands[0] == Mem(Reg("%rd1", "b64"), 0, (Reg("%r1", "b32"), Reg("%r2", "b32")))
    assert made.modifiers[:2] == ("async", "bulk")


def test_guards_and_sinks():
    made = body("@!%p1 mov.u32 %r2, 0x10U; mbarrier.arrive.shared::cta.b64 _, [%r2];").body[2:]
    assert (made[0].guard, made[0].negated) == (Reg("%p1", "pred"), True)
    assert made[0].operands[1] == Imm(16)
    assert made[1].operands[0] == Sink()


def test_registers_and_labels_of_braces_are_local():
    text = "{ .reg .pred p; AGAIN: setp.eq.u32 p, %r1, 0; @p bra DONE; bra AGAIN; DONE: }"
    made = body(f"{text}\n{text}\nret;")
    predicates = {i.guard.name for i in made.body if i.guard is not None}
    assert len(predicates) == 2
    jumps = [i.operands[0] for i in made.body if i.name == "bra"]
    assert all(isinstance(t, Sym) and t.name in made.labels for t in jumps)
    assert len(set(jumps)) == 4


def test_an_inner_block_may_jump_out():
    made = body("{ bra OUT; }\nOUT:\nret;")
    assert made.labels["OUT"] == len(made.body) - 1


def test_places_are_the_lines_of_the_source():
    text = (
        ".loc 2 57 3\nmov.u32 %r2, 1;\n.loc 2 60 3\n.loc 1 9 1, function_name $L__info_string0, inlined_at 2 60 3\n"
        "mov.u32 %r3, 1;\n.loc 1 10 1\nmov.u32 %r4, 1;\n"
    )
    files = '\n.file 1 "/some/croq.cuh"\n.file 2 "/some/v4.co"\n'
    made = parse(program(text, 1) + files).functions["k"].body[2:]
    assert [(i.place.file, i.place.source_line) for i in made] == [
        ("/some/v4.co", 57),
        ("/some/v4.co", 60),
        ("/some/v4.co", 60),
    ]


def test_data_and_functions():
    text = f"""{HEAD}
    .global .align 4 .u32 n = 5;
    .const .align 4 .b8 t[8] = {{1, 2, 3}};
    .global .align 8 .u64 p[2] = {{generic(n), 7}};
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
    .func (.param .b32 r) f(.param .align 4 .b8 x[12]) {{ ret; }}
    """
    made = parse(text)
    assert made.variables["n"].data == b"\5\0\0\0"
    assert made.variables["t"].data == b"\1\2\3\0\0\0\0\0"
    assert made.variables["p"].pointers == ((0, "n", 0),)
    assert not made.functions["vprintf"].defined
    assert made.functions["f"].params[0].size == 12


def test_debug_sections_are_skipped():
    assert list(parse(HEAD + ".section .debug_str\n{\n$L__a:\n.b8 1,2\n}\n").functions) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mov.u32 %r2 %r1;", 16),
        ("mov.u32 %r2, ^;", 16),
        ("@%q bra X;", 16),
        (".wrong 3;", 16),
        ("{ mov.u32 %r1, 1;", 18),
    ],
)
def test_what_is_no_ptx_is_named_with_its_line(text: str, line: int):
    with pytest.raises(PtxFault) as caught:
        body(text)
    assert caught.value.code == "E-7001"
    assert f"line {line} of the PTX" in str(caught.value)
