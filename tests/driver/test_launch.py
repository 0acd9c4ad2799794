"""Launching, against a driver that only records: packing, checks, contexts, errors."""

from __future__ import annotations

import ctypes
import enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from croq.diagnostics import EnvironmentFault, LaunchError
from croq.driver import device, errors, launch
from croq.driver.device import stream_handle
from croq.driver.launch import Module, Parameters, pointer, scalar


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


OK = Status.CUDA_SUCCESS


class Recorder:
    """Stands for `cuda.bindings.driver` on a machine with two devices."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.shared: list[int] = []
        self.contexts: list[int] = []  # the stack of this thread; context 100 + d belongs to device d
        self.answers: list[Status] = []  # to launches, before all are fine
        self.sizes = (8, 4, 4, 128)

    def cuLibraryLoadData(self, data: bytes, *_: object) -> tuple[Status, object]:
        return (OK, "library") if data else (Status.CUDA_ERROR_NO_BINARY_FOR_GPU, None)

    def cuLibraryGetKernel(self, library: object, name: bytes) -> tuple[Status, object]:
        return (OK, "kernel") if name == b"k" else (Status.CUDA_ERROR_NOT_FOUND, None)

    def cuKernelGetParamInfo(self, kernel: object, index: int) -> tuple[Status, int, int]:
        return (OK, 0, self.sizes[index]) if index < len(self.sizes) else (Status.CUDA_ERROR_NOT_FOUND, 0, 0)

    def cuKernelGetFunction(self, kernel: object) -> tuple[Status, str]:
        return OK, f"function in {self.contexts[-1]}"

    def cuFuncSetAttribute(self, function: object, which: int, value: int) -> tuple[Status]:
        self.shared.append(value)
        return (OK,)

    def cuCtxGetCurrent(self) -> tuple[Status, int]:
        return OK, self.contexts[-1] if self.contexts else 0

    def cuCtxGetDevice(self) -> tuple[Status, int]:
        return OK, self.contexts[-1] - 100

    def cuDeviceGet(self, index: int) -> tuple[Status, int]:
        return OK, index

    def cuDevicePrimaryCtxRetain(self, index: int) -> tuple[Status, int]:
        return OK, 100 + index

    def cuCtxSetCurrent(self, context: int) -> tuple[Status]:
        self.contexts[-1:] = [context]
        return (OK,)

    def cuCtxPushCurrent(self, context: int) -> tuple[Status]:
        self.contexts.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Status, int]:
        return OK, self.contexts.pop()

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return OK, b"what it means"

    CUlaunchConfig = SimpleNamespace

    def cuLaunchKernelEx(self, on: SimpleNamespace, function: object, address: int, _: int) -> tuple[Status]:
        status = self.answers.pop(0) if self.answers else OK
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(address)
        values = [ctypes.string_at(p, size) for p, size in zip(pointers, self.sizes, strict=True) if p]
        grid, block = (on.gridDimX, on.gridDimY, on.gridDimZ), (on.blockDimX, on.blockDimY, on.blockDimZ)
        assert on.numAttrs == 0
        self.launches.append((function, *grid, *block, on.sharedMemBytes, on.hStream, values))
        return (status,)


@pytest.fixture
def cu(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    for module in (launch, device, errors):
        monkeypatch.setattr(module, "driver", lambda: recorder)
    monkeypatch.setattr(device, "_primary", {})
    return recorder


PARAMS = [pointer(0x7000), scalar("s32", -5), scalar("f32", 1.5), bytes(range(128))]


def code_of(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value.diagnostics[0].code)


def test_a_prepared_launch_passes_everything(cu: Recorder) -> None:
    prepared = Module(b"cubin").kernel("k").prepare((3, 2, 1), (384, 1, 1), 200_000, PARAMS)
    prepared(17)
    prepared(17)
    assert cu.launches[0] == ("function in 100", 3, 2, 1, 384, 1, 1, 200_000, 17, PARAMS)
    assert cu.launches[1] == cu.launches[0]
    assert cu.shared == [200_000]
    assert cu.contexts == [100]  # the primary context of device 0, as the thread had none


def test_set_changes_the_next_launch(cu: Recorder) -> None:
    prepared = Module(b"cubin").kernel("k").prepare((1, 1, 1), (32, 1, 1), 0, PARAMS)
    prepared()
    prepared.set(0, pointer(0x8000))
    prepared()
    assert [int.from_bytes(call[9][0], "little") for call in cu.launches] == [0x7000, 0x8000]
    assert cu.shared == []  # 48 KiB and less need no permission
    with pytest.raises(ValueError, match="8 bytes"):
        prepared.set(0, scalar("s32", 1))


def test_the_callers_context_is_kept(cu: Recorder) -> None:
    cu.contexts.append(101)
    Module(b"cubin").kernel("k").prepare((1, 1, 1), (32, 1, 1), 0, PARAMS, device=1)
    assert cu.contexts == [101]


def test_another_device_is_refused(cu: Recorder) -> None:
    cu.contexts.append(100)
    with pytest.raises(LaunchError, match="device 1, but device 0") as caught:
        Module(b"cubin").kernel("k").prepare((1, 1, 1), (32, 1, 1), 0, PARAMS, device=1)
    assert code_of(caught) == "E-4031"


def test_a_new_thread_gets_a_context(cu: Recorder) -> None:
    prepared = Module(b"cubin").kernel("k").prepare((1, 1, 1), (32, 1, 1), 0, PARAMS)
    cu.contexts.clear()
    cu.answers = [Status.CUDA_ERROR_INVALID_CONTEXT]
    prepared()
    assert len(cu.launches) == 2
    assert cu.contexts == [100]


def test_device_context_restores(cu: Recorder) -> None:
    cu.contexts.append(100)
    with device.device_context(1) as inner:
        assert inner == 101
        assert cu.contexts == [100, 101]
    assert cu.contexts == [100]


@pytest.mark.parametrize(
    ("grid", "block", "shared", "code"),
    [
        ((0, 1, 1), (32, 1, 1), 0, "E-4022"),
        ((1, 65536, 1), (32, 1, 1), 0, "E-4022"),
        ((1, 1, 1), (1025, 1, 1), 0, "E-4022"),
        ((1, 1, 1), (512, 4, 1), 0, "E-4022"),
        ((1, 1, 1), (32, 1, 1), 232_449, "E-4023"),
    ],
)
def test_bad_configurations(cu: Recorder, grid: Any, block: Any, shared: int, code: str) -> None:
    with pytest.raises(LaunchError) as caught:
        Module(b"cubin").kernel("k").launch(grid, block, shared, None, PARAMS)
    assert code_of(caught) == code
    assert cu.launches == []


def test_parameters_must_match_the_kernel(cu: Recorder) -> None:
    with pytest.raises(LaunchError, match="takes parameters of") as caught:
        Module(b"cubin").kernel("k").prepare((1, 1, 1), (32, 1, 1), 0, PARAMS[:2])
    assert code_of(caught) == "E-4024"


def test_unknown_kernels_and_foreign_cubins(cu: Recorder) -> None:
    with pytest.raises(LaunchError) as caught:
        Module(b"cubin").kernel("other")
    assert code_of(caught) == "E-4021"
    with pytest.raises(EnvironmentFault) as wrong_gpu:
        Module(b"")
    assert code_of(wrong_gpu) == "E-3202"


def test_errors_of_the_driver_are_coded(cu: Recorder) -> None:
    prepared = Module(b"cubin").kernel("k").prepare((1, 1, 1), (32, 1, 1), 0, PARAMS)
    cu.answers = [Status.CUDA_ERROR_ILLEGAL_ADDRESS, Status.CUDA_ERROR_OUT_OF_MEMORY]
    with pytest.raises(LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        prepared()
    assert code_of(caught) == "E-4040"
    assert caught.value.diagnostics[0].notes == ("what it means",)
    with pytest.raises(EnvironmentFault) as memory:
        prepared()
    assert code_of(memory) == "E-3203"


def test_tensor_maps_are_aligned() -> None:
    packed = Parameters([scalar("s32", 1), bytes(128), scalar("u32", 2)])
    pointers = (ctypes.c_void_p * 3).from_address(packed.address)
    assert all(p is not None and p % 128 == 0 for p in pointers)
    assert [packed.get(i) for i in range(3)] == [scalar("s32", 1), bytes(128), scalar("u32", 2)]


@pytest.mark.parametrize(
    ("dtype", "value", "size"), [("s32", 7, 4), ("u64", 2**63, 8), ("f32", 0.1, 4), ("bool", True, 1), ("s8", -3, 1)]
)
def test_scalars_have_the_size_of_their_type(dtype: str, value: float, size: int) -> None:
    assert len(scalar(dtype, value)) == size


@pytest.mark.parametrize(("dtype", "value"), [("s32", 2**31), ("u8", -1), ("bf16", 1.0), ("s32", float("nan"))])
def test_scalars_that_do_not_fit_are_refused(dtype: str, value: float) -> None:
    with pytest.raises(LaunchError) as caught:
        scalar(dtype, value)
    assert code_of(caught) == "E-4020"


def test_streams_of_all_kinds() -> None:
    torch_like = SimpleNamespace(cuda_stream=77)
    protocol = SimpleNamespace(__cuda_stream__=lambda: (0, 78))
    cupy_like = SimpleNamespace(ptr=79)
    streams = [None, 5, np.int64(6), torch_like, protocol, cupy_like]
    assert [stream_handle(stream) for stream in streams] == [0, 5, 6, 77, 78, 79]
    for bad in ("default", 1.5, object()):
        with pytest.raises(LaunchError) as caught:
            stream_handle(bad)
        assert code_of(caught) == "E-4030"
