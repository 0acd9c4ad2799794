"""The verifier: what each broken invariant says."""

from __future__ import annotations

import pytest

from croq.diagnostics import InternalError
from croq.ir.parser import parse_kernel
from croq.ir.verify import verify

HEAD = """kernel k file=k.co, grid=(1, 1, 1), threads=128 {
  param @x type=f32, shape=(N)
  buffer @s type=bf16, shape=(64, 64), offset=0
  buffer @loose type=bf16, shape=(64, 64)
  fragment @acc type=f32, shape=(64, 64), layout=accumulator(m=64, n=64)
  fragment @bare type=f32, shape=(64, 64)
  event @e
  variable @v type=s32
"""
GOOD = """
  %n: s32 = const 4
  var.declare @v, %n
  frag.declare @acc
  for %i: s32, %n {
    %0: s32 = var.get @v
    %more: bool = binary lt, %0, %i
    if %more then {
      break
    }
    while %go head {
      %go: bool = binary lt, %0, %i
    } body {
      var.set @v, %i
      continue
    }
  }
}
"""


def faults(body: str, stage: str = "tile", head: str = HEAD) -> list[str]:
    try:
        verify(parse_kernel(head + body + "\n}"), stage)  # type: ignore[arg-type]
    except InternalError as error:
        assert error.exit_status == 70
        assert all(d.code == "E-9001" and "fault of croq" in (d.hint or "") for d in error.diagnostics)
        return [d.message.removeprefix("internal check failed: ") for d in error.diagnostics]
    return []


def test_a_good_kernel_passes() -> None:
    verify(parse_kernel(HEAD + GOOD), "tile")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%c: bool = const true\n if %c then {\n %a: s32 = const 1\n }\n %b: s32 = cast %a", "`a` is out of scope"),
        ("%b: s32 = cast %a\n %a: s32 = const 1", "`a` is not defined before its use"),
        ("%i: s32 = const 1\n for %j: s32, %j {\n }", "`j` is not defined before its use"),
        ("break", "outside a loop"),
        ("%a: s32 = var.get @v", "`v` is used outside the block that declares it"),
        (
            "%c: bool = const true\n if %c then {\n frag.declare @acc\n }\n %z: f32 = const 0.0\n reg.fill @acc, %z",
            "`acc` is used outside the block",
        ),
        ("%a: s32 = const 1\n %b: u32 = const 1\n %c: s32 = binary add, %a, %b", "operands of types s32, u32"),
        ("%a: s32 = const 1\n %c: s32 = binary lt, %a, %a", "not bool"),
        ("%a: f32 = const 1.0\n %c: f32 = binary mod, %a, %a", "`mod` of f32"),
        ("%a: f32 = const 1", "a constant of type f32 with the value 1"),
        ("%a: s32 = const 1\n if %a then {\n }", "the condition of type s32, not bool"),
        ("%a: s32 = const 1\n for %i: u32, %a {\n }", "iterator and count"),
        ("%a: s32 = const 1\n %b: bf16 = load_element @x[0:N], (%a)", "element and its value of types bf16, f32"),
        ("%a: s32 = const 1\n %b: f32 = load_element @x[0:N], (%a, %a)", "2 indices into a view of rank 1"),
        ("frag.declare @bare\n %z: f32 = const 0.0\n reg.fill @bare, %z", "`bare` has no layout yet"),
        ("while %c head {\n } body {\n %c: bool = const true\n }", "not defined in the loop's head"),
    ],
)
def test_a_broken_invariant_is_named(body: str, expected: str) -> None:
    assert any(expected in fault for fault in faults(body)), faults(body)


def test_an_object_of_another_kernel_is_not_declared() -> None:
    kernel, other = parse_kernel(HEAD + GOOD), parse_kernel(HEAD + GOOD)
    kernel.variables = other.variables
    with pytest.raises(InternalError, match="not among the kernel's objects"):
        verify(kernel, "tile")


def test_the_end_of_the_pipeline_has_nothing_undecided() -> None:
    found = faults("sync block", "hw")
    assert sorted(found) == [
        "buffer `loose` has no place in shared memory",
        "event `e` has no lowering",
        "fragment `bare` has no type, shape or layout",
        "operation `sync` is left",
    ]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("setmaxnreg inc, count=42", "setmaxnreg of 42"),
        ("named_barrier.sync barrier=16, count=128, _", "named barrier 16"),
        ("named_barrier.arrive barrier=1, count=100, _", "of 100 threads"),
        (_ISSUE := "frag.declare @acc\n wgmma.issue @acc, @s[0:64, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32), "
         "@s[0:64, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32), "
         "m=64, n=60, k=64, k_step=16, "
         "a_transposed=false, b_transposed=false, accumulate=true", "no wgmma: N is 60"),
        (_ISSUE.replace("n=60", "n=64").replace("k_step=16", "k_step=8"), "K in steps of 8"),
    ],
)  # fmt: skip
def test_machine_operations_exist(op: str, expected: str) -> None:
    assert any(expected in fault for fault in faults(op)), faults(op)
