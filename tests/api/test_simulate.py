"""Every case of tests/cases through the public API: compile, plan facts, simulation against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import croq
from tests.cases.cases import CASES
from tests.conftest import ROOT

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
RUNS = [
    pytest.param(
        case, defines, size, id=f"{case['file'][:-3]}-{size}-{'-'.join(f'{k}{v}' for k, v in defines.items())}"
    )
    for case in CASES
    if "reference" in case
    for defines in case.get("defines", [{}])
    for size in ("small", "tail")
    if size in case and not (size == "tail" and case["file"] == "attention_d64.co")
]


def compiled(case, defines):
    return croq.compile(ROOT / "tests/cases" / case["file"], defines=defines, kernel=case["kernel"])


def arguments(case, size):
    generator = np.random.default_rng(0)
    for _, dtype, shape, role in case["args"]:
        if shape is None:
            yield role
        else:
            extents = [case[size][d] if isinstance(d, str) else d for d in shape]
            values = 2 * generator.random(extents, np.float32) - 1
            yield (np.full(extents, np.nan) if role == "out" else values).astype(DTYPES[dtype])


@pytest.mark.parametrize(("case", "defines", "size"), RUNS)
def test_the_numbers_are_right(case, defines, size):
    values = list(arguments(case, size))
    names = [name for name, *_ in case["args"]]
    inputs = [
        v.astype(np.float64) if isinstance(v, np.ndarray) else v
        for v, (_, _, _, role) in zip(values, case["args"], strict=True)
        if role != "out"
    ]
    expected = case["reference"](*inputs)
    report = croq.simulate(compiled(case, defines), *values)
    assert report.complete
    for name, wanted in expected.items():
        got = values[names.index(name)].astype(np.float64)
        absolute, relative = case["tolerance"]
        np.testing.assert_allclose(got, wanted, atol=absolute * max(1, np.abs(wanted).max()), rtol=relative)


@pytest.mark.parametrize("case", [c for c in CASES if "plan" in c], ids=lambda c: f"{c['file']}-{c['kernel']}")
def test_the_plan_is_what_must_be_derived(case):
    for defines in case.get("defines", [{}]):
        (plan,) = compiled(case, defines).plan
        events = {event["name"]: event for event in plan["events"]}
        for name, facts in case["plan"]["events"].items():
            if "STAGES" in defines and "slots" in facts:
                facts = facts | {"slots": defines["STAGES"]}
            assert {key: events[name][key] for key in facts} == facts
        waits = {future: wait["depth"] for wait in plan["waits"] for future in wait["futures"]}
        for future, depth in case["plan"].get("wait_depths", {}).items():
            assert waits[future] == depth


class TestBlocks:
    def test_a_number_of_blocks_is_spread_over_the_grid(self):
        kernel = croq.compile(ROOT / "tests/cases/saxpy.co")
        x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
        report = croq.simulate(kernel, x, y, 2.0, blocks=2)
        assert report.blocks == ((0, 0, 0), (3, 0, 0)) and not report.complete
        assert y.reshape(4, 256).any(axis=1).tolist() == [True, False, False, True]

    @pytest.mark.parametrize("blocks", [0, -1])
    def test_no_blocks_are_refused(self, blocks):
        kernel = croq.compile(ROOT / "tests/cases/saxpy.co")
        with pytest.raises(croq.LaunchError) as caught:
            croq.simulate(kernel, np.ones(4, np.float32), np.ones(4, np.float32), 2.0, blocks=blocks)
        assert caught.value.diagnostics[0].code == "E-4070"

    def test_progress_is_told(self):
        kernel, seen = croq.compile(ROOT / "tests/cases/saxpy.co"), []
        x = np.ones(1024, np.float32)
        croq.simulate(kernel, x, x.copy(), 2.0, progress=lambda done, total: seen.append((done, total)))
        assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


class TestArguments:
    """A simulation obeys the rules of a launch."""

    KERNEL = property(lambda self: croq.compile(ROOT / "tests/cases/gemm_ring.co"))

    @staticmethod
    def matrix(*shape):
        return np.zeros(shape, ml_dtypes.bfloat16)

    def refused(self, *arrays, schedule="eager"):
        with pytest.raises(croq.LaunchError) as caught:
            croq.simulate(self.KERNEL, *arrays, schedule=schedule)
        return [d.code for d in caught.value.diagnostics]

    def test_shapes(self):
        assert self.refused(self.matrix(64, 64), self.matrix(128, 72), self.matrix(64, 128)) == ["E-4055"]

    def test_strides_of_the_copy_engine(self):
        assert "E-4014" in self.refused(self.matrix(64, 65), self.matrix(128, 65), self.matrix(64, 128))

    def test_a_transposed_array(self):
        assert "E-4058" in self.refused(self.matrix(64, 64).T, self.matrix(128, 64), self.matrix(64, 128))

    def test_a_read_only_output(self):
        c = self.matrix(64, 128)
        c.setflags(write=False)
        assert self.refused(self.matrix(64, 64), self.matrix(128, 64), c) == ["E-4064"]

    def test_something_that_is_no_array(self):
        assert self.refused(self.matrix(64, 64), [1, 2], self.matrix(64, 128)) == ["E-4067"]

    def test_strided_rows_are_fine_for_the_copy_engine(self):
        generator = np.random.default_rng(0)
        wide = (2 * generator.random((64, 128), np.float32) - 1).astype(ml_dtypes.bfloat16)
        b = (2 * generator.random((128, 64), np.float32) - 1).astype(ml_dtypes.bfloat16)
        a, c = wide[:, :64], self.matrix(64, 128)
        croq.simulate(self.KERNEL, a, b, c)
        expected = a.astype(np.float64) @ b.astype(np.float64).T
        np.testing.assert_allclose(c.astype(np.float64), expected, atol=0.1, rtol=1e-2)
