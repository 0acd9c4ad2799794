"""What is no source, no macro and no argument is refused in words, never by a fault of croq."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq
from croq.diagnostics import CompileError, CroqError

TEXT = """
__co__ void f(global f32 [N] x, global f32 [N] y, float a) {
  parallel b by cdiv(N, 32) : block, t by 32 : thread { i = b # t; if (i < N) y.at(i) = a * x.at(i); }
}
"""
COPY = """
__co__ void f(global bf16 [B, S, 64] x, global bf16 [B, S, 64] y) {
  parallel {s, b} by [cdiv(S, 64), B] : block, t by 128 : thread {
    shared bf16 [64, 64] tile;
    tma.load x.subspan(1, 64, 64).at(b, s, 0).sqz() => tile;
    tma.copy tile => y.subspan(1, 64, 64).at(b, s, 0).sqz();
  }
}
"""


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("", "E-2011"),
        (" ", "E-2011"),
        ("nope", "E-2001"),
        ("int x;", "E-2001"),
        ("x" * 300, "E-2002"),
        ("a\0b", "E-2001"),
        ("\udcff.co", "E-2001"),
        (Path("/nowhere/at/all.co"), "E-2001"),
        (Path(__file__).parent, "E-2002"),
        ("int x;\n", "E-2005"),
        ("\ud800 __co__ void f() {}", "E-2003"),
        ("__co__ void f() {}\0", "E-2004"),
        ("\n" * (5 << 20), "E-2006"),
    ],
)
def test_odd_sources_are_refused_by_a_code(source: Any, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        croq.compile(source)
    assert [d.code for d in caught.value.diagnostics] == [code]
    str(caught.value).encode()
    assert [d.code for d in croq.check(source)] == [code]


@pytest.mark.parametrize("source", [3, None, b"__co__ void f() {}", [], 1.5])
def test_what_is_neither_text_nor_path_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match="path or program text"):
        croq.compile(source)


@pytest.mark.parametrize(
    "defines", [{"": 1}, {"A B": 1}, {"1A": 1}, {"\ud800": 1}, {"defined": 1}, {"A": "x\ny"}, {"A": "\0"}]
)
def test_odd_macros_are_refused_by_a_code(defines: Any) -> None:
    with pytest.raises(CompileError) as caught:
        croq.compile(TEXT, defines)
    assert [d.code for d in caught.value.diagnostics] == ["E-2009"]
    str(caught.value).encode()


@pytest.mark.parametrize("defines", [[1], "A=1", {3: 4}, {"A": None}, {"A": [1]}])
def test_macros_of_wrong_types_are_type_errors(defines: Any) -> None:
    with pytest.raises(TypeError):
        croq.compile(TEXT, defines)


def test_a_macro_that_nothing_uses_is_noted() -> None:
    (found,) = croq.check("#ifndef TILES\n#endif\n" + TEXT, {"TILE": 3})
    assert (found.code, found.severity, found.hint) == ("W-2004", "note", "did you mean `TILES`?")
    assert croq.check(TEXT, {"N": "64 * 2"}) == []


@pytest.mark.parametrize("ending", ["\r\n", "\n", "\r"])
def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", ending).encode())
    assert croq.check(path) == []
    assert croq.compile(path).plan == croq.compile(TEXT).plan


@pytest.mark.parametrize("value", ["a", None, [1.0]])
def test_a_number_that_is_none_is_refused_with_its_type(value: Any) -> None:
    x = np.zeros(40, dtype=np.float32)
    for act in (croq.simulate, lambda kernel, *rest: kernel(*rest)):
        with pytest.raises(CroqError) as caught:
            act(croq.compile(TEXT), x, x.copy(), value)
        assert [d.code for d in caught.value.diagnostics] == ["E-4062"]


def strided(strides: tuple[int, ...], shape: tuple[int, ...] = (2, 128, 64)) -> np.ndarray[Any, Any]:
    memory = np.zeros(1 << 20, dtype=np.uint8)
    start = 4096 - memory.__array_interface__["data"][0] % 4096 + 65536
    return np.ndarray(shape, ml_dtypes.bfloat16, memory.data, start, strides)


@pytest.mark.parametrize(
    ("strides", "says"),
    [
        ((16386, 128, 2), "a stride of 16386 bytes in dimension 0 (`B`), no multiple of 16"),
        ((16384, 136, 2), "a stride of 136 bytes in dimension 1 (`S`), no multiple of 16"),
        ((0, 128, 2), "a stride of 0 bytes in dimension 0 (`B`)"),
        ((16384, -128, 2), "a stride of -128 bytes in dimension 1 (`S`)"),
        ((16384, 128, 4), "has stride 2 in its last dimension"),
    ],
)
def test_strides_are_named_by_the_dimension_of_the_declaration(strides: tuple[int, ...], says: str) -> None:
    good = strided((16384, 128, 2))
    kernel = croq.compile(COPY)
    croq.simulate(kernel, good, good.copy())
    with pytest.raises(CroqError) as caught:
        croq.simulate(kernel, strided(strides), good)
    (fault,) = caught.value.diagnostics
    assert says in fault.message and fault.hint is not None and fault.span is not None


def test_the_byte_order_of_another_machine_is_said() -> None:
    x = np.zeros(40, dtype=">f4")
    with pytest.raises(CroqError, match="byte order"):
        croq.simulate(croq.compile(TEXT), x, x, 1.0)
