"""The C++ around the kernels: what of it reaches the emitted file, and what a `call` may name."""

from __future__ import annotations

import pytest

import croq
from croq.diagnostics import CompileError

KERNEL = """
__co__ void k(global s32 [N] x, global s32 [N] y) {
  parallel b by 1 : block, t by 32 : thread { if (t < N) y.at(t) = call CALLED(x.at(t)); }
}
"""
HOST = """
#include <cstdio>
#include <vector>
#define HOST_ONLY printf
std::vector<int> table;
static int helper(std::vector<int>& v) { return v.size(); }
struct Config { std::vector<int> sizes; };
template <typename T> using Vector = std::vector<T>;
int main() { HOST_ONLY("x"); }
"""


def device(outside: str, called: str = "f", defines: dict[str, object] | None = None) -> str:
    """The device code of the emitted file, which NVRTC must take."""
    made = croq.compile(outside + KERNEL.replace("CALLED", called), defines)
    assert made.cubin[:4] == b"\x7fELF"
    return "\n".join(made.devices[0].device_text)


def codes(outside: str, called: str) -> list[str]:
    return [d.code for d in croq.check(outside + KERNEL.replace("CALLED", called)) if d.severity == "error"]


def test_host_code_stays_with_the_host() -> None:
    text = device(HOST + "template <typename T> __device__ T f(T v) { return v; }")
    assert text == "template <typename T> __device__ T f(T v) { return v; }"


@pytest.mark.parametrize(
    "needed",
    [
        "#define C 3",
        "constexpr int C = 3;",
        "static const int C = 3;",
        "enum { A = 1, C = 3 };",
        "__constant__ int C = 3;",
        "constexpr int two() { return 2; }\nconstexpr int C = two() + 1;",
        "#define B 2\n#define C (B + 1)",
        "struct S { static constexpr int value = 3; };\nconstexpr int C = S::value;",
        "template <int N> struct S { enum { value = N }; };\nusing Three = S<3>;\nconstexpr int C = Three::value;",
        "typedef int number;\nconstexpr number C = 3;",
        "namespace a { namespace b { constexpr int D = 3; } }\nconstexpr int C = a::b::D;",
        "namespace a::b { constexpr int D = 3; }\nusing namespace a::b;\n#define C D",
    ],
)
def test_what_device_code_names_is_emitted_with_it(needed: str) -> None:
    text = device(f"{HOST}{needed}\n__device__ int f(int v) {{ return v + C; }}\n")
    for line in needed.splitlines():
        assert line.split("{")[0].removeprefix("namespace").strip() in text.replace("__host__ __device__ ", "")
    assert "Config" not in text and "vector" not in text


def test_macros_of_the_command_line_reach_device_code() -> None:
    assert "#define C 3" in device("__device__ int f(int v) { return v + C; }", defines={"C": 3})


@pytest.mark.parametrize(
    ("outside", "called"),
    [
        ("namespace n { __device__ int f(int v) { return v; } }", "n::f"),
        ("namespace n { namespace m { __device__ int f(int v) { return v; } } }", "n::m::f"),
        ("namespace n { __device__ int f(int v) { return v; } }\nusing namespace n;", "f"),
        (
            "namespace n { template <int A> __device__ int f(int v) { return v + A; } constexpr int C = 2; }",
            "n::f<n::C>",
        ),
        ("struct S { static __device__ int f(int v) { return v; } };", "S::f"),
        ('extern "C" { __device__ int f(int v) { return v; } }', "f"),
        ("", "__popc"),
        ("", "abs"),
        ("", "croq::abs"),
        ("#define G(v) ((v) + 1)\n__device__ int f(int v) { return G(v); }", "f"),
    ],
)
def test_calls_find_what_is_declared(outside: str, called: str) -> None:
    typed = KERNEL.replace("if (t < N) y.at(t) = call CALLED(x.at(t));", "int r = call CALLED(t); y.at(t) = r;")
    made = croq.compile(f"{outside}\n{typed.replace('CALLED', called)}")
    assert made.cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("outside", "called"),
    [
        ("", "nowhere"),
        ("__device__ int f(int v) { return v; }", "g"),
        ("int main() { g(); }", "g"),
        ("namespace n { __device__ int f(int v) { return v; } }", "n::g"),
        ("", "std::min"),
        ("", "croq::nothing"),
        ('#include "f.h"', "f"),
    ],
)
def test_calls_of_what_nothing_declares_are_refused(outside: str, called: str) -> None:
    assert codes(outside + "\n", called) == ["E-1208"]


def test_a_near_name_is_offered() -> None:
    (fault,) = croq.check("__device__ int twice(int v) { return 2 * v; }" + KERNEL.replace("CALLED", "twise"))
    assert fault.hint == "did you mean `twice`?"


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ('#include "helper.h"', True),
        ("#include <mine/helper.cuh>", True),
        ("#include <cuda_fp16.h>", True),
        ("#include <cstdio>", False),
        ("#include <stdio.h>", False),
        ("#include <vector>", False),
        ("#include <cuda_runtime.h>", False),
        ('#if 0\n#include "helper.h"\n#endif', False),
    ],
)
def test_headers_that_may_hold_device_code_are_named(line: str, warned: bool) -> None:
    found = croq.check(f"{line}\n{KERNEL.replace('CALLED', 'abs')}")
    assert [d.code for d in found if d.code == "W-2003"] == ["W-2003"] * warned


def test_faults_of_device_text_have_a_place() -> None:
    text = "namespace n { constexpr int C = 3; __device__ int f(int v) { return v + missing; } }"
    with pytest.raises(CompileError) as caught:
        _ = croq.compile(text + KERNEL.replace("CALLED", "n::f")).cubin
    assert [d.span.line for d in caught.value.diagnostics if d.span is not None] == [1]
