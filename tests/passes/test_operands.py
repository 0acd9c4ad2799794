"""Pass `operands` (O1 to O7): what the descriptors of an MMA hold, and where they start."""

from __future__ import annotations

import pytest

from croq.ir.hw import WgmmaFence, WgmmaIssue
from croq.ir.objects import Matrix
from tests.passes.helpers import every, literal, lower, names, reported, warpgroups

TILES = "shared f16 [64, 192] a;\nshared f16 [64, 192] b;\nshared f16 [192, 192] v;\n"
ACC = "x = mma.fill.f32 0.0f;\n"


def issue_of(body: str, declared: str = TILES) -> WgmmaIssue:
    (issue,) = every(lower(warpgroups(1, ACC + body, declared), after="operands"), WgmmaIssue)
    return issue


def both(operand: str, declared: str = TILES) -> Matrix:
    """The descriptors of an operand that is A and B."""
    issue = issue_of(f"mma.row.row x, {operand}, {operand};", declared)
    assert issue.a_matrix is not None and issue.b_matrix is not None
    assert (issue.a_matrix.start.offset, issue.a_matrix.jump) == (issue.b_matrix.start.offset, issue.b_matrix.jump)
    return issue.a_matrix


# --------------------------------------------------------------------------------------------------------------- O1, O2
@pytest.mark.parametrize(
    ("operand", "declared", "offset"),
    [
        ("s.subspan(64, 64).at(1, 0)", "shared f16 [128, 64] s;", 64 * 128),
        ("s.subspan(64, 16).at(0, 3)", "shared f16 [64, 64] s;", 96),
        ("s.subspan(64, 64).step(8, 64).at(1, 0)", "shared f16 [72, 64] s;", 8 * 128),
        ("s.subspan(1, 64, 64).at(1, 0, 0).sqz()", "shared f16 [2, 64, 64] s;", 64 * 128),
        ("s.subspan(64, 1, 64).at(0, 0, 0).sqz()", "shared f16 [64, 1, 64] s;", 0),
    ],
)
def test_rows_start_at_a_multiple_of_eight(operand: str, declared: str, offset: int) -> None:
    assert both(operand, declared).start.offset == offset


def test_a_computed_row_is_a_term() -> None:
    matrix = both("s.subspan(1, 64, 64).at(M, 0, 0).sqz()", "shared f16 [2, 72, 64] s;")
    assert (len(matrix.start.terms), matrix.start.scales) == (1, (72 * 128,))


# --------------------------------------------------------------------------------------------------------------- O3, O4
@pytest.mark.parametrize(
    ("operand", "offset", "first", "wrap", "jump", "step"),
    [
        ("a", 0, 0, 4, 8192, 32),  # three slabs of four steps
        ("a.subspan(64, 64).at(0, 1)", 8192, 0, 1, 32, 0),  # one slab
        ("a.subspan(64, 32).at(0, 1)", 64, 0, 1, 32, 0),  # inside a slab
        ("a.subspan(64, 48).at(0, 1)", 0, 3, 4, 8192, 32),  # from one slab into the next
        ("a.subspan(64, 96).at(0, 1)", 8192, 2, 4, 8192, 32),
    ],
)
def test_a_constant_range_of_k(operand: str, offset: int, first: int, wrap: int, jump: int, step: int) -> None:
    matrix = both(operand)
    assert (matrix.start.offset, matrix.first, matrix.wrap, matrix.jump, matrix.step) == (
        offset,
        first,
        wrap,
        jump,
        step,
    )
    assert (matrix.lbo, matrix.sbo, matrix.layout, matrix.base) == (16, 1024, 1, 0)


@pytest.mark.parametrize(
    ("tile", "scales", "counted"),
    [
        (64, (8192,), False),  # whole slabs
        (32, (8192, 2), False),  # never leaves its slab: the place inside is part of the start
        (48, (8192,), True),  # may leave it: steps are counted from the slab
        (96, (8192,), True),
    ],
)
def test_a_computed_range_of_k(tile: int, scales: tuple[int, ...], counted: bool) -> None:
    issue = issue_of(f"foreach k in [2] mma.row.row x, a.subspan(64, {tile}).at(0, k), b.subspan(64, {tile}).at(0, 0);")
    matrix = issue.a_matrix
    assert matrix is not None
    assert matrix.start.scales == scales
    assert (literal(matrix.first) if counted else matrix.first) == (None if counted else 0)
    assert (matrix.wrap, matrix.jump, matrix.step) == ((4, 8192, 32) if counted else (1, 32, 0))


def test_narrow_slabs_take_a_step_each() -> None:
    matrix = both("s.subspan(64, 48).at(0, 1)", "shared f16 [64, 144] s;")  # 288 bytes: swizzle 32
    assert (matrix.layout, matrix.start.offset, matrix.wrap, matrix.jump) == (3, 3 * 64 * 32, 1, 64 * 32)


def test_the_arithmetic_stands_before_the_fence() -> None:
    body = ACC + "foreach k in [2] mma.row.row x, a.subspan(64, 48).at(0, k), b.subspan(64, 48).at(0, k);"
    kernel = lower(warpgroups(1, body, TILES))
    found = names(kernel, "wgmma")
    assert found[0] == WgmmaFence.NAME and found[1] == WgmmaIssue.NAME
    assert len(every(kernel, WgmmaFence)) == 1


# --------------------------------------------------------------------------------------------------------------- O5, O6
def test_mn_major_steps_go_down_the_rows() -> None:
    issue = issue_of("mma.row.col x, a.subspan(64, 32).at(0, 0), v.subspan(32, 64).step(8, 64).at(1, 2);")
    matrix = issue.b_matrix
    assert matrix is not None
    assert (matrix.start.offset, matrix.jump, matrix.wrap) == (8 * 128 + 2 * 192 * 128, 16 * 128, 1)
    assert (matrix.lbo, matrix.sbo, matrix.layout) == (192 * 128, 1024, 1)


def test_row_blocks_of_a_tall_operand() -> None:
    issue = issue_of("mma.row.row x, v.subspan(128, 64).at(0, 0), b.subspan(64, 64).at(0, 0);")
    assert issue.a_matrix is not None and issue.b_matrix is not None
    assert (issue.a_matrix.block, issue.b_matrix.block) == (64 * 128, 0)


# ------------------------------------------------------------------------------------------------------------------- O7
@pytest.mark.parametrize(
    ("body", "declared"),
    [
        ("mma.row.row x, s.subspan(64, 64).step(4, 64).at(1, 0), b.subspan(64, 64).at(0, 0); //!",
         "shared f16 [128, 64] s;"),
        ("mma.row.row x, s.subspan(64, 64).step(4, 64).at(M, 0), b.subspan(64, 64).at(0, 0); //!",
         "shared f16 [128, 64] s;"),
        ("mma.row.row x, a.subspan(64, 16).step(64, 8).at(0, 1), b.subspan(64, 16).at(0, 0); //!", ""),
        ("mma.row.row x, a.subspan(64, 16).step(64, 8).at(0, M), b.subspan(64, 16).at(0, 0); //!", ""),
        ("mma.row.row x, a.subspan(64, 16).at(0, 0), s.subspan(1, 8, 16).at(M, 0, 0).sqz(); //!",
         "shared f16 [2, 12, 64] s;"),
        ("mma.row.row x, s.subspan(64, 1, 64).at(0, 1, 0).sqz(), b.subspan(64, 64).at(0, 0); //!",
         "shared f16 [64, 2, 64] s;"),
        ("mma.row.col x, a.subspan(64, 16).at(0, 0), v.subspan(16, 32).at(0, 1); //!", ""),
        ("mma.row.col x, a.subspan(64, 16).at(0, 0), v.subspan(16, 64).step(16, 32).at(0, M); //!", ""),
        ("mma.row.col x, a.subspan(64, 16).at(0, 0), v.subspan(16, 64).step(4, 64).at(1, 0); //!", ""),
    ],
    ids=["row", "computed-row", "column", "computed-column", "flattened-row", "strided-rows", "mn-column",
         "computed-mn-column", "mn-row"],
)  # fmt: skip
def test_what_no_descriptor_can_address(body: str, declared: str) -> None:
    assert reported(warpgroups(1, ACC + body, TILES + declared))[0] == "E-1113"
