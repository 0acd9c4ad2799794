"""Remembered and prepared launches, against a driver that only records: when one may be used again, what it holds."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import croq
from croq.diagnostics import LaunchError
from croq.driver import arrays, device, dlpack, errors, launch
from croq.driver.arrays import row_major
from croq.launching import REMEMBERED
from tests.conftest import ROOT
from tests.driver.test_launch import OK, Recorder, Status


class Driver(Recorder):
    """Knows every kernel; the parameters of `saxpy` are two pointers, a float and an integer."""

    def __init__(self) -> None:
        super().__init__()
        self.contexts = [100]
        self.loaded = 0

    def cuLibraryLoadData(self, data: bytes, *_: object) -> tuple[Status, object]:
        self.loaded += 1
        return OK, "library"

    def cuLibraryGetKernel(self, library: object, name: bytes) -> tuple[Status, object]:
        return OK, "kernel"


class Tensor:
    """Has the attributes of a PyTorch tensor that a launch looks at, and counts how often it is exported."""

    def __init__(self, pointer: int, *shape: int, kind: str = "f32", index: int = 0) -> None:
        self.pointer, self.shape, self.strides = pointer, shape, row_major(shape)
        self.dtype, self.device, self.requires_grad, self.negated = kind, f"cuda:{index}", False, False
        self.read_only, self.exports = False, 0

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_neg(self) -> bool:
        return self.negated

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.KIND_CUDA, int(self.device[-1])

    def __dlpack__(self, **_: object) -> object:
        self.exports += 1
        if self.requires_grad or self.negated:
            raise BufferError("refused")
        where = self.__dlpack_device__()
        return dlpack.make_capsule(self, self.pointer, self.shape, self.strides, self.dtype, where)


class Foreign(Tensor):
    """Another library's array: it has no cheap identity."""


@pytest.fixture
def cu(monkeypatch: pytest.MonkeyPatch) -> Driver:
    recorder = Driver()
    for module in (launch, device, errors):
        monkeypatch.setattr(module, "driver", lambda: recorder)
    monkeypatch.setattr(device, "_primary", {})
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))
    arrays.IDENTITIES.clear()
    return recorder


@pytest.fixture
def saxpy(cu: Driver) -> Any:
    kernel = croq.compile(ROOT / "tests/cases/saxpy.co", verify=False)
    kernel.compilation.__dict__["image"] = SimpleNamespace(cubin=b"cubin", warnings=())
    cu.sizes = (8, 8, 4, 4)
    return kernel


def test_a_warm_launch_exports_no_tensor(cu: Driver, saxpy: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    for _ in range(3):
        saxpy(x, y, 1.5, stream=7)
    assert (x.exports, y.exports, cu.loaded) == (1, 1, 1)
    assert len(cu.launches) == 3
    assert cu.launches[2] == cu.launches[0]
    assert cu.launches[0][8] == 7


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"requires_grad": True}, "E-4002"),
        ({"negated": True}, "E-4002"),
        ({"dtype": "f16"}, "E-4052"),
        ({"shape": (299,), "strides": (1,)}, "E-4055"),
        ({"strides": (2,)}, "E-4059"),
        ({"pointer": 0x1001}, "E-4060"),
        ({"device": "cuda:1"}, "E-4061"),
    ],
)
def test_what_was_checked_and_changed_is_checked_again(
    cu: Driver, saxpy: Any, change: dict[str, Any], code: str
) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    saxpy(x, y, 1.5)
    for name, value in change.items():
        setattr(x, name, value)
    with pytest.raises(LaunchError) as caught:
        saxpy(x, y, 1.5)
    assert caught.value.diagnostics[0].code == code
    assert len(cu.launches) == 1


def test_a_tensor_in_other_memory_is_another_launch(cu: Driver, saxpy: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    saxpy(x, y, 1.5)
    x.pointer = 0x3000
    saxpy(x, y, 1.5)
    assert [values[0] for *_, values in cu.launches] == [launch.pointer(0x1000), launch.pointer(0x3000)]


@pytest.mark.parametrize("number", [float, np.float32, np.float64])
def test_zeros_of_both_signs_are_two_numbers(cu: Driver, saxpy: Any, number: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    for value in (0.0, -0.0):
        saxpy(x, y, number(value))
    assert [values[2] for *_, values in cu.launches] == [launch.scalar("f32", 0.0), launch.scalar("f32", -0.0)]


def test_an_array_that_became_read_only_is_refused(cu: Driver, saxpy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX exports its arrays read-only: the same address may be writable in one library and not in another."""
    x, y = Foreign(0x1000, 300), Foreign(0x2000, 300)
    saxpy(x, y, 1.5)
    read = dlpack.read
    monkeypatch.setattr(dlpack, "read", lambda array: read(array)._replace(read_only=array is y))
    with pytest.raises(LaunchError, match="E-4064"):
        saxpy(x, y, 1.5)
    assert len(cu.launches) == 1


def test_an_array_without_an_identity_is_viewed_each_time(cu: Driver, saxpy: Any) -> None:
    x, y = Foreign(0x1000, 300), Tensor(0x2000, 300)
    saxpy(x, y, 1.5)
    saxpy(x, y, 1.5)
    assert x.exports == 2
    assert cu.launches[1] == cu.launches[0]


def test_a_number_that_cannot_be_a_key_is_refused_by_its_code(cu: Driver, saxpy: Any) -> None:
    record = np.zeros(1, dtype=[("a", "f4")])[0]
    with pytest.raises(LaunchError, match="E-4062"):
        saxpy(Tensor(0x1000, 300), Tensor(0x2000, 300), record)


def test_another_context_has_launches_of_its_own(cu: Driver, saxpy: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    saxpy(x, y, 1.5)
    cu.cuCtxGetDevice = lambda: (OK, 0)  # type: ignore[method-assign]
    cu.contexts = [555]
    saxpy(x, y, 1.5)
    assert [head for head, *_ in cu.launches] == ["function in 100", "function in 555"]


def test_remembered_launches_keep_no_array_alive(cu: Driver, saxpy: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    saxpy(x, y, 1.5)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_any_number_of_sets_of_arguments_can_follow_one_another(cu: Driver, saxpy: Any) -> None:
    y = Tensor(0x2000, 300)
    tensors = [Tensor(0x10000 + 0x1000 * i, 300) for i in range(REMEMBERED + 5)]
    for x in tensors + tensors:
        saxpy(x, y, 1.5)
    assert len(saxpy._launcher._known) <= REMEMBERED
    assert cu.launches[0] == cu.launches[len(tensors)]


def test_a_prepared_launch_looks_at_no_array_and_makes_calls_warm(cu: Driver, saxpy: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    prepared = saxpy.prepare(x, y, 1.5)
    assert (cu.launches, cu.loaded) == ([], 1)
    prepared(stream=9)
    saxpy(x, y, 1.5, stream=9)
    assert cu.launches[0] == cu.launches[1]
    assert (x.exports, y.exports) == (1, 1)


def test_a_prepared_launch_keeps_its_arrays(cu: Driver, saxpy: Any) -> None:
    x, y = Tensor(0x1000, 300), Tensor(0x2000, 300)
    prepared = saxpy.prepare(x, y, 1.5)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None
    del prepared
    gc.collect()
    assert alive() is None


def test_what_a_launch_refuses_cannot_be_prepared(cu: Driver, saxpy: Any) -> None:
    with pytest.raises(LaunchError, match="E-4055"):
        saxpy.prepare(Tensor(0x1000, 299), Tensor(0x2000, 300), 1.5)
    with pytest.raises(LaunchError, match="E-4061"):
        saxpy.prepare(np.zeros(300, np.float32), np.zeros(300, np.float32), 1.5)


HOST = """
__co__ void f(f32 [N] x, global f32 [N] y) {
  parallel b by 1 : block, t by 32 : thread {
    if (t < N)
      y.at(t) = x.at(t);
  }
}
"""


def test_arrays_on_the_host_cannot_be_prepared(cu: Driver) -> None:
    with pytest.raises(LaunchError, match="E-4061"):
        croq.compile(HOST, verify=False).prepare(np.zeros(3, np.float32), Tensor(0x2000, 3))


def test_an_argument_too_many_is_refused_beside_arrays_on_the_host(cu: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = SimpleNamespace(croq_view=lambda: arrays.view(Tensor(0x4000, 3)))
    monkeypatch.setattr("croq.launching.DeviceArray", SimpleNamespace(from_numpy=lambda array, index: copied))
    with pytest.raises(LaunchError, match="E-4050"):
        croq.compile(HOST, verify=False)(np.zeros(3, np.float32), Tensor(0x2000, 3), 1.0)
