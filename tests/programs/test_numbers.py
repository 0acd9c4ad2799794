"""Numbers have one meaning: in the lowered program and the PTX, both simulated, and in the language page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import croq
from croq.diagnostics import CompileError

Array = NDArray[Any]
LEVELS = pytest.mark.parametrize("level", ["ir", pytest.param("ptx", marks=pytest.mark.nvrtc)])
INTEGERS = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]


def program(parameters: str, body: str) -> str:
    return (
        f"__co__ void f({parameters}) {{\n parallel b by 1 : block, t by 32 : thread {{\n"
        f"  if (t < N) {{ {body} }}\n }}\n}}\n"
    )


def results(text: str, level: Any, *arrays: Array) -> tuple[Array, ...]:
    croq.simulate(croq.compile(text), *arrays, level=level)
    return arrays


def of_s32(body: str, level: str, *x: int) -> list[int]:
    """What `body` writes to `y` for these values of `x`."""
    values = np.array(x, np.int32)
    text = program("global s32 [N] x, global s32 [N] y", body)
    return results(text, level, values, np.zeros_like(values))[1].tolist()


def code_of(text: str) -> str:
    with pytest.raises(CompileError) as caught:
        croq.compile(text)
    return caught.value.diagnostics[0].code


@LEVELS
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize(("source", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)])
def test_floats_to_integers_saturate_at_the_target(level: str, target: str, source: str, dtype: Any) -> None:
    x = np.array([300, -3, np.nan, 2.7, -2.7, np.inf, -np.inf, 6e4, 255.9, -128.9], dtype)
    info = np.iinfo(target.replace("s", "int", 1) if target[0] == "s" else target.replace("u", "uint", 1))
    y = np.zeros(len(x), info.dtype)
    results(
        program(f"global {source} [N] x, global {target} [N] y", f"y.at(t) = __to<{target}>(x.at(t));"), level, x, y
    )
    beyond = {np.inf: info.max, -np.inf: info.min}
    wanted = [0 if np.isnan(v) else beyond[v] if np.isinf(v) else max(info.min, min(info.max, int(v))) for v in x]
    assert y.tolist() == wanted


@LEVELS
def test_signed_integers_wrap(level: str) -> None:
    assert of_s32("y.at(t) = x.at(t) * 2 / 2;", level, 2**30, 5) == [-(2**30), 5]
    assert of_s32("y.at(t) = x.at(t) + 1 > x.at(t) ? 1 : 0;", level, 2**31 - 1, 5) == [0, 1]
    assert of_s32("y.at(t) = -x.at(t);", level, -(2**31), 5) == [-(2**31), -5]
    assert of_s32("y.at(t) = x.at(t) / -1;", level, -(2**31), 5) == [-(2**31), -5]


@LEVELS
def test_amounts_beyond_the_width_are_clamped(level: str) -> None:
    parameters = "global s32 [N] x, global s32 [N] y, global u32 [N] z"
    x, y, z = np.array([0, 31, 32, 33, 2**31 - 1, -1], np.int32), np.zeros(6, np.int32), np.zeros(6, np.uint32)
    results(program(parameters, "y.at(t) = -8 >> x.at(t); z.at(t) = 3u << x.at(t);"), level, x, y, z)
    assert y.tolist() == [-8, -1, -1, -1, -1, -1]
    assert z.tolist() == [3, 2**31, 0, 0, 0, 0]


@pytest.mark.parametrize("amount", ["32", "33", "-1"])
def test_a_constant_amount_beyond_the_width_is_refused(amount: str) -> None:
    assert code_of(program("global s32 [N] x, global s32 [N] y", f"y.at(t) = x.at(t) >> {amount};")) == "E-414"


@LEVELS
def test_functions_of_f64_are_those_of_f64(level: str) -> None:
    parameters = "global f64 [N] x, global f64 [N] y, global f64 [N] z"
    x, y, z = np.array([np.nan, 0.3, -2.5]), np.zeros(3), np.zeros(3)
    results(program(parameters, "y.at(t) = __max(x.at(t), 1.0); z.at(t) = __sigmoid(x.at(t));"), level, x, y, z)
    assert y.tolist() == [1, 1, 1]
    np.testing.assert_allclose(z, 1 / (1 + np.exp(-x)), rtol=1e-15)


@LEVELS
@pytest.mark.parametrize("op", ["__max", "__min"])
@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
def test_the_number_wins_against_nan(level: str, op: str, type_: str) -> None:
    text = program(
        "global f64 [N] x, global f64 [N] y, global f64 [N] z",
        f"z.at(t) = __to<f64>({op}(__to<{type_}>(x.at(t)), __to<{type_}>(y.at(t))));",
    )
    x, y = np.array([np.nan, 2.0, np.nan, -0.0, 0.0]), np.array([1.0, np.nan, np.nan, 0.0, -0.0])
    z = results(text, level, x, y, np.zeros(5))[2]
    assert z[:2].tolist() == [1, 2] and np.isnan(z[2])
    assert np.signbit(z[3:]).tolist() == [op == "__min"] * 2


@LEVELS
def test_a_range_of_a_negative_count_is_empty(level: str) -> None:
    body = "mutable s32 s = 0; foreach {i} in [cdiv(x.at(t), 64)] { s += 1; } y.at(t) = s;"
    assert of_s32(body, level, -1, 0, 1, -64, -65) == [0, 0, 1, 0, 0]


@LEVELS
def test_division_of_negatives(level: str) -> None:
    x = (-7, 7, -8, -65, 2**31 - 1, -(2**31))
    assert of_s32("y.at(t) = x.at(t) / 2;", level, *x) == [int(v / 2) for v in x]
    assert of_s32("y.at(t) = x.at(t) % 4;", level, *x) == [v - 4 * int(v / 4) for v in x]
    assert of_s32("y.at(t) = cdiv(x.at(t), 64);", level, *x) == [-(-v // 64) for v in x]


@LEVELS
def test_trip_counts_of_64_bits_are_counted_in_64(level: str) -> None:
    body = "s64 n = 4294967298; mutable s32 s = 0; foreach {i} in [n] { s += 1; if (i == 5) { break; } } y.at(t) = s;"
    assert of_s32(body, level, 0) == [6]
    body = (
        "u64 n = 18446744073709551615u; s32 s = 0; foreach {i} in [n] { s += 1; if (i == 5) { break; } } y.at(t) = s;"
    )
    assert of_s32(body, level, 0) == [6]
    body = "u32 n = 4294967295u; s32 s = 0; foreach {i} in [n] { s += 1; if (i == 5) { break; } } y.at(t) = s;"
    assert of_s32(body, level, 0) == [6]


@LEVELS
def test_indices_of_64_bits_are_not_cut(level: str) -> None:
    body = "s64 i = 4294967296; s64 j = i + t; if (j < 4294967299) { y.at(j - 4294967296) = x.at(j - i); }"
    assert of_s32(body, level, 5, 6, 7, 8) == [5, 6, 7, 0]


@pytest.mark.parametrize("text", ["inf", "-inf", "__to<s32>(inf)", "x.at(t) > 0 ? 1 : __to<s32>(-inf)"])
def test_infinity_is_no_integer(text: str) -> None:
    assert code_of(program("global s32 [N] x, global s32 [N] y", f"y.at(t) = {text};")) == "E-413"


@LEVELS
def test_a_literal_is_rounded_before_it_is_judged(level: str) -> None:
    text = program("global f32 [N] x, global f32 [N] y", "y.at(t) = x.at(t) < 3.4028235e38f ? 1.0f : 0.0f;")
    x = np.array([np.inf, np.finfo(np.float32).max, 1], np.float32)
    assert results(text, level, x, np.zeros(3, np.float32))[1].tolist() == [0, 0, 1]
    assert of_s32("y.at(t) = x.at(t) + -2147483648;", level, 5) == [5 - 2**31]


@LEVELS
def test_words_of_element_types_make_variables(level: str) -> None:
    assert of_s32("u32 o = 0; o = 1; y.at(t) = __to<s32>(o) + x.at(t);", level, 4) == [5]


def test_the_remedy_for_an_immutable_name_says_which_words_make_variables() -> None:
    with pytest.raises(CompileError) as caught:
        croq.compile(program("global s32 [N] x, global s32 [N] y", "int o = 0; o = 1; y.at(t) = o;"))
    (found,) = caught.value.diagnostics
    assert found.hint is not None
    assert found.code == "E-310" and "mutable int o" in found.hint and "u32" in found.hint


@LEVELS
@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_wide_numbers_are_rounded_once_on_the_way_to_narrow_floats(level: str, target: str) -> None:
    """Half a step and a little: by way of f32 the little would be lost, and the tie would go to even."""
    step = {"f16": 2.0**-10, "bf16": 2.0**-7}[target]
    x = np.array([1 + step / 2 + 2.0**-40, 1 + step / 2, 1 + step / 2 - 2.0**-40])
    text = program("global f64 [N] x, global f64 [N] y", f"y.at(t) = __to<f64>(__to<{target}>(x.at(t)));")
    assert results(text, level, x, np.zeros(3))[1].tolist() == [1 + step, 1, 1]


def test_a_block_index_times_a_size_does_not_wrap() -> None:
    text = """
    __co__ void f(global s32 [N] x) {
      parallel b by N : block, t by 256 : thread { i = b # t; if (i < N) { x.at(i) = 1; } }
    }
    """
    assert "s64(b) * 256" in croq.compile(text).cuda
    fits = croq.compile(text.replace("by N", "by cdiv(N, 256)")).cuda
    assert "b * 256 + t" in fits and "s64" not in fits.split("this thread")[1]
