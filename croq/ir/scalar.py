"""Scalar arithmetic, variables, control flow, element access: the part of the IR that both vocabularies share.

Integers are two's complement of their type's width and wrap; what the operators mean is in croq.numbers.
"""

from __future__ import annotations

from typing import Literal

from croq.ir.core import Block, Op, Read, Update, Value, Write, operation
from croq.ir.objects import Fragment, FragRef, Variable, View


@operation("const", pure=True)
class Const(Op):
    """A literal of result's type; `value` is an int, a bool, or a float (inf and nan included)."""

    value: int | float | bool
    result: Value


@operation("symbol", pure=True)
class Symbol(Op):
    """A symbolic dimension, or a scalar parameter by name: the same in every thread of the grid."""

    symbol: str
    result: Value


@operation("thread_index", pure=True)
class ThreadIndex(Op):
    """Linear index of the thread in its CTA."""

    result: Value


@operation("block_index", pure=True)
class BlockIndex(Op):
    """blockIdx along axis 0 (x), 1 (y) or 2 (z)."""

    axis: int
    result: Value


BinaryOp = Literal[
    "add", "sub", "mul", "div", "mod", "shl", "shr", "and", "or", "xor", "min", "max", "cdiv",
    "lt", "gt", "le", "ge", "eq", "ne", "land", "lor",
]  # fmt: skip


@operation("binary", pure=True)
class Binary(Op):
    """Both operands have one type, but the amount of a shift may be any integer; comparisons, `land` and `lor` give
    bool. Operands are evaluated, not short-cut. `guarded`: operands may come for which C++ has no result (overflow of
    a signed type, an amount beyond the width, a divisor of 0): pass `ranges`.
    """

    op: BinaryOp
    left: Value
    right: Value
    result: Value
    guarded: bool | None = None


@operation("unary", pure=True)
class Unary(Op):
    """`guarded` as for `binary`."""

    op: Literal["neg", "not", "lnot"]
    operand: Value
    result: Value
    guarded: bool | None = None


@operation("select", pure=True)
class Select(Op):
    condition: Value
    then: Value
    otherwise: Value
    result: Value


@operation("cast", pure=True)
class Cast(Op):
    """Value conversion to result's type; float to narrower float rounds to nearest even."""

    operand: Value
    result: Value


@operation("math", pure=True)
class Math(Op):
    """A function of floats, by its name in croq/functions.py."""

    fn: str
    args: tuple[Value, ...]
    result: Value


@operation("load_element")
class LoadElement(Op):
    """One element of a view, at indices relative to the view's kept dimensions."""

    ORDINARY = True

    view: Read[View]
    indices: tuple[Value, ...]
    result: Value


@operation("store_element")
class StoreElement(Op):
    ORDINARY = True

    view: Write[View]
    indices: tuple[Value, ...]
    value: Value


@operation("frag_read")
class FragRead(Op):
    """Inside a map: the element of the fragment at the map's iterators (all of them, or only the row)."""

    ORDINARY = True

    frag: Read[FragRef]
    indices: tuple[Value, ...]
    result: Value


@operation("frag_write")
class FragWrite(Op):
    ORDINARY = True

    frag: Write[FragRef]
    indices: tuple[Value, ...]
    value: Value


@operation("var.declare")
class VarDeclare(Op):
    ORDINARY = True

    var: Write[Variable]
    value: Value


@operation("var.get")
class VarGet(Op):
    ORDINARY = True

    var: Read[Variable]
    result: Value


@operation("var.set")
class VarSet(Op):
    """`uniform`: all lanes of each warp set the same value, and emission may take it from one of them."""

    ORDINARY = True

    var: Write[Variable]
    value: Value
    uniform: bool | None = None


Assignment = VarDeclare | VarSet


@operation("for")
class For(Op):
    """`iv` runs 0 .. count-1; count is evaluated once, and a count below 1 means no iteration."""

    CONTROL = "loop"

    iv: Value
    count: Value
    body: Block


@operation("while")
class While(Op):
    """`head` computes `condition` (a value defined in it) before each iteration."""

    CONTROL = "loop"

    head: Block
    condition: Value
    body: Block


@operation("if")
class If(Op):
    CONTROL = "branch"

    condition: Value
    then: Block
    otherwise: Block | None


@operation("break")
class Break(Op):
    CONTROL = "exit"


@operation("continue")
class Continue(Op):
    CONTROL = "exit"


@operation("call")
class Call(Op):
    """A call of a C++ device function; fragments and data decay to pointers."""

    NOUN = "a call"
    OPAQUE = True

    callee: str
    template_args: tuple[str, ...]
    args: Update[tuple[Value | FragRef | View, ...]]
    result: Value | None


@operation("cpp")
class Cpp(Op):
    """Text emitted verbatim; the simulator cannot run it."""

    OPAQUE = True

    text: str


@operation("frag.declare")
class FragDeclare(Op):
    """Where the fragment's registers come to life; its contents are undefined until written."""

    REGISTERS = True

    frag: Fragment
