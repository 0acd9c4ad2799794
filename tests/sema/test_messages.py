"""What a message says beside its code: the other place, the reason, the remedy; and one message for one fault."""

from __future__ import annotations

from croq.diagnostics import Diagnostic
from tests.sema.helpers import analysed, block, function, warpgroups


def error(text: str) -> Diagnostic:
    (found,) = [d for d in analysed(text)[1] if d.severity == "error"]
    return found


def test_an_undeclared_name_suggests_a_close_one() -> None:
    found = error(block("mutable u32 k_pipe_order = 0;\ny = k_pip_order + 1;"))
    assert found.hint == "did you mean `k_pipe_order`?"
    assert found.labels[0].span.text == "k_pipe_order"


def test_a_name_used_too_early_points_at_its_declaration() -> None:
    found = error(block("y = later + 1;\nlater = 3;"))
    assert found.labels[0].message == "declared here" and found.labels[0].span.text == "later"


def test_an_undeclared_name_is_reported_once() -> None:
    found = error(block("y = missing;\nz = missing + y;\nw = y + z;"))
    assert found.code == "E-314" and found.span is not None and found.span.text == "missing"


def test_a_faulty_view_is_reported_once() -> None:
    found = error(block("v = a.subspan(64);\ns = dma.copy v.subspan(8, 8) => shared;\ny = s.at(0, 0);"))
    assert found.code == "E-605"


def test_a_name_of_the_wrong_kind_is_reported_once() -> None:
    assert error(block("y = a + 1;\nz = a * 2;")).code == "E-411"


def test_the_first_declaration_is_shown() -> None:
    found = error(block("y = 3;\ny = 4;"))
    assert found.labels[0].span.line == 3 and found.hint is not None and "mutable int y" in found.hint


def test_an_accumulator_names_the_mma_that_fixed_its_shape() -> None:
    text = warpgroups(
        "z = mma.fill.f32 0.0f;\nmma.row.row z, s, s;\nmma.row.row z, s, u;",
        "shared f16 [64, 64] s;\nshared f16 [128, 64] u;",
    )
    found = error(text)
    assert found.code == "E-1111" and found.labels[0].span.text.startswith("mma.row.row z, s, s")


def test_a_short_tile_names_both_shapes() -> None:
    found = error(block("shared f16 [64, 64] s;\ndma.copy a.subspan(32, 64).at(bm, 0) => s;"))
    assert found.message == "a move from shape [32, 64] to [64, 64]"
    assert found.labels[0].message == "the source is `f16` [32, 64]"


def test_host_scalars_are_not_called_immutable_by_mistake() -> None:
    found = error(function("float y = 1.0f;\ny = 2.0f;"))
    assert found.code == "E-310" and found.hint is not None and "set once" in found.hint


def test_a_swizzle_of_mma_load_that_contradicts_the_buffer() -> None:
    text = warpgroups(
        "dma.copy.swiz<128> a.subspan(64, 64).at(bm, 0) => s;\nv = mma.load.swiz<64> s;\n"
        "z = mma.fill.f32 0.0f;\nmma.row.row z, v, s;",
        "shared f16 [64, 64] s;",
        count=1,
    )
    assert [d.code for d in analysed(text)[1]] == ["W-1103", "W-1101"]


def test_a_symbolic_shape_is_not_refused_where_it_may_fit() -> None:
    text = block("shared f16 [64, 64] s;\ndma.copy a.subspan(M, 64).at(0, 0) => s;")
    assert not [d for d in analysed(text)[1] if d.severity == "error"]
