"""The operators of scalars: one row each, from which every stage takes its part.

What they do to integers is in croq/numbers.py under the same names. Sema takes spelling and operands, `#if` and
emission the precedence of C, analyses the NumPy function, timelines the instructions. Who has rules of its own (the
grammar, folding, the verifier, the simulator, the IR's type) is held against the rows by tests/api/test_operators.py,
which names what was forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

PRIMARY, UNARY, MUL, ADD, SHIFT, RELATION, EQUALITY, AND, XOR, OR, LAND, LOR, TERNARY = range(20, 7, -1)
Work = Mapping[str, float]
_ALU, _FMA = {"alu": 1.0}, {"fma": 1.0}


@dataclass(frozen=True)
class Operator:
    """`spelling`: in programs and in C++. `level`: how tightly C binds it (programs bind alike, but for `bits`, which
    bind more tightly than all others); `PRIMARY` is written as a call. `vector`: of NumPy integers of one type; None
    where a divisor of 0 asks for more. `work`, `floats`: instructions by pipe on integers and on floats, None where it
    has no floats. `neutral`: on the right. `guarded`: the runtime's function, right for all operands.
    """

    name: str
    spelling: str
    kind: Literal["arithmetic", "shift", "bits", "comparison", "logic"]
    level: int
    vector: Any
    work: Work
    floats: Work | None
    neutral: int | None = None
    guarded: str = ""
    swapped: str = ""  # of comparisons: the one that holds with the sides exchanged
    denied: str = ""  # and the one that holds when this does not


_ROWS = (
    Operator("add", "+", "arithmetic", ADD, np.add, _ALU, _FMA, 0, "croq::add"),
    Operator("sub", "-", "arithmetic", ADD, np.subtract, _ALU, _FMA, 0, "croq::sub"),
    Operator("mul", "*", "arithmetic", MUL, np.multiply, _ALU, _FMA, 1, "croq::mul"),
    Operator("div", "/", "arithmetic", MUL, None, {"alu": 2}, {"xu": 1, "fma": 2}, 1, "croq::quotient"),
    Operator("mod", "%", "arithmetic", MUL, None, {"alu": 2}, None, None, "croq::remainder"),
    Operator("shl", "<<", "shift", SHIFT, np.left_shift, _ALU, None, 0, "croq::shl"),
    Operator("shr", ">>", "shift", SHIFT, np.right_shift, _ALU, None, 0, "croq::shr"),
    Operator("and", "&", "bits", AND, np.bitwise_and, _ALU, None),
    Operator("or", "|", "bits", OR, np.bitwise_or, _ALU, None, 0),
    Operator("xor", "^", "bits", XOR, np.bitwise_xor, _ALU, None, 0),
    Operator("min", "min", "arithmetic", PRIMARY, np.minimum, _ALU, _ALU),
    Operator("max", "max", "arithmetic", PRIMARY, np.maximum, _ALU, _ALU),
    Operator("cdiv", "cdiv", "arithmetic", PRIMARY, None, {"alu": 2}, None, 1, "croq::ceiling"),
    Operator("lt", "<", "comparison", RELATION, np.less, _ALU, _ALU, swapped="gt", denied="ge"),
    Operator("gt", ">", "comparison", RELATION, np.greater, _ALU, _ALU, swapped="lt", denied="le"),
    Operator("le", "<=", "comparison", RELATION, np.less_equal, _ALU, _ALU, swapped="ge", denied="gt"),
    Operator("ge", ">=", "comparison", RELATION, np.greater_equal, _ALU, _ALU, swapped="le", denied="lt"),
    Operator("eq", "==", "comparison", EQUALITY, np.equal, _ALU, _ALU, swapped="eq", denied="ne"),
    Operator("ne", "!=", "comparison", EQUALITY, np.not_equal, _ALU, _ALU, swapped="ne", denied="eq"),
    Operator("land", "&&", "logic", LAND, np.logical_and, _ALU, None),
    Operator("lor", "||", "logic", LOR, np.logical_or, _ALU, None),
)
OPERATORS: dict[str, Operator] = {row.name: row for row in _ROWS}
SPELLED: dict[str, Operator] = {row.spelling: row for row in _ROWS}
SYMBOLS = tuple(row.spelling for row in _ROWS if row.level < PRIMARY)  # those that stand between their operands
PREFIXES = {"neg": "-", "not": "~", "lnot": "!"}
PREFIXED = {spelling: name for name, spelling in PREFIXES.items()}


def spellings(*kinds: str) -> frozenset[str]:
    return frozenset(row.spelling for row in _ROWS if row.kind in kinds)


LOGICAL = frozenset(row.name for row in _ROWS if row.kind == "logic")
TRUTHS = LOGICAL | {row.name for row in _ROWS if row.kind == "comparison"}  # those whose result is a bool
COMPOUND = frozenset(f"{symbol}=" for symbol in spellings("arithmetic").intersection(SYMBOLS))
SWAPPED = {row.name: row.swapped for row in _ROWS if row.swapped}
DENIED = {row.name: row.denied for row in _ROWS if row.denied}
