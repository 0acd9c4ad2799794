"""The table of operators (croq/operators.py) and what must agree with it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from croq import numbers
from croq.functions import FUNCTIONS, Function
from croq.ir.scalar import BinaryOp
from croq.ir.types import INTEGERS
from croq.operators import COMPOUND, DENIED, OPERATORS, PREFIXES, PRIMARY, SWAPPED, SYMBOLS, Operator
from croq.resources import resource
from croq.sema import arithmetic as sema
from croq.sema.calls import ON_TWO
from croq.simulate import arithmetic as simulated
from croq.simulate.ops_scalar import DIVISION
from croq.timelines.costs import Work
from croq.verify import intervals, values

GRAMMAR = resource("grammar", "croq.lark").read_text(encoding="utf-8")
RUNTIME = resource("runtime", "croq.cuh").read_text(encoding="utf-8")
CASES = (*range(-9, 10), 2**31 - 1, -(2**31), 1 << 20)


def symbols(text: str) -> set[str]:
    return set(re.findall(r'"([^"\w]+)"', text))


# The operators between operands as the grammar has them, loosest first; `#` composes indices and is no arithmetic.
BINARY = [symbols(line) - {"#"} for line in re.findall(r"^\?\w+: .*(?=-> binary$)", GRAMMAR, re.MULTILINE)]


def runtime_has(function: str) -> bool:
    return re.search(rf"^CROQ_FN \w+ {re.escape(function.removeprefix('croq::'))}\(", RUNTIME, re.MULTILINE) is not None


def has_vectors(row: Operator) -> bool:
    if row.name in DIVISION:
        return True
    try:
        simulated.binary(row.name, "s32")
    except KeyError:
        return False
    return True


Rules = Mapping[str, Callable[[Operator], bool]]
CONSUMERS: Rules = {
    "the grammar": lambda row: any(row.spelling in level for level in BINARY) or row.spelling in ON_TWO.values(),
    "the type of `binary` in the IR": lambda row: row.name in get_args(BinaryOp),
    "croq/numbers.py": lambda row: row.kind == "logic" or row.name in {**numbers.ARITHMETIC, **numbers.COMPARISONS},
    "the runtime": lambda row: not (row.guarded or row.level == PRIMARY) or runtime_has(row.guarded or row.name),
    "the simulator": has_vectors,
    "the values of the verifier": lambda row: row.name in values.BINARY,
    "the intervals of the verifier": lambda row: row.name in {**intervals.RULES, **intervals.COMPARED},
}


def forgotten(rows: Iterable[Operator]) -> list[str]:
    return [f"{who} has no `{row.name}`" for row in rows for who, has in CONSUMERS.items() if not has(row)]


def test_every_consumer_has_every_operator() -> None:
    assert forgotten(OPERATORS.values()) == []


def test_what_an_added_operator_lacks_is_named() -> None:
    row = replace(OPERATORS["shl"], name="rotate", spelling="<<<", guarded="croq::rotate")
    assert forgotten([row]) == [f"{who} has no `rotate`" for who in CONSUMERS]


def test_an_added_function_that_the_runtime_lacks_is_named() -> None:
    row = Function("cbrt", 1, "croq::cbrt", np.cbrt, {"xu": 1}, "1 ulp")
    assert [f.name for f in (*FUNCTIONS.values(), row) if not runtime_has(f.cpp)] == ["cbrt"]


def test_no_consumer_has_an_operator_without_a_row() -> None:
    assert get_args(BinaryOp) == tuple(OPERATORS)
    assert set(values.BINARY) == set(OPERATORS)
    assert set(intervals.RULES) | set(intervals.COMPARED) == set(OPERATORS)
    assert set(numbers.ARITHMETIC) | set(numbers.COMPARISONS) == {n for n, r in OPERATORS.items() if r.kind != "logic"}
    assert set(numbers.DIVISIONS) == set(DIVISION) == {name for name, row in OPERATORS.items() if row.vector is None}
    assert set(numbers.SHIFTS) == {name for name, row in OPERATORS.items() if row.kind == "shift"}


def test_the_grammar_binds_as_the_rows_say() -> None:
    """By the levels of C, and `bits` in one level that is tighter than all others."""
    spelled = [row for row in OPERATORS.values() if row.level < PRIMARY]
    rest = sorted((row for row in spelled if row.kind != "bits"), key=lambda row: row.level)
    levels = [{row.spelling for row in level} for _, level in itertools.groupby(rest, key=lambda row: row.level)]
    assert [level for level in BINARY if level] == [*levels, {row.spelling for row in spelled if row.kind == "bits"}]


def test_the_grammar_has_the_compound_and_prefix_forms() -> None:
    compound = re.search(r'place \(("\+=".*)\) expr', GRAMMAR)
    assert compound is not None and symbols(compound[1]) == COMPOUND
    prefixes = symbols("".join(re.findall(r"^\??[\w:| ?]*(.*)-> prefix$", GRAMMAR, re.MULTILINE)))
    assert prefixes == set(PREFIXES.values())


def test_symbolic_values_are_combined_by_operators_alone() -> None:
    assert set(sema._ON_DIMS) <= {row.spelling for row in OPERATORS.values()}
    assert set(ON_TWO.values()) == {row.spelling for row in OPERATORS.values()} - set(SYMBOLS)


@pytest.mark.parametrize("name", OPERATORS)
def test_its_costs_name_pipes(name: str) -> None:
    row = OPERATORS[name]
    assert Work(**row.work) and Work(**(row.floats or {}))


@pytest.mark.parametrize("name", SWAPPED)
def test_a_comparison_is_its_swapped_and_the_opposite_of_its_denied(name: str) -> None:
    for a, b in itertools.product(CASES, CASES):
        found = numbers.COMPARISONS[name](a, b)
        assert found == numbers.COMPARISONS[SWAPPED[name]](b, a) != numbers.COMPARISONS[DENIED[name]](a, b)


@pytest.mark.parametrize("name", [name for name, row in OPERATORS.items() if row.neutral is not None])
@pytest.mark.parametrize("type", sorted(INTEGERS))
def test_the_neutral_changes_nothing(name: str, type: str) -> None:
    neutral = OPERATORS[name].neutral
    assert neutral is not None
    for a in (numbers.wrap(a, type) for a in CASES):
        assert numbers.integer(name, a, neutral, type) == a


@pytest.mark.parametrize("name", [name for name, row in OPERATORS.items() if row.kind != "logic"])
def test_every_room_computes_the_same(name: str) -> None:
    """Folding, the row's vector, the simulator's, the verifier's."""
    row = OPERATORS[name]
    pairs = [(a, b) for a, b in itertools.product(CASES, CASES) if b or name not in numbers.DIVISIONS]
    if row.kind == "shift":
        pairs = [(a, b) for a, b in pairs if 0 <= b < 32]
    exact = np.array([numbers.integer(name, a, b, "s32") for a, b in pairs], np.int64)
    a, b = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    if row.vector is not None:
        assert np.array_equal(row.vector(a.astype(np.int32), b.astype(np.int32)), exact)
    ours = DIVISION.get(name) or simulated.binary(name, "s32")
    with np.errstate(over="ignore"):
        found = np.asarray(ours(a.astype(np.int32), b.astype(np.int32)))
    kept = np.ones(len(pairs), bool) if name != "div" else ~((a == -(2**31)) & (b == -1))  # NumPy's own overflow
    assert np.array_equal(found[kept], exact[kept])
    assert [int(values.wrap(values.BINARY[name](x, y) + 0, "s32")) for x, y in pairs] == exact.tolist()


@pytest.mark.parametrize("name", [name for name, row in OPERATORS.items() if row.kind == "arithmetic"])
def test_intervals_of_the_verifier_hold_what_folding_gives(name: str) -> None:
    """The verifier may know less than croq/numbers.py, and never other."""
    ends = [(lo, hi) for lo, hi in itertools.product(range(-5, 6), range(-5, 6)) if lo <= hi]
    for a, b in itertools.product(ends, ends):
        found = intervals.RULES[name](a, b)
        if found is None:
            continue
        for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
            assert found[0] <= numbers.integer(name, x, y, "s32") <= found[1], (a, b, x, y)
