"""Launches on a GPU: the numbers, the stream, the second launch, the graph-free path that costs little."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

import croq
from croq.driver.device import probe_gpu, synchronize
from croq.driver.device_array import DeviceArray
from tests.conftest import ROOT

pytestmark = pytest.mark.gpu

SAXPY = ROOT / "tests/cases/saxpy.co"
GEMM = ROOT / "tests/cases/gemm_ring.co"


def saxpy_case(n):
    generator = np.random.default_rng(n)
    return generator.random(n, np.float32), generator.random(n, np.float32)


def test_saxpy_by_pointers_and_scalars():
    kernel = croq.compile(SAXPY)
    for n in (1, 255, 1000, 100_000):
        x, y = saxpy_case(n)
        on_device = DeviceArray.from_numpy(x), DeviceArray.from_numpy(y)
        kernel(*on_device, 1.5)
        synchronize()
        np.testing.assert_allclose(on_device[1].to_numpy(), 1.5 * x + y, rtol=1e-6)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 320), (100, 136, 72), (64, 128, 64)])
def test_gemm_by_tensor_maps(m, n, k):
    generator = np.random.default_rng(0)
    a, b = ((2 * generator.random(shape, np.float32) - 1).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    c = DeviceArray.from_numpy(np.full((m, n), np.nan, np.float32).astype(ml_dtypes.bfloat16))
    croq.compile(GEMM)(DeviceArray.from_numpy(a), DeviceArray.from_numpy(b), c)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c.to_numpy().astype(np.float64), expected, rtol=1e-2, atol=5e-2)


def test_the_simulator_and_the_chip_agree():
    generator = np.random.default_rng(1)
    a, b = ((2 * generator.random(s, np.float32) - 1).astype(ml_dtypes.bfloat16) for s in ((128, 192), (128, 192)))
    kernel = croq.compile(GEMM)
    here = np.zeros((128, 128), ml_dtypes.bfloat16)
    croq.simulate(kernel, a, b, here)
    there = DeviceArray.from_numpy(np.zeros((128, 128), ml_dtypes.bfloat16))
    kernel(DeviceArray.from_numpy(a), DeviceArray.from_numpy(b), there)
    np.testing.assert_allclose(there.to_numpy().astype(np.float32), here.astype(np.float32), rtol=1e-2, atol=1e-2)


def test_another_array_is_another_launch():
    kernel = croq.compile(SAXPY)
    for value in (1.0, 2.0, 3.0):
        x = DeviceArray.from_numpy(np.full(300, value, np.float32))
        y = DeviceArray.from_numpy(np.zeros(300, np.float32))
        kernel(x, y, 2.0)
        assert set(y.to_numpy()) == {2 * value}


def test_launching_again_is_cheap():
    kernel = croq.compile("v4")
    arrays = [DeviceArray.from_numpy(np.zeros((1, 128, 1, 128), ml_dtypes.bfloat16)) for _ in range(4)]
    kernel(*arrays)
    synchronize()
    started = time.perf_counter()
    for _ in range(200):
        kernel(*arrays)
    seconds = (time.perf_counter() - started) / 200
    synchronize()
    assert seconds < 200e-6


def test_wrong_arguments_launch_nothing():
    kernel = croq.compile(SAXPY)
    y = DeviceArray.from_numpy(np.zeros(8, np.float32))
    with pytest.raises(croq.LaunchError):
        kernel(DeviceArray.from_numpy(np.zeros(9, np.float32)), y, 1.0)
    assert not y.to_numpy().any()


def test_the_device_is_a_hopper():
    assert probe_gpu()[0] is not None
