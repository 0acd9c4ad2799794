"""The arguments of an emitted kernel: which, in which order, under which names."""

from __future__ import annotations

from croq.emit import emit_cuda
from croq.emit.signature import signature
from tests.emit.samples import COPIES, PIPELINE, kernel


def names(objects: str, body: str) -> list[tuple[str, str]]:
    return [(a.kind, a.name) for a in signature(kernel(objects, body))]


def test_maps_pointers_scalars_then_symbols() -> None:
    objects = """
    param @a type=f32, shape=(M, N), access={tma}
    param @x type=f32, shape=(M, N)
    param @scale type=f32, shape=_
    param @unused type=f32, shape=_
    buffer @tile type=f32, shape=(8, 8), offset=0
    event @e lowering=mbarrier, arrivals=1, offset=256
    tensor_map @a_map param=@a, box=(8, 8), axes=(1, 0), split=_, dims=(N, M), swizzle=0
    """
    body = """
    %0: s32 = const 0
    bulk_tensor.load @a_map, (%0, %0), @tile[0:8, 0:8], start(), @e, _, _
    %1: f32 = symbol scale
    store_element @x[0:M, 0:N], (%0, %0), %1
    """
    assert names(objects, body) == [
        ("tensor_map", "a_map"), ("pointer", "x"), ("scalar", "scale"), ("symbol", "N"),
    ]  # fmt: skip
    text = emit_cuda([kernel(objects, body)])
    assert "const __grid_constant__ croq::TensorMap a_map," in text
    assert "float* x," in text and "float scale," in text and "s32 N) {" in text


def test_guards_need_the_extents_that_they_compare_with() -> None:
    assert names(*COPIES)[-2:] == [("symbol", "M"), ("symbol", "N")]


def test_what_is_only_read_is_const_and_what_vectors_touch_is_aligned() -> None:
    by_name = {a.name: a for a in signature(kernel(*COPIES))}
    assert by_name["x"].writable and not by_name["y"].writable
    assert by_name["x"].alignment == 16


def test_every_name_is_good_cpp() -> None:
    objects = "param @float type=f32, shape=(int)\nparam @thread type=f32, shape=(int)"
    body = "%0: s32 = symbol int\n%1: f32 = load_element @float[0:int], (%0)\nstore_element @thread[0:int], (%0), %1"
    assert names(objects, body) == [("pointer", "float_2"), ("pointer", "thread"), ("symbol", "int_2")]


def test_maps_are_those_of_the_kernel_in_order() -> None:
    assert [a.name for a in signature(kernel(*PIPELINE)) if a.kind == "tensor_map"] == ["a_map", "b_map", "c_map"]
