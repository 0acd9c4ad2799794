"""What a proof takes for granted of a kernel stands beside it."""

from __future__ import annotations

import pytest

from croq.verify import verify_protocol
from tests.verify.helpers import kernels, read

TEXT = """
__co__ void f({params}) {{
  parallel b by 2 : block, t by 32 : thread {{
    {body}
  }}
}}
"""


def assumed(params: str, body: str, level: str = "hw") -> tuple[str, ...]:
    (kernel,) = kernels(TEXT.format(params=params, body=body), after="participants" if level == "tile" else None)
    found = verify_protocol(kernel, level=level)  # type: ignore[arg-type]
    assert found.proved, found
    return found.assumes


@pytest.mark.parametrize("level", ["hw", "tile"])
def test_arguments_of_one_type_of_which_one_is_written_are_told_apart_by_name(level: str) -> None:
    """Shifted by one in place, one array given twice is another program."""
    shift = "i = b # t; if (i > 0 && i < N) y.at(i) = x.at(i - 1) + 1.0f;"
    assert assumed("global f32 [N] x, global f32 [N] y", shift, level) == ("`y` shares no memory with `x`",)
    two = "x.at(b) = z.at(t); y.at(b) = z.at(t);"
    assert assumed("global f32 [N] x, global f32 [N] y, global f32 [N] z, global s32 [N] n", two, level) == (
        "`x` shares no memory with `y`, `z`",
        "`y` shares no memory with `z`",
    )


def test_nothing_is_assumed_of_arguments_that_cannot_meet() -> None:
    assert assumed("global f32 [N] x, global s32 [N] y", "y.at(t) = 1; y.at(b) = __to<s32>(x.at(0));") == ()


def test_loop_that_waits_for_others_is_assumed_to_end() -> None:
    spin = "mutable s32 n = 0;\n    while (flag.at(0) == 0) { n += 1; } y.at(t) = n;"
    assert assumed("global s32 [N] flag, global s32 [M] y", spin) == (
        "`y` shares no memory with `flag`",
        "the loop at line 5 ends",
    )


def test_loop_that_is_followed_is_not_assumed_to_end() -> None:
    (kernel,) = kernels(read("tests/programs/gemm_row_blocks.co"))
    found = verify_protocol(kernel)
    assert found.proved and not any("loop" in taken for taken in found.assumes)
