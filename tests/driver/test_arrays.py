"""Views of arrays: NumPy, DLPack in both forms, `__cuda_array_interface__`, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq.diagnostics import LaunchError
from croq.driver import dlpack
from croq.driver.arrays import NUMPY_TYPES, row_major, view

HALF = np.arange(24, dtype=np.float16).reshape(2, 3, 4)


class Exported:
    """An array that speaks DLPack only, like those of frameworks."""

    def __init__(self, array: np.ndarray[Any, Any], versioned: bool = True) -> None:
        self.array, self.versioned = array, versioned
        self.arguments: dict[str, object] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **arguments: Any) -> object:
        if not self.versioned and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.arguments = arguments
        return self.array.__dlpack__(**arguments)


class Capsule:
    """Device memory of croq seen by another library; here it is host memory that plays the part."""

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self.array, self.dtype = array, dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.KIND_CPU, 0

    def __dlpack__(self, **_: object) -> object:
        pointer = int(self.array.ctypes.data)
        shape = self.array.shape
        return dlpack.make_capsule(self.array, pointer, shape, row_major(shape), self.dtype, (dlpack.KIND_CPU, 0))


def code_of(error: pytest.ExceptionInfo[LaunchError]) -> str:
    return error.value.diagnostics[0].code


def test_numpy_arrays_of_every_type() -> None:
    for name, dtype in NUMPY_TYPES.items():
        array = np.zeros((4, 6), dtype=dtype)
        seen = view(array)
        assert (seen.dtype, seen.shape, seen.strides, seen.elem_bytes) == (name, (4, 6), (6, 1), dtype.itemsize)
        assert (seen.pointer, seen.device, seen.writable) == (array.ctypes.data, ("cpu", 0), True)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_in_both_forms(versioned: bool) -> None:
    source = Exported(HALF[:, ::2, 1:], versioned)
    seen = view(source)
    assert (seen.shape, seen.strides, seen.dtype) == ((2, 2, 3), (12, 8, 1), "f16")
    assert seen.pointer == HALF[:, ::2, 1:].ctypes.data
    assert seen.rank == 3
    assert seen.size == 12
    assert not seen.contiguous
    assert source.arguments["stream"] is None


@given(
    st.lists(st.integers(0, 5), min_size=0, max_size=4),
    st.sampled_from(["f16", "f32", "f64", "s8", "s32", "s64", "u8", "u16", "bool"]),
)
def test_numpy_and_dlpack_agree(shape: list[int], dtype: str) -> None:
    array = np.zeros(shape, dtype=NUMPY_TYPES[dtype])
    direct, exported = view(array), view(Exported(array))
    assert direct.shape == exported.shape
    assert direct.dtype == exported.dtype
    assert direct.contiguous
    assert exported.contiguous
    if array.size:
        assert direct.pointer == exported.pointer


def test_a_read_only_array_says_so() -> None:
    array = HALF.copy()
    array.flags.writeable = False
    assert not view(array).writable


def test_bf16_of_ml_dtypes() -> None:
    assert view(np.ones((2, 2), dtype=ml_dtypes.bfloat16)).dtype == "bf16"


def test_the_view_keeps_the_memory_alive() -> None:
    array = np.ones(1000, dtype=np.float32)
    seen = view(Exported(array))
    del array
    gc.collect()
    assert seen.owner is not None


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous"),
    [((2, 3), (3, 1), True), ((1, 3), (99, 1), True), ((2, 3), (1, 2), False), ((0, 3), (7, 7), True), ((), (), True)],
)
def test_contiguity_ignores_extents_of_one(shape: Any, strides: Any, contiguous: bool) -> None:
    base = np.zeros(400, dtype=np.float32)
    array = np.lib.stride_tricks.as_strided(base, shape, [s * 4 for s in strides])
    assert view(array).contiguous is contiguous


def test_cuda_array_interface() -> None:
    class Device:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (4, 8), "typestr": "<f4", "data": (4096, True), "version": 3, "strides": (64, 4),
        }  # fmt: skip

    seen = view(Device())
    assert (seen.pointer, seen.shape, seen.strides, seen.dtype) == (4096, (4, 8), (16, 1), "f32")
    assert (seen.device, seen.writable) == (("cuda", 0), False)


def test_a_broken_cuda_array_interface_is_refused() -> None:
    class Device:
        __cuda_array_interface__ = {"shape": (4, 8)}  # noqa: RUF012

    with pytest.raises(LaunchError) as caught:
        view(Device(), "q")
    assert code_of(caught) == "E-4002"


@pytest.mark.parametrize("value", [3, "text", None, [1.0, 2.0], object()])
def test_what_is_no_array_is_refused(value: object) -> None:
    with pytest.raises(LaunchError, match="argument `q` is a") as caught:
        view(value, "q")
    assert code_of(caught) == "E-4001"


def test_a_library_that_refuses_is_quoted() -> None:
    class Grad:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: object) -> object:
            raise BufferError("Can't export tensors that require gradient")

    with pytest.raises(LaunchError, match="require gradient") as caught:
        view(Grad())
    assert code_of(caught) == "E-4002"


def test_unknown_types_are_refused() -> None:
    for array in (np.zeros(2, dtype=np.complex64), Exported(np.zeros(2, dtype=np.complex64))):
        with pytest.raises(LaunchError) as caught:
            view(array)
        assert code_of(caught) == "E-4003"


def test_other_devices_are_refused() -> None:
    class Metal(Capsule):
        def __dlpack__(self, **_: object) -> object:
            return dlpack.make_capsule(self, self.array.ctypes.data, (2,), (1,), "f32", (8, 0))

    with pytest.raises(LaunchError) as caught:
        view(Metal(np.zeros(2, dtype=np.float32), "f32"))
    assert code_of(caught) == "E-4004"


def test_strides_of_part_elements_are_refused() -> None:
    record = np.zeros(4, dtype=np.dtype([("tag", np.uint8), ("value", "<f4")]))
    with pytest.raises(LaunchError) as caught:
        view(record["value"])
    assert code_of(caught) == "E-4005"


def test_what_is_exported_can_be_imported_again() -> None:
    before = set(dlpack._exported)
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    imported = np.from_dlpack(Capsule(array, "f32"))  # type: ignore[arg-type] # its capsules are made by hand
    assert np.array_equal(imported, array)
    assert imported.ctypes.data == array.ctypes.data
    (ticket,) = set(dlpack._exported) - before
    del imported
    gc.collect()
    assert ticket not in dlpack._exported


def test_a_capsule_that_nobody_takes_is_released() -> None:
    before = set(dlpack._exported)
    seen = view(Capsule(np.zeros((2, 2), dtype=ml_dtypes.bfloat16), "bf16"))
    assert (seen.dtype, seen.shape, seen.strides) == ("bf16", (2, 2), (2, 1))
    (ticket,) = set(dlpack._exported) - before
    del seen
    gc.collect()
    assert ticket not in dlpack._exported
