"""What the verifier does not know decides nothing: operations, C++ text, and its own failures."""

from __future__ import annotations

import pytest

from croq.ir.core import REGISTRY, Op, operation
from croq.ir.parser import parse_kernel
from croq.verify import Verdict, check, hw, tile, verify_protocol
from croq.verify.device_text import DeviceText
from tests.verify.helpers import kernels


def outcome(found: Verdict) -> str:
    return found.found[0].code if found.outcome == "fault" else found.outcome


# ----------------------------------------------------------------------------------------------------------- operations
@pytest.mark.parametrize("level", [hw.LEVEL, tile.LEVEL], ids=lambda level: level.name)
def test_operation_without_a_rule_is_not_decided_and_named(level: object) -> None:
    @operation("test.invented")
    class Invented(Op):
        pass

    try:
        kernel = parse_kernel('kernel k file="k.co", grid=(1, 1, 1), threads=32, shared_bytes=0 {\n}\n')
        kernel.body.ops.append(Invented())
        found = verify_protocol(kernel, level=level.name)  # type: ignore[attr-defined]
    finally:
        del REGISTRY["test.invented"]
    assert found.outcome == "undecided"
    assert "no rule for the operation `test.invented`" in found.reason


def test_failure_of_the_verifier_is_not_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise IndexError("nobody expected this")

    kernel = parse_kernel('kernel k file="k.co", grid=(1, 1, 1), threads=32, shared_bytes=0 {\n}\n')
    assert verify_protocol(kernel).proved
    monkeypatch.setattr(check, "overlapping", fail)
    found = verify_protocol(kernel)
    assert found.outcome == "undecided" and isinstance(found.bug, IndexError)
    assert "a bug of croq" in found.diagnostics()[0].message


# ------------------------------------------------------------------------------------------------------------- C++ text
NATURES = {
    "__device__ float f(float x) { return fmaxf(x, 0.0f) * __expf(-x); }": "plain",
    "template <int N> __device__ void f(float* v) { for (int i = 0; i < N; ++i) v[i] = v[i] < 0 ? 0 : v[i]; }": "plain",
    "__device__ __launch_bounds__(128) int f(int a) { int b(a); return (int)(b + int(2.5f)) & (a); }": "plain",
    "__device__ int g(int a) { return a + 1; } __device__ int f(int a) { return g(a) * g(2); }": "plain",
    "__device__ int f(int a) { return a > 0 ? f(a - 1) : 0; }": "plain",
    '__device__ void f() { const char* s = "__syncthreads();"; /* asm */ }  // __syncthreads()': "plain",
    "__device__ float f(float x) { return x + __shfl_xor_sync(0xffffffffu, x, 1); }": "warp",
    "__device__ void f() { __syncwarp(); }": "warp",
    "__device__ void f() { __syncthreads(); }": "block",
    "__device__ int f(int x) { return __syncthreads_count(x); }": "block",
    "__device__ void g() { __syncthreads(); } template <int N> __device__ void f() { if (N) g(); }": "block",
    "template <int N> __device__ void g() { __syncthreads(); } __device__ void f() { g<4 * 2>(); }": "block",
    "#define WAIT __syncthreads()\n__device__ void f() { WAIT; }": "block",
    "__device__ void g(int x = __syncthreads_or(1)) { } __device__ void f() { g(); }": "block",
    "__device__ void g() { __syncthreads(); } __device__ void f() { void (*h)() = g; h(); }": "opaque",
    '__device__ void f() { asm volatile("bar.sync 0;"); }': "opaque",
    "__device__ void f() { __shared__ float s[32]; s[0] = 1; }": "opaque",
    "__device__ void f(int* p) { while (*(volatile int*)p) { } }": "opaque",
    "__device__ void f(int* p) { atomicAdd(p, 1); }": "opaque",
    "__device__ void f() { cooperative_groups::this_thread_block().sync(); }": "opaque",
    "__device__ void f() { auto g = [] { }; g(); }": "opaque",
    "__device__ int g(int);": "opaque",
    "namespace n { __device__ int g(int a) { return a; } namespace m { __device__ int h(int a) { return n::g(a); } } } "
    "__device__ int f(int a) { return n::m::h(a) + m::h(a); }": "plain",
    "namespace n { __device__ void g() { __syncthreads(); } } __device__ void f() { n::g(); }": "block",
    "namespace n { constexpr int C = 3; __device__ void f() { } }": "plain",
    "struct S { int a; __device__ S(int b) { a = b + 1; } }; __device__ int f(int a) { S s(a); return s.a; }": "opaque",
    "struct S { int a; __device__ S operator+(S b) { return b; } }; __device__ S f(S a) { return a + a; }": "plain",
    "struct S { __device__ S operator+(S b) { __syncthreads(); } }; __device__ S f(S a) { return a + a; }": "block",
    "struct S { int a = 1; __device__ ~S() { __syncthreads(); } }; __device__ void f() { S s; }": "block",
    "__device__ int table[2] = {1, 2}; __device__ int f(int a) { return table[a]; }": "plain",
    "enum E { one }; __device__ int f(E e) { return e == one ? int(e) : E(2); }": "plain",
}


@pytest.mark.parametrize("text", NATURES)
def test_device_function_is_what_its_text_shows(text: str) -> None:
    assert DeviceText((text,)).nature("f").kind == NATURES[text]


def test_functions_of_namespaces_are_known_by_their_last_name() -> None:
    text = DeviceText(
        (
            "namespace a {\n__device__ int f(int x) { return x; }\n}",
            'extern "C" {\n__device__ void stop() { __syncthreads(); }\n}',
            "namespace a { namespace b {\n__device__ int g(int x) { return a::f(x); }\n} }",
            "namespace a::b {\n__device__ void h() { ::stop(); }\n}",
        )
    )
    assert [text.nature(name).kind for name in ("a::f", "a::b::g", "a::b::h", "a::missing")] == [
        "plain",
        "plain",
        "block",
        "opaque",
    ]


CALLING = """
{text}
__co__ void k(global f32 [N] x) {{
  parallel b by 1 : block, t by 64 : thread {{ {before} call f(); x.at(t) = 1.0f; }}
}}
"""
BARRIER = "__device__ void g() { __syncthreads(); }\n__device__ void f() { g(); }"
VOTE = "__device__ void f() { __ballot_sync(0xffffffffu, 1); }"


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        (BARRIER, "", "undecided"),
        (BARRIER, "if (t < 32)", "undecided"),
        (BARRIER, "if (t < 16)", "E-6011"),
        (BARRIER, "if (N == 123456)", "undecided"),
        (VOTE, "", "proved"),
        (VOTE, "if (t < 32)", "proved"),
        (VOTE, "if (t < 16)", "undecided"),
        ("__device__ void f() { int x = 1; x += 2; }", "if (t < 16)", "proved"),
        ('__device__ void f() { asm(""); }', "", "undecided"),
    ],
)
def test_call_of_device_text_is_accepted_only_if_it_orders_nothing(
    text: str, before: str, expected: str, level: str
) -> None:
    source = CALLING.format(text=text, before=before)
    (kernel,) = kernels(source, after="participants" if level == "tile" else None)
    found = verify_protocol(kernel, level=level)  # type: ignore[arg-type]
    assert outcome(found) == expected, found
    if expected == "undecided":
        assert "`f`" in found.reason and found.span is not None


def test_call_inside_a_map_is_looked_at_too() -> None:
    source = """
{text}
__co__ void k(global f32 [N] x) {{
  parallel b by 1 : block, p by 1 : group-4, t by 128 : thread {{
    frag f32 [64] v {{1.0f}};
    apply {{i}} in v.span v.at(i) = call f(v.at(i));
  }}
}}
"""
    plain = "__device__ float f(float x) {{ return x + {}; }}"
    for text, expected in ((plain.format("1.0f"), "proved"), (plain.format("__shfl_sync(~0u, x, 0)"), "undecided")):
        (kernel,) = kernels(source.format(text=text))
        assert outcome(verify_protocol(kernel)) == expected


def test_control_by_what_the_kernel_writes_itself_is_not_decided() -> None:
    source = """
__co__ void k(global s32 [N] x) {
  parallel b by 1 : block, t by 64 : thread { x.at(0) = 1; if (x.at(1) > 0) { sync.shared; } }
}
"""
    found = verify_protocol(kernels(source)[0])
    assert outcome(found) == "undecided" and "data that is not followed" in found.reason


# ------------------------------------------------------------------------------------- collectives inside of a function
SHUFFLE = "__shfl_xor_sync(~0u, v, 1)"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"if (v > 0) v = {SHUFFLE}; return v;", "if"),
        (f"if (v > 0) {{ int q = 1; v = {SHUFFLE} + q; }} return v;", "if"),
        (f"if (v > 0) {{ return 0; }} return {SHUFFLE};", "return"),
        (f"return v ? 0 : {SHUFFLE};", "?"),
        (f"return v && {SHUFFLE};", "&&"),
        (f"while (v > 0) v = {SHUFFLE}; return v;", "while"),
        (f"do {{ v = {SHUFFLE}; }} while (v > 0); return v;", "do"),
        (f"while ({SHUFFLE} > 0) v--; return v;", "while"),
        (f"for (int i = 0; i < v; ++i) {{ v += {SHUFFLE}; }} return v;", "for"),
        (f"for (int i = 1; i < 4; ++i) {{ if (v == i) break; v = {SHUFFLE}; }} return v;", "break"),
        (f"switch (v) {{ case 1: v = {SHUFFLE}; }} return v;", "case"),
        (f"if (v > 0) v = 1; else v = {SHUFFLE}; return v;", "else"),
    ],
)
def test_shuffle_that_a_function_reaches_for_some_threads_is_not_decided(body: str, why: str) -> None:
    inner = DeviceText((f"__device__ int f(int v) {{ {body} }}",)).nature("f")
    assert inner.kind == "opaque"
    assert f"`{why}`" in inner.why
    chain = "__device__ int g(int v) { return " + SHUFFLE + "; }\n"
    outer = DeviceText((chain + f"__device__ int f(int v) {{ {body.replace(SHUFFLE, 'g(v)')} }}",)).nature("f")
    assert outer.kind == "opaque"


@pytest.mark.parametrize("macro", ["GUARD(c) if (c)", "GUARD(c) if (!(c)) return 0;", "GUARD(c) (c) &&"])
def test_a_macro_that_may_decide_is_a_condition(macro: str) -> None:
    text = f"#define {macro}\n__device__ int f(int v) {{ GUARD(v > 0) v = {SHUFFLE}; return v; }}"
    assert DeviceText((text,)).nature("f").kind == "opaque"


@pytest.mark.parametrize(
    "text",
    [
        f"#define STEP 4\n__device__ int f(int v) {{ v += STEP; return {SHUFFLE}; }}",
        f"__device__ int f(int v) {{ return {SHUFFLE}; }}",
        "__device__ int f(int v) { for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }",
        "template <int N> __device__ void f(int* v) { for (int i = 0; i < N; ++i) *v += __shfl_xor_sync(~0u, 1, 2); }",
        f"__device__ int g(int a) {{ if (a) return 1; return 2; }} int int f(int v) {{ return {SHUFFLE} + g(v); }}",
        f"__device__ int f(int v) {{ int q = v > 0 ? 1 : 2; if (v) q = 3; else {{ q = 4; }} return {SHUFFLE} + q; }}",
        f"template <bool B> __device__ int f(int v) {{ if constexpr (B) return {SHUFFLE}; return 0; }}",
        f"__device__ int f(int v) {{ v = {SHUFFLE}; if (v > 3) return 1; return v; }}",
    ],
)
def test_shuffle_that_all_threads_of_a_function_reach_takes_the_warp(text: str) -> None:
    assert DeviceText((text,)).nature("f").kind == "warp"
