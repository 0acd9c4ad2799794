"""How a kernel's parameters are recognised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from croq.bench.workload import AttentionWorkload, bind, persistent_blocks
from croq.diagnostics import LaunchError


@dataclass
class P:
    name: str
    dtype: str = "bf16"
    shape: tuple | None = ("B", "S", "H", "128")


LISTS = [P("tasks", "s32", ("N",)), P("offsets", "u32", (115,))]


def test_names_decide_whatever_the_order():
    binding = bind([P("out"), P("V"), P("Q"), P("key")])
    assert binding.roles == ("o", "v", "q", "k") and not binding.persistent
    assert binding.arguments({"q": 1, "k": 2, "v": 3, "o": 4}) == [4, 3, 1, 2]


def test_unknown_names_are_taken_in_order():
    assert bind([P("x"), P("y"), P("z"), P("w"), *LISTS]).roles == ("q", "k", "v", "o", "tasks", "offsets")


def test_a_work_list_is_found_with_its_types():
    binding = bind([*LISTS, P("Q"), P("K"), P("V"), P("O")])
    assert binding.persistent
    assert binding.list_dtype("tasks") == np.int32 and binding.list_dtype("offsets") == np.uint32


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([P("Q"), P("K"), P("V")], "3 arrays of rank 4"),
        ([P("Q"), P("K"), P("V"), P("O"), P("a", "f32", None)], "`a` has no meaning"),
        ([P("Q"), P("K"), P("V"), P("O"), P("tasks", "s32", ("N",))], "come together"),
        ([P("Q"), P("K"), P("V"), P("O"), P("tasks", "f32", ("N",)), LISTS[1]], "list of s32"),
        ([P("Q"), P("K", "f16"), P("V"), P("O")], "same for all"),
        ([P("a", "s8")] * 4, "same for all"),
        ([P("Q"), P("K"), P("V"), P("O"), *LISTS, P("task_list", "s32", ("M",))], "same role"),
    ],
)
def test_other_signatures_are_a_diagnostic(params, message):
    with pytest.raises(LaunchError, match=f"(?s)E-4151.*{message}"):
        bind(params)


def test_the_kernel_decides_the_type_and_fixed_sizes_must_fit():
    binding = bind([P(name, "f16") for name in "QKVO"])
    assert binding.adapt(AttentionWorkload(dtype="bf16")).dtype == "f16"
    with pytest.raises(LaunchError, match="E-4152.*`Q` fixes dim at 128, and the workload has 64"):
        binding.adapt(AttentionWorkload(dim=64))


def test_persistent_blocks_come_from_a_constant_grid():
    assert persistent_blocks([{"grid": [114]}]) == 114
    assert persistent_blocks([{"grid": ["66", 2, "1"]}]) == 132
    with pytest.raises(LaunchError, match="E-4153"):
        persistent_blocks([{"grid": ["cdiv(S, 128)"]}])
