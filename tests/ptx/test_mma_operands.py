"""Parts of shared tiles as operands of MMAs: the descriptors in the PTX give what NumPy gives, for every variant."""

from __future__ import annotations

import pytest

import croq
from tests.programs.harness import Case, cases, make_run

pytestmark = pytest.mark.nvrtc

PARTS = [case for case in cases() if case.program.name in ("k_parts", "m_parts", "mn_parts")]


@pytest.mark.parametrize("case", PARTS, ids=lambda case: case.id)
def test_every_variant_is_right(case: Case) -> None:
    kernel = croq.compile(case.path, case.defines, verify=False).kernels[case.program.name]
    made = make_run(case, case.variant.sizes[0])
    arrays = made.fresh()
    croq.simulate(kernel, *(arrays[p.name] for p in kernel.params), level="ptx")
    assert made.faults(arrays) == []
