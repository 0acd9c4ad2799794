"""Arguments of a launch: what binds, and the rule that each wrong one is told about. Kernels here are bare IR."""

from __future__ import annotations

import pytest

from croq.binding import bind, map_arguments
from croq.diagnostics import LaunchError
from croq.driver.arrays import ArrayView, row_major
from croq.ir.core import Block, Value
from croq.ir.objects import Kernel, Param, TensorMap, View
from croq.ir.scalar import Const, LoadElement, StoreElement
from croq.sema.symbolic import Dim
from croq.source import SourceFile

B, S, H = (Dim.symbol(name) for name in "BSH")


def dims(*values):
    return tuple(Dim.of(v) for v in values)


def array(shape, dtype="bf16", pointer=4096, strides=None, device=("cuda", 0), writable=True):
    return ArrayView(pointer, tuple(shape), strides or row_major(tuple(shape)), dtype, device, writable)


def kernel(*params, grid=(1, 1, 1), maps=(), ops=()):
    made = Kernel("k", SourceFile("k.co", ""), list(params), dims(*grid), 128, Block(list(ops)))
    made.tensor_maps = list(maps)
    return made


def touched(param, write=False):
    """Operations that read, or write, the first element of a rank-1 parameter by its pointer."""
    index, value = Value("s32"), Value(param.type)
    view = View(param, None, (0,), param.shape, (0,))
    access = StoreElement(view, (index,), value) if write else LoadElement(view, (index,), value)
    return [Const(0, index), access]


def whole_map(param, split=None):
    """A tensor map over all of a rank-4 BSHD parameter."""
    b, s, h, d = param.shape
    if split is None:
        return TensorMap("m", param, (64, 128, 1, 1), (3, 1, 2, 0), None, (d, s, h, b), 128)
    outer = Dim.of(d.known // split)
    return TensorMap("m", param, (split, 128, 2, 1, 1), (3, 1, 3, 2, 0), split, (Dim.of(split), s, outer, h, b), 128)


def codes(*args, **kwargs):
    with pytest.raises(LaunchError) as caught:
        bind(*args, **kwargs)
    return [d.code for d in caught.value.diagnostics]


def message(*args):
    with pytest.raises(LaunchError) as caught:
        bind(*args)
    return caught.value.diagnostics[0].message


ATTENTION = [Param("Q", "bf16", (B, S, H, Dim.of(128))), Param("O", "bf16", (B, S, H, Dim.of(128)))]


def test_the_first_parameter_that_carries_a_symbol_gives_its_value():
    k = kernel(*ATTENTION, grid=(S.cdiv(128), H, B))
    bound = bind([k], [array((2, 300, 4, 128))] * 2)
    assert bound.symbols == {"B": 2, "S": 300, "H": 4}
    assert bound.grids == ((3, 4, 2),)
    assert bound.device == ("cuda", 0)


def test_another_occurrence_that_differs_names_both_arguments():
    k = kernel(*ATTENTION)
    with pytest.raises(LaunchError) as caught:
        bind([k], [array((2, 300, 4, 128)), array((2, 299, 4, 128))])
    (fault,) = caught.value.diagnostics
    assert fault.code == "E-4055"
    assert "argument 2 (`O`)" in fault.message and "299" in fault.message and "300" in fault.message
    assert "argument 1 (`Q`)" in fault.notes[0]


def test_every_fault_of_every_argument_is_reported_at_once():
    assert codes([kernel(*ATTENTION)], [array((2, 3, 4), "f16"), array((2, 0, 4, 128))]) == [
        "E-4052", "E-4053", "E-4056"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([array((2, 3, 4, 128))], "E-4050"),
        ([array((2, 3, 4, 128)), 3], "E-4051"),
        ([array((2, 3, 4, 128)), array((2, 3, 4, 128), "f32")], "E-4052"),
        ([array((2, 3, 4, 128)), array((2, 3, 4))], "E-4053"),
        ([array((2, 3, 4, 64)), array((2, 3, 4, 128))], "E-4054"),
        ([array((2, 3, 4, 128)), array((2, 2**31, 4, 128))], "E-4057"),
        ([array((2, 3, 4, 128)), array((2, 3, 4, 128), device=("cuda", 1))], "E-4061"),
        ([array((2, 3, 4, 128)), array((2, 3, 4, 128), device=("cpu", 0))], "E-4061"),
    ],
)
def test_a_wrong_argument_has_a_code(arguments, code):
    assert codes([kernel(*ATTENTION)], arguments) == [code]


def test_a_dimension_may_be_an_expression_of_symbols_that_come_later():
    n = Dim.symbol("N")
    k = kernel(Param("x", "f32", (n * 2 + 1,)), Param("y", "f32", (n,)))
    assert bind([k], [array((9,), "f32"), array((4,), "f32")]).symbols == {"N": 4}
    assert codes([k], [array((8,), "f32"), array((4,), "f32")]) == ["E-4055"]


class TestScalars:
    K = kernel(
        Param("n", "s32", None), Param("a", "f32", None), Param("on", "bool", None), grid=(Dim.symbol("n"), 1, 1)
    )

    def test_they_are_positional_and_integers_may_shape_the_grid(self):
        bound = bind([self.K], [7, 1.5, True])
        assert bound.scalars == {"n": 7, "a": 1.5, "on": True}
        assert bound.grids == ((7, 1, 1),)

    @pytest.mark.parametrize("values", [(1.5, 1.5, True), (2**31, 1.5, True), (7, "x", True), (7, 1.5, 1)])
    def test_a_value_that_the_type_does_not_hold_is_refused(self, values):
        assert codes([self.K], list(values)) == ["E-4062"]

    def test_an_array_is_no_number(self):
        assert codes([self.K], [array((1,)), 1.5, True]) == ["E-4062"]


class TestGrid:
    def test_limits_of_the_device(self):
        x, n = Param("x", "f32", (Dim.symbol("N"),)), Dim.symbol("N")
        assert bind([kernel(x, grid=(n, 1, 1))], [array((100_000,), "f32")]).grids == ((100_000, 1, 1),)
        assert codes([kernel(x, grid=(1, n, 1))], [array((65_536,), "f32")]) == ["E-4063"]

    def test_no_block_at_all(self):
        x, n = Param("x", "f32", (Dim.symbol("N"),)), Dim.symbol("N")
        assert codes([kernel(x, grid=(n.div(128), 1, 1))], [array((100,), "f32")]) == ["E-4063"]


class TestPointers:
    X = Param("x", "f32", (Dim.symbol("N"),))
    READ = kernel(X, ops=touched(X))
    WRITE = kernel(X, ops=touched(X, write=True))

    def test_must_be_contiguous(self):
        assert codes([self.READ], [array((8,), "f32", strides=(2,))]) == ["E-4059"]

    def test_a_stride_along_one_element_does_not_matter(self):
        bind([self.READ], [array((1,), "f32", strides=(77,))])

    def test_must_be_aligned_to_their_elements(self):
        assert codes([self.READ], [array((8,), "f32", pointer=4098)]) == ["E-4060"]
        bind([self.READ], [array((8,), "f32", pointer=4100)])

    def test_what_is_written_must_be_writable(self):
        bind([self.READ], [array((8,), "f32", writable=False)])
        assert codes([self.WRITE], [array((8,), "f32", writable=False)]) == ["E-4064"]


class TestTensorMaps:
    Q = ATTENTION[0]

    def test_the_map_walks_the_real_strides(self):
        view = array((2, 300, 4, 128), strides=(2**20, 1024, 256, 1))
        spec, extents, strides = map_arguments(whole_map(self.Q), view, {"B": 2, "S": 300, "H": 4})
        assert spec.box == (64, 128, 1, 1) and spec.swizzle == 128
        assert extents == (128, 300, 4, 2)
        assert strides == (2048, 512, 2**21)

    def test_a_split_dimension_appears_twice(self):
        view = array((2, 300, 4, 128))
        _, extents, strides = map_arguments(whole_map(self.Q, 64), view, {"B": 2, "S": 300, "H": 4})
        assert extents == (64, 300, 2, 4, 2)
        assert strides == (1024, 128, 256, 307200)

    def test_a_stride_along_one_element_is_free(self):
        k = kernel(self.Q, maps=[whole_map(self.Q)])
        bind([k], [array((1, 300, 4, 128), strides=(3, 512, 128, 1))])

    def test_the_innermost_stride_is_one(self):
        k = kernel(self.Q, maps=[whole_map(self.Q)])
        assert codes([k], [array((2, 300, 4, 128), strides=(4, 8, 2400, 9600))]) == ["E-4058"]

    def test_outer_strides_are_multiples_of_16_bytes(self):
        k = kernel(self.Q, maps=[whole_map(self.Q)])
        strides = (300 * 516, 516, 129, 1)
        assert set(codes([k], [array((2, 300, 4, 128), strides=strides)])) == {"E-4014"}

    def test_the_address_is_a_multiple_of_16_bytes(self):
        k = kernel(self.Q, maps=[whole_map(self.Q)])
        assert codes([k], [array((2, 300, 4, 128), pointer=4104)]) == ["E-4012"]
        assert "`Q`" in message([k], [array((2, 300, 4, 128), pointer=4104)])
