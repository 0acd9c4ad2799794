"""Every documented limit of a tensor map is reported with the array's name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from croq.diagnostics import EnvironmentFault, LaunchError
from croq.driver.device import probe_gpu
from croq.driver.tensormap import TensorMapSpec, array_faults, encode, spec_faults

SPEC = TensorMapSpec("bf16", (64, 128), swizzle=128)
DIMS, STRIDES, ADDRESS = (128, 4096), (8192,), 1 << 20


def codes(
    spec: TensorMapSpec = SPEC, pointer: int = ADDRESS, dims: tuple[int, ...] = DIMS, strides=STRIDES
) -> list[str]:
    found = [*spec_faults(spec, "q"), *array_faults(spec, pointer, dims, strides, "q")]
    assert all("argument `q`" in d.message for d in found)
    return [d.code for d in found]


def test_a_good_map_has_no_fault() -> None:
    assert codes() == []
    five = TensorMapSpec("bf16", (64, 128, 2, 1, 1), swizzle=128)
    assert codes(five, dims=(64, 4096, 2, 32, 4), strides=(8192, 128, 256, 4096 * 8192)) == []


@pytest.mark.parametrize(
    ("box", "swizzle", "code"),
    [
        ((64, 257), 128, "E-4011"),
        ((64, 0), 128, "E-4011"),
        ((65, 128), 0, "E-4011"),
        ((4, 128), 0, "E-4011"),
        ((128, 128), 128, "E-4011"),
        ((64, 128), 64, "E-4011"),
        ((64, 128), 48, "E-4011"),
    ],
)
def test_bad_boxes(box: tuple[int, ...], swizzle: int, code: str) -> None:
    assert codes(replace(SPEC, box=box, swizzle=swizzle)) == [code]


@pytest.mark.parametrize("elements", [(1,), (1, 9), (0, 1)])
def test_bad_element_strides(elements: tuple[int, ...]) -> None:
    assert codes(replace(SPEC, element_strides=elements)) == ["E-4011"]


def test_bad_arrays() -> None:
    assert codes(pointer=ADDRESS + 8) == ["E-4012"]
    assert codes(dims=(0, 4096)) == ["E-4013"]
    assert codes(dims=(128, 2**32 + 1)) == ["E-4013"]
    assert codes(dims=(128, 2**32)) == []
    assert codes(strides=(8200,)) == ["E-4014"]
    assert codes(strides=(0,)) == ["E-4014"]
    assert codes(strides=(2**40,)) == ["E-4014"]
    assert codes(strides=(2**40 - 16,)) == []
    assert codes(dims=(128,), strides=()) == ["E-4010"]
    assert codes(replace(SPEC, box=(8,) * 6), dims=(8,) * 6, strides=(16,) * 5) == ["E-4010"]
    assert codes(replace(SPEC, box=(8,)), dims=(8,), strides=()) == []


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(LaunchError) as caught:
        encode(replace(SPEC, box=(64, 300)), ADDRESS + 2, DIMS, (8200,), "k")
    assert [d.code for d in caught.value.diagnostics] == ["E-4011", "E-4012", "E-4014"]


def test_without_a_driver_the_environment_is_at_fault() -> None:
    device, reason = probe_gpu()
    if device is not None:
        pytest.skip("this machine has a GPU")
    assert reason
    if "driver" in reason:
        with pytest.raises(EnvironmentFault):
            encode(SPEC, ADDRESS, DIMS, STRIDES)
