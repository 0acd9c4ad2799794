"""Facts of the chip that the device prelude repeats, because C++ needs them, are those of the target."""

from __future__ import annotations

import re

import pytest

from croq.resources import resource
from croq.target import cuda, swizzle
from croq.target.sm90 import SM_90A
from tests.conftest import ROOT

PRELUDE = resource("runtime", "croq.cuh").read_text(encoding="utf-8")


def numbers(pattern: str, text: str = PRELUDE) -> set[tuple[int, ...]]:
    """The numbers of every place that looks so; `#` stands for one."""
    found = re.findall(re.escape(pattern).replace(r"\#", r"(\d+)"), text)
    assert found, f"nothing in the prelude looks like {pattern}"
    return {tuple(map(int, match if isinstance(match, tuple) else (match,))) for match in found}


def test_the_architecture() -> None:
    assert set(re.findall(r"sm_\w+", PRELUDE)) == {SM_90A.name}


def test_register_requests() -> None:
    requests = SM_90A.register_requests
    expected = {(requests[0], requests[-1], requests.step)}
    assert numbers("N >= # && N <= # && N % # == 0") == expected
    assert numbers("#..# in steps of #") == expected


def test_named_barriers() -> None:
    assert numbers("Named barrier `id` (#..#)") == {(0, SM_90A.named_barriers - 1)}
    assert numbers("bar.sync #;") == {(cuda.CTA_BARRIER,)}


def test_lanes_of_a_warp() -> None:
    assert {int(mask, 16) for mask in re.findall(r"0x(f{5,})u?\b", PRELUDE)} == {(1 << cuda.WARP) - 1}


def test_vectors() -> None:
    assert numbers("struct __align__(#) u32x4") == {(cuda.VECTOR,)}


def test_tensor_maps() -> None:
    assert numbers("struct __align__(#) TensorMap") == {(cuda.TENSOR_MAP_ALIGNMENT,)}


def test_swizzles() -> None:
    (assertion,) = re.findall(r'static_assert\((W == .*), "swizzle width"\)', PRELUDE)
    assert [int(width) for width in re.findall(r"W == (\d+)", assertion)] == list(swizzle.WIDTHS)
    assert numbers("W <= # ? offset") == {(swizzle.CHUNK,)}
    (mask,) = re.findall(r"static_cast<u32>\(W - 1\) & (0x\w+?)u\)", PRELUDE)
    assert int(mask, 16) == swizzle.swizzle_mask(max(swizzle.WIDTHS))


@pytest.mark.parametrize("text", [PRELUDE, (ROOT / "generated/v4.cu").read_text(encoding="utf-8")])
def test_shared_memory_starts_at_a_repeat_of_every_pattern(text: str) -> None:
    assert numbers("extern __shared__ __align__(#)", text) == {(swizzle.alignment(max(swizzle.WIDTHS)),)}
