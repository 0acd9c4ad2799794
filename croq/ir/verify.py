"""The invariants of the IR, checked between passes. A violation is a fault of croq, never of the program.

At every stage: operands are defined before use and visible (structured dominance), scalar operations have consistent
types, objects are declared in the kernel under unique names, fragments and variables come to life before they are
used, `break` and `continue` stand in loops, machine operations are ones that the machine has (croq/ir/machine.py). What
passes have promised by then is held, too: operations that are gone, facts (croq/ir/facts.py). At stage "hw" no tile
operation is left and all that emission needs holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal

import croq.numbers as numbers
from croq.diagnostics import Diagnostic, InternalError, make
from croq.functions import FUNCTIONS
from croq.ir import hw, machine, scalar
from croq.ir.core import Block, Composite, Object, Op, Value, names
from croq.ir.dispatch import Rules
from croq.ir.facts import LOWERED, Fact
from croq.ir.notation import KEYWORDS, op_fields
from croq.ir.objects import Buffer, Fragment, Kernel, Variable, View
from croq.ir.printer import print_op
from croq.ir.types import FLOATS, INTEGERS
from croq.operators import LOGICAL, OPERATORS

Stage = Literal["tile", "hw"]
CODE = "E-9001"


def verify(kernel: Kernel, stage: Stage, gone: Collection[type[Op]] = (), facts: Collection[Fact] = ()) -> None:
    """Raise `InternalError` with every violation. "tile" allows both vocabularies, "hw" is for what emission gets."""
    checker = _Checker(kernel, stage, gone, LOWERED if stage == "hw" else facts)
    checker.run()
    if checker.faults:
        raise InternalError(checker.faults)


class _Checker:
    def __init__(self, kernel: Kernel, stage: Stage, gone: Collection[type[Op]], facts: Collection[Fact]) -> None:
        self.kernel = kernel
        self.stage = stage
        self.gone, self.facts = frozenset(gone), facts
        self.faults: list[Diagnostic] = []
        self.declared = {obj for group in KEYWORDS.values() for obj in getattr(kernel, group)}
        self.defined: set[Value] = set()  # anywhere so far, visible or not

    def run(self) -> None:
        self._objects()
        self._block(self.kernel.body, set(), set(), False)

    def fault(self, op: Op | None, message: str) -> None:
        notes = [f"in kernel `{self.kernel.name}`, at stage {self.stage}"]
        if op is not None:
            notes.append(f"the operation: {print_op(op).splitlines()[0]}")
        hint = "this is a fault of croq, not of the program; please report it with the program"
        self.faults.append(
            make(CODE, op.span if op else None, f"internal check failed: {message}", notes=notes, hint=hint)
        )

    # ------------------------------------------------------------------------------------------------------ objects
    def _objects(self) -> None:
        for group in KEYWORDS.values():
            counts = Counter(obj.name for obj in getattr(self.kernel, group))
            for name, count in counts.items():
                if count > 1:
                    self.fault(None, f"two {group} are called `{name}`")
        for fact in self.facts:
            for message in fact.broken(self.kernel):
                self.fault(None, message)

    # --------------------------------------------------------------------------------------------------------- code
    def _block(self, block: Block, visible: set[Value], alive: set[Object], in_loop: bool) -> set[Value]:
        """Check a block; gives what is visible at its end."""
        visible, alive = set(visible), set(alive)
        for op in block.ops:
            self._op(op, visible, alive, in_loop)
        return visible

    def _op(self, op: Op, visible: set[Value], alive: set[Object], in_loop: bool) -> None:
        if type(op) in self.gone or (self.stage == "hw" and op.VOCABULARY == "tile"):
            self.fault(op, f"operation `{op.NAME}` is left")
        if op.CONTROL == "exit" and not in_loop:
            self.fault(op, f"`{op.NAME}` outside a loop")
        late = {op.condition} if isinstance(op, scalar.While) else set()  # comes out of its own head
        for value in op.operands():
            if value not in visible and value not in late:
                what = "out of scope" if value in self.defined else "not defined before its use"
                self.fault(op, f"operand `{value.name or value.type}` is {what}")
        for message in (*_type_faults(op), *self._machine_faults(op)):
            self.fault(op, message)
        self._references(op, alive)
        self._regions(op, visible, alive, in_loop)
        for info in op_fields(type(op)):
            result = getattr(op, info.name) if info.role == "left" else None
            if result is not None:
                self._define(op, result, visible)

    def _machine_faults(self, op: Op) -> Iterator[str]:
        found = machine.CHECKS.get(type(op))
        return iter(()) if found is None else found(op, self.kernel.target)

    def _regions(self, op: Op, visible: set[Value], alive: set[Object], in_loop: bool) -> None:
        in_loop = in_loop or op.CONTROL == "loop"
        inner = set(visible)
        for info in op_fields(type(op)):
            item = getattr(op, info.name)
            if info.role == "definition":
                if isinstance(op, hw.RegMap) and info.name == "iterators":
                    inner = set(visible)  # the rows' iterators are the row body's own
                for value in item if isinstance(item, tuple) else (item,):
                    self._define(op, value, inner)
            elif isinstance(item, Block):
                after = self._block(item, inner, alive, in_loop)
                if isinstance(op, scalar.While) and info.name == "head":
                    inner = after
                    if op.condition not in inner:
                        self.fault(op, "the condition is not defined in the loop's head")

    def _define(self, op: Op, value: Value, visible: set[Value]) -> None:
        if value in self.defined:
            self.fault(op, f"value `{value.name or value.type}` is defined twice")
        self.defined.add(value)
        visible.add(value)

    def _references(self, op: Op, alive: set[Object]) -> None:
        births = (
            op.frag if isinstance(op, scalar.FragDeclare) else op.var if isinstance(op, scalar.VarDeclare) else None
        )
        for obj in _objects_in(op):
            if obj not in self.declared:
                self.fault(op, f"`{obj.name}` is not among the kernel's objects")
            elif isinstance(obj, Fragment | Variable) and obj is not births and obj not in alive:
                self.fault(op, f"`{obj.name}` is used outside the block that declares it, or before")
        if births is not None:
            alive.add(births)


def _objects_in(op: Op) -> Iterator[Object]:
    for name in op.REFERENCES:
        yield from _objects_of(getattr(op, name))


def _objects_of(item: Any) -> Iterator[Object]:
    if isinstance(item, Object):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from _objects_of(part)
    elif isinstance(item, Composite):
        for name in names(type(item)):
            yield from _objects_of(getattr(item, name))


# ----------------------------------------------------------------------------------------------------------- types
def _type_faults(op: Op) -> Iterator[str]:
    found = _CHECKS.get(op)
    if found is not None:
        yield from found(op)


def _same(what: str, *types: str | None) -> Iterator[str]:
    known = {t for t in types if t is not None}
    if len(known) > 1:
        yield f"{what} of types {', '.join(sorted(known))}"


def _bool(what: str, value: Value) -> Iterator[str]:
    if value.type != "bool":
        yield f"{what} of type {value.type}, not bool"


def _integers(what: str, values: tuple[Value, ...]) -> Iterator[str]:
    for value in values:
        if value.type not in INTEGERS:
            yield f"{what} of type {value.type}, not an integer"


def _const(op: scalar.Const) -> Iterator[str]:
    kind, type = op.value.__class__, op.result.type
    if (kind is bool) != (type == "bool") or (kind is float) != (type in FLOATS):
        yield f"a constant of type {type} with the value {op.value!r}"


def _binary(op: scalar.Binary) -> Iterator[str]:
    if op.op in numbers.SHIFTS:
        yield from _integers("an amount", (op.right,))
    else:
        yield from _same("operands", op.left.type, op.right.type)
    if op.op in numbers.COMPARISONS:
        yield from _bool("the result of a comparison", op.result)
    elif op.op in LOGICAL:
        yield from _bool("an operand", op.left)
        yield from _bool("the result", op.result)
    else:
        yield from _same("operands and result", op.left.type, op.result.type)
        if OPERATORS[op.op].floats is None and op.left.type in FLOATS:
            yield f"`{op.op}` of {op.left.type}"


def _unary(op: scalar.Unary) -> Iterator[str]:
    yield from _same("operand and result", op.operand.type, op.result.type)
    if op.op == "lnot":
        yield from _bool("the operand", op.operand)


def _math(op: scalar.Math) -> Iterator[str]:
    function = FUNCTIONS.get(op.fn)
    if function is None or function.arity != len(op.args):
        yield f"no function `{op.fn}` of {len(op.args)} arguments"
    yield from _same("arguments and result", op.result.type, *(arg.type for arg in op.args))


def _select(op: scalar.Select) -> Iterator[str]:
    yield from _bool("the condition", op.condition)
    yield from _same("branches and result", op.then.type, op.otherwise.type, op.result.type)


def _view(view: View, indices: tuple[Value, ...]) -> Iterator[str]:
    rank = len(view.root.shape or ())
    if len(view.offsets) != rank or len(view.extents) != rank or any(not 0 <= d < rank for d in view.kept):
        yield f"a view of `{view.root.name}` with the wrong rank"
    if len(indices) != len(view.kept):
        yield f"{len(indices)} indices into a view of rank {len(view.kept)}"
    yield from _integers("an index", indices)


def _load(op: scalar.LoadElement) -> Iterator[str]:
    yield from _view(op.view, op.indices)
    yield from _same("an element and its value", op.view.root.type, op.result.type)


def _store(op: scalar.StoreElement) -> Iterator[str]:
    yield from _view(op.view, op.indices)
    yield from _same("an element and its value", op.view.root.type, op.value.type)


def _loop(op: scalar.For) -> Iterator[str]:
    yield from _integers("a loop's count", (op.count,))
    yield from _same("a loop's iterator and count", op.iv.type, op.count.type)


def _registers(*refs: str) -> Callable[[Any], Iterator[str]]:
    """Fragments in these fields must have layouts by now."""

    def look(op: Any) -> Iterator[str]:
        for name in refs:
            frag = getattr(op, name).frag
            if frag.layout is None or frag.type is None:
                yield f"fragment `{frag.name}` has no layout yet"

    return look


def _reg_copy(op: hw.RegCopy) -> Iterator[str]:
    dest, source = op.dest.frag, op.source.frag
    if (dest.layout, dest.type, dest.packed) != (source.layout, source.type, source.packed):
        yield f"`{dest.name}` and `{source.name}` differ in layout or type"


def _reg_load(op: hw.RegLoad) -> Iterator[str]:
    yield from _registers("frag")(op)
    frag, root = op.frag.frag, op.source.root
    yield from _same("a fragment and the tile that fills it", frag.type, root.type)
    if not (frag.packed and isinstance(root, Buffer) and root.storage == "shared"):
        yield f"`{frag.name}` from `{root.name}`: ldmatrix loads 16-bit elements from shared memory"
    elif op.source.static_shape != frag.shape:
        yield f"a fragment of shape {frag.shape} from a tile of shape {op.source.static_shape}"


def _fill(op: hw.RegFill) -> Iterator[str]:
    yield from _registers("frag")(op)
    yield from _same("a fragment and its fill value", op.frag.frag.type, op.value.type)


def _section(op: hw.Section) -> Iterator[str]:
    if op.condition is not None:
        yield from _bool("the condition", op.condition)


def _slot(op: Any) -> Iterator[str]:
    if op.slot is not None:
        yield from _integers("a slot", (op.slot,))


_CHECKS = Rules[Callable[[Any], Iterator[str]]]("verifier of the IR")
_CHECKS.of = {
    scalar.Const: _const,
    scalar.Binary: _binary,
    scalar.Unary: _unary,
    scalar.Select: _select,
    scalar.Math: _math,
    scalar.LoadElement: _load,
    scalar.StoreElement: _store,
    scalar.FragRead: lambda op: _same("a fragment and its value", op.frag.frag.type, op.result.type),
    scalar.FragWrite: lambda op: _same("a fragment and its value", op.frag.frag.type, op.value.type),
    scalar.VarDeclare: lambda op: _same("a variable and its value", op.var.type, op.value.type),
    scalar.VarGet: lambda op: _same("a variable and its value", op.var.type, op.result.type),
    scalar.VarSet: lambda op: _same("a variable and its value", op.var.type, op.value.type),
    scalar.For: _loop,
    scalar.While: lambda op: _bool("the condition", op.condition),
    scalar.If: lambda op: _bool("the condition", op.condition),
    hw.Section: _section,
    hw.MbarrierArrive: _slot,
    hw.MbarrierExpectTx: _slot,
    hw.MbarrierWait: _slot,
    hw.BulkTensorLoad: _slot,
    hw.RegFill: _fill,
    hw.RegCopy: _reg_copy,
    hw.RegMap: _registers("domain"),
    hw.RegReduceRow: _registers("dest", "source"),
    hw.RegShuffleReduce: _registers("frag"),
    hw.RegLoad: _reg_load,
    hw.RegStore: _registers("frag"),
}
_CHECKS.without("of any type", scalar.Symbol, scalar.ThreadIndex, scalar.BlockIndex, scalar.Cast)
_CHECKS.without("C++ text has its own types", scalar.Call, scalar.Cpp)
_CHECKS.without("no values", scalar.Break, scalar.Continue, scalar.FragDeclare, hw.Elect, hw.MbarrierInit)
_CHECKS.without("no values", hw.MbarrierInitFence, hw.CtaSync, hw.WarpSync, hw.ProxyFence, hw.BulkCommit, hw.BulkWait)
_CHECKS.without("no values", hw.WgmmaFence, hw.WgmmaCommit, hw.WgmmaWait)
_CHECKS.without("asked of the machine", *machine.CHECKS)
_CHECKS.without("places of the passes' own making", hw.BulkTensorStore, hw.CopyTile, hw.FillTile)
