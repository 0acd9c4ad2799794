"""The numeric check: rows, rule, report."""

from __future__ import annotations

import json

import numpy as np
import pytest

from croq.bench.check import Rule, check_attention, rows_to_check
from croq.bench.inputs import AttentionInputs, make_inputs
from croq.bench.reference import attention_reference
from croq.bench.workload import AttentionWorkload
from croq.diagnostics import WrongResult

WORKLOAD = AttentionWorkload(batch=2, heads=2, seq=200, dim=16)


@pytest.fixture
def solved() -> AttentionInputs:
    inputs = make_inputs(WORKLOAD)
    every = {slab: range(WORKLOAD.seq) for slab in WORKLOAD.slabs}
    for part in attention_reference(inputs.q, inputs.k, inputs.v, every, causal=True):
        inputs.o[part.slab[0], :, part.slab[1]] = part.values
    return inputs


@pytest.mark.parametrize("seq", [1, 2, 64, 100, 128, 129, 200, 8192])
def test_rows_hold_edges_and_tails_of_every_slab(seq):
    chosen = rows_to_check(AttentionWorkload(2, 3, seq))
    assert len(chosen) == 6
    for rows in chosen.values():
        assert rows == sorted(set(rows)) and rows[0] >= 0 and rows[-1] == seq - 1
        wanted = {0, 1, 63, 64, 127, 128, 129, seq - 1, seq - 64, seq - 128} & set(range(seq))
        assert wanted <= set(rows)


def test_slabs_together_visit_every_tile():
    chosen = rows_to_check(AttentionWorkload(4, 32, 16384))
    assert {row // 128 for rows in chosen.values() for row in rows} == set(range(128))
    assert sum(map(len, chosen.values())) * 128 > 260_000


def test_a_right_output_passes_and_is_counted(solved):
    report = check_attention(solved)
    assert report.ok and 0 < report.max_abs_error < 0.004
    assert report.checked == 16 * sum(map(len, rows_to_check(WORKLOAD).values()))
    assert report.describe().startswith("ok: ")
    report.require()


def test_one_wrong_element_is_found_and_placed(solved):
    solved.o[1, 129, 0, 7] += 1
    report = check_attention(solved)
    assert not report.ok and report.outside_rule == 1
    assert report.worst is not None
    assert (report.worst.batch, report.worst.row, report.worst.head, report.worst.column) == (1, 129, 0, 7)
    assert "[1, 129, 0, 7]" in report.describe()
    with pytest.raises(WrongResult, match="E-4160"):
        report.require()


def test_an_error_within_the_rule_but_over_the_cap_fails(solved):
    solved.o[0, 64, 1, 3] += np.float32(0.02)
    report = check_attention(solved)
    assert report.outside_rule == 0 and report.max_abs_error > 0.01 and not report.ok
    assert check_attention(solved, rule=Rule(max_abs_error=0.05)).ok


def test_rows_that_nobody_wrote_and_nans_fail(solved):
    solved.o[0, 199, 0] = make_inputs(WORKLOAD).o[0, 199, 0]
    solved.o[0, 0, 0, 5] = np.nan
    report = check_attention(solved)
    assert not report.ok and report.not_numbers == 17 and report.unwritten == 16
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["worst"]["got"] == "nan"


def test_an_infinity_is_not_a_number(solved):
    solved.o[1, 0, 1, 0] = np.inf
    assert check_attention(solved).not_numbers == 1


def test_chosen_rows_only(solved):
    solved.o[1] = np.nan
    assert check_attention(solved, where={(0, 0): [3, 4], (0, 1): []}).checked == 2 * 16
    assert not check_attention(solved, where={}).ok  # nothing was checked


def test_a_slab_without_inputs_is_refused():
    inputs = make_inputs(WORKLOAD, [(0, 0)])
    with pytest.raises(ValueError, match="no inputs"):
        check_attention(inputs, where={(1, 1): [0]})
