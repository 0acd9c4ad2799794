"""The slice of a kernel as a Python generator function: one instance follows one warp.

Scalars are local variables, control flow is Python's, and each operation of the protocol is one call of the machine
that executes it. Lanes that part are followed together under a mask `m..`; calls that may block are loops around
`yield`.
The text is generated once for a kernel; the machine and the warp come in as `S` and `W`, per-warp constants as `K`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from croq.ir import scalar
from croq.ir.core import Block, Op, Value
from croq.ir.dispatch import Rules
from croq.ir.hw import Section
from croq.ir.objects import Buffer, Kernel, Variable, View
from croq.ir.types import FLOATS, FUTURE
from croq.source import Span
from croq.target.cuda import WARP
from croq.verify import values
from croq.verify.assumptions import written
from croq.verify.device_text import DeviceText
from croq.verify.expressions import pure
from croq.verify.intervals import FAR, Intervals
from croq.verify.leaves import Expressions
from croq.verify.places import decide_places
from croq.verify.slicing import Lanes, Slice, invariant, is_shared


@dataclass(eq=False)
class Site:
    """An operation of the protocol in the program, and what the machine needs to know of it."""

    op: Op
    number: int
    role: str
    kind: str  # what the operation does, in words: "load", "wait"
    objects: dict[str, Any] = field(default_factory=dict)

    @property
    def span(self) -> Span | None:
        return self.op.span

    @property
    def place(self) -> str:
        return f"{self.span.line}:{self.span.column}" if self.span is not None else "-"


@dataclass(eq=False)
class Loop:
    op: scalar.For | scalar.While
    number: int
    trips: set[int] = field(default_factory=set)  # seen over all runs


@dataclass(eq=False)
class Sample:
    """A run in which a decision fell, and the values of the warp's locals at that moment."""

    symbols: dict[str, int]
    place: tuple[int, int, int]
    memory: dict[tuple[Any, ...], int]  # scalars of global memory that were read
    locals: dict[str, Any]
    reads: dict[Value, Any]  # where each scalar was read last: one place, or one a lane
    lanes: int  # those that took the side


MOST_SAMPLES = 6


@dataclass(eq=False)
class Decision:
    """Something that has two sides: a branch, whether a loop is entered, a choice, a comparison, a place inside or not.

    Of each side (0: false, 1: true) and warp: `taken` are the lanes that some run led there, `samples` how.
    """

    op: Op
    condition: Value  # of a loop its count
    what: str  # "branch", "loop", "choice", "comparison", "place", "slot"
    warps: list[int]  # the lanes that exist
    taken: tuple[list[int], list[int]] = field(init=False)
    samples: dict[tuple[int, int], list[Sample]] = field(default_factory=dict)  # by side and warp
    done: list[bool] = field(init=False)  # all lanes of the warp have taken both sides

    def __post_init__(self) -> None:
        self.taken = ([0] * len(self.warps), [0] * len(self.warps))
        self.done = [False] * len(self.warps)

    def missing(self, side: int, warp: int) -> int:
        """Lanes that have come here and never taken the side."""
        return self.taken[1 - side][warp] & ~self.taken[side][warp]

    def take(self, side: int, warp: int, lanes: int) -> int:
        """Give those that are new."""
        new = lanes & ~self.taken[side][warp]
        self.taken[side][warp] |= new
        self.done[warp] = self.taken[0][warp] == self.taken[1][warp] == self.warps[warp]
        return new

    def forget(self, side: int, warp: int, lanes: int) -> None:
        self.taken[side][warp] &= ~lanes
        self.done[warp] = False


@dataclass(eq=False)
class Load:
    """A scalar that the kernel reads from global memory."""

    op: scalar.LoadElement
    number: int


Translator = Callable[["Coder", Any, str], None]


@dataclass(eq=False)
class Level:
    """How the operations of one stage of the IR are followed."""

    name: str
    rules: Rules[Translator]  # a kernel that has an operation without a rule is not decided
    flush: Callable[[Coder, list[Op], str], None]  # makes the call for a run of operations on registers
    operands: Callable[[Op], Iterable[Value]]  # what must be computed for an operation
    machine: type[Any]  # what executes the calls

    def protocol(self, op: Op) -> bool:
        """Whether it is of the protocol: all that is not arithmetic, control or a variable of the thread."""
        if isinstance(op, scalar.LoadElement | scalar.StoreElement):
            return is_shared(op.view)
        return not (op.PURE or op.CONTROL == "threads" or type(op) in _COMMON)


class Program:
    """A kernel made ready to be followed many times."""

    def __init__(self, kernel: Kernel, level: Level) -> None:
        self.kernel = kernel
        self.level = level
        self.warps = -(-kernel.threads // WARP)
        self.slice = Slice(kernel, level.protocol, level.operands)
        self.lanes = Lanes(self.slice)
        self.expressions = Expressions(self.slice)
        self.intervals = Intervals(kernel, self.lanes, self.expressions)
        self.widths = Intervals(kernel, self.lanes, self.expressions, most=FAR)
        self.sites: list[Site] = []
        self.loops: list[Loop] = []
        self.loads: list[Load] = []
        self.counts = [op.count for op in self.slice.ordered() if isinstance(op, scalar.For)]
        self.decisions: list[Decision] = []
        self.names: dict[Value, str] = {}  # of the local variable that holds a value
        self.written = written(kernel)
        self.device_text = DeviceText(kernel.device_text)
        coder = Coder(self)
        coder.generate()
        self.text = "\n".join(coder.lines)
        self._code: CodeType = compile(self.text, f"<{kernel.name}>", "exec")
        self._globals = coder.globals
        self.function = self._function()
        self.facts: dict[str, Any] = {}  # what a level finds out once
        self.cache: dict[Any, int] = {}  # element sets, shared by all runs
        self.boxes: dict[tuple[int, ...], int] = {}
        self.constants = [
            [values.collapse(c[warp * WARP : (warp + 1) * WARP]) for c in coder.constants] for warp in range(self.warps)
        ]

    def _function(self) -> Callable[..., Any]:
        scope = dict(self._globals)
        exec(self._code, scope)  # generated above, from the IR alone
        made: Callable[..., Any] = scope["follow"]
        return made


class Coder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.kernel = program.kernel
        self.slice, self.analysis = program.slice, program.lanes
        self.lines: list[str] = []
        self.depth = 0
        self.fresh = 0
        self.globals: dict[str, Any] = {n: getattr(values, n) for n in dir(values) if not n.startswith("_")}
        self.constants: list[Any] = []
        self.constant_names: dict[Any, str] = {}
        self.variables: dict[Variable, str] = {}
        self.loop_masks: list[str] = []
        self.pending: list[Op] = []  # register operations that no call has been made for

    def generate(self) -> None:
        self.line("def follow(S, W, m0, K):")
        self.depth += 1
        self.line("if False: yield")
        start = len(self.lines)
        self.block(self.kernel.body, "m0")
        self.lines[start:start] = [
            f"    {name} = None" for value, name in self.program.names.items() if value.type == FUTURE
        ]
        self.depth -= 1

    # -------------------------------------------------------------------------------------------------------- text
    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def new(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def constant(self, key: Any, row: Any) -> str:
        """A constant of each warp: `row` has one entry a thread."""
        if key not in self.constant_names:
            self.constant_names[key] = f"K[{len(self.constants)}]"
            self.constants.append(row)
        return self.constant_names[key]

    def name_global(self, prefix: str, item: Any) -> str:
        name = self.new(prefix)
        self.globals[name] = item
        return name

    def site(self, op: Op, kind: str, *, within: Op | None = None, **objects: Any) -> str:
        """`within`: the map that `op` stands in."""
        label = ""
        for outer in self.slice.around[within or op]:
            if isinstance(outer, Section) and outer.role and outer.label:
                label = outer.label
        site = Site(op, len(self.program.sites), label, kind, objects)
        self.program.sites.append(site)
        return self.name_global("s", site)

    def value(self, value: Value | int | None) -> str:
        if value is None:
            return "0"
        if isinstance(value, int):
            return str(value)
        fixed = self.analysis.fixed(value)
        if fixed is not None:
            first = int(fixed[0])
            if (fixed == first).all():
                return str(bool(first)) if value.type == "bool" else str(first)
            return self.constant(value, fixed)
        return self.program.names.get(value, "UNKNOWN")

    def made(self, name: scalar.BinaryOp, left: Value, right: Value, type_: str) -> Value:
        """A value that the kernel does not compute, to ask about."""
        op = scalar.Binary(name, left, right, Value(type_))
        self.slice.definition[op.result] = op
        return op.result

    def number(self, value: int) -> Value:
        op = scalar.Const(value, Value("s64"))
        self.slice.definition[op.result] = op
        return op.result

    def decide(self, op: Op, condition: Value, what: str, text: str, mask: str) -> None:
        """Record which sides of a decision the lanes of `mask` take. Where threads alone decide, all is followed."""
        if self.analysis.fixed(condition) is not None:
            return
        threads = self.kernel.threads
        warps = [(1 << min(WARP, threads - first)) - 1 for first in range(0, threads, WARP)]
        decision = Decision(op, condition, what, warps)
        self.program.decisions.append(decision)
        name = self.name_global("d", decision)
        self.line(f"if not {name}.done[W.index]: S.decide({name}, W, {mask}, {text})")

    def tuple_of(self, items: Iterable[Value | int | None]) -> str:
        parts = [self.value(item) for item in items]
        return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"

    def bind(self, value: Value, text: str) -> None:
        if value in self.slice.needed and self.analysis.fixed(value) is None:
            name = self.program.names.setdefault(value, self.new("v"))
            self.line(f"{name} = {text}")

    def coordinates(self, view: View, indices: tuple[Value, ...]) -> str:
        """The root coordinates of an element of the view."""
        index = dict(zip(view.kept, indices, strict=True))
        parts = []
        for d, offset in enumerate(view.offsets):
            at = self.value(offset)
            parts.append(f"{at} + {self.value(index[d])}" if d in index else at)
        return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"

    # -------------------------------------------------------------------------------------------------------- code
    def block(self, block: Block, mask: str) -> None:
        before = len(self.lines)
        for op in block.ops:
            if op in self.slice.relevant:
                self.op(op, mask)
        self.flush(mask)
        if len(self.lines) == before:
            self.line("pass")

    def flush(self, mask: str) -> None:
        if self.pending:
            pending, self.pending = self.pending, []
            self.program.level.flush(self, pending, mask)

    def op(self, op: Op, mask: str) -> None:
        level = self.program.level
        for inner in invariant(op):
            if inner in self.slice.relevant:
                self.op(inner, mask)
        in_run = op.REGISTERS or isinstance(op, scalar.Call)
        if in_run:
            self.pending.append(op)
        if op in self.slice.protocol:
            decide_places(self, op, mask)
        translator = level.rules.get(op)
        if translator is not None:
            if not (in_run or op.PURE):
                self.flush(mask)
            translator(self, op, mask)
        else:
            self.unruled(op)

    def unruled(self, op: Op, within: Op | None = None) -> None:
        """Nothing is known of the operation: who comes here is not followed any further."""
        self.line(f"S.unruled({self.site(op, op.NAME, within=within)})")

    def nested(self, head: str, block: Block, mask: str) -> None:
        self.line(head)
        self.depth += 1
        self.block(block, mask)
        self.depth -= 1

    def narrowed(self, condition: str, block: Block, mask: str) -> None:
        """The block under the lanes of `mask & condition`."""
        inner = self.new("m")
        self.line(f"{inner} = {mask} & {condition}")
        self.nested(f"if {inner}:", block, inner)


# -------------------------------------------------------------------------------------------- control and variables
def _declare(coder: Coder, op: scalar.VarDeclare, mask: str) -> None:
    name = coder.variables.setdefault(op.var, coder.new("x"))
    coder.line(f"{name} = {coder.value(op.value)}")


def _get(coder: Coder, op: scalar.VarGet, mask: str) -> None:
    coder.bind(op.result, coder.variables.get(op.var, "UNKNOWN"))


def _set(coder: Coder, op: scalar.VarSet, mask: str) -> None:
    name = coder.variables.setdefault(op.var, coder.new("x"))
    if op.var in coder.analysis.varying:
        coder.line(f"{name} = merge({mask}, {coder.value(op.value)}, {name})")
    else:
        coder.line(f"{name} = {coder.value(op.value)}")


def _if(coder: Coder, op: scalar.If, mask: str) -> None:
    condition = coder.value(op.condition)
    coder.decide(op, op.condition, "branch", condition, mask)
    site = coder.site(op, "if")
    if not coder.analysis.vary(op.condition):
        coder.nested(f"if S.choice({site}, {condition}):", op.then, mask)
        if op.otherwise is not None and any(inner in coder.slice.relevant for inner in op.otherwise.ops):
            coder.nested("else:", op.otherwise, mask)
        return
    then, otherwise = coder.new("m"), coder.new("m")
    coder.line(f"{then}, {otherwise} = split({mask}, S.known({site}, {condition}))")
    coder.nested(f"if {then}:", op.then, then)
    if op.otherwise is not None and any(inner in coder.slice.relevant for inner in op.otherwise.ops):
        coder.nested(f"if {otherwise}:", op.otherwise, otherwise)


def _section(coder: Coder, op: Section, mask: str) -> None:
    if op.condition is None:
        coder.block(op.body, mask)
        return
    coder.decide(op, op.condition, "branch", coder.value(op.condition), mask)
    if coder.analysis.vary(op.condition):
        inner, rest = coder.new("m"), coder.new("m")
        site = coder.site(op, "role")
        coder.line(f"{inner}, {rest} = split({mask}, S.known({site}, {coder.value(op.condition)}))")
        coder.nested(f"if {inner}:", op.body, inner)
    else:
        coder.nested(f"if S.choice({coder.site(op, 'role')}, {coder.value(op.condition)}):", op.body, mask)


def _for(coder: Coder, op: scalar.For, mask: str) -> None:
    loop = Loop(op, len(coder.program.loops))
    coder.program.loops.append(loop)
    handle = coder.name_global("l", loop)
    name = coder.program.names.setdefault(op.iv, coder.new("v"))
    count = coder.value(op.count)
    coder.decide(op, op.count, "loop", f"{count} > 0", mask)
    if not coder.analysis.vary(op.count):
        coder.line(f"for {name} in range(S.loop({handle}, {count})):")
        coder.depth += 1
        coder.loop_masks.append(mask)
        coder.block(op.body, mask)
    else:
        inner = coder.new("m")
        coder.line(f"for {name} in range(S.loop({handle}, most({mask}, S.known({handle}, {count})))):")
        coder.depth += 1
        coder.line(f"{inner} = split({mask}, {name} < {count})[0]")
        coder.loop_masks.append(inner)
        coder.block(op.body, inner)
    coder.loop_masks.pop()
    coder.depth -= 1


def _while(coder: Coder, op: scalar.While, mask: str) -> None:
    loop = Loop(op, len(coder.program.loops))
    coder.program.loops.append(loop)
    handle, count = coder.name_global("l", loop), coder.new("n")
    coder.line(f"{count} = 0")
    coder.line("while True:")
    coder.depth += 1
    coder.block(op.head, mask)
    coder.decide(op, op.condition, "loop", coder.value(op.condition), mask)
    coder.line(f"if not S.uniform({handle}, {mask}, {coder.value(op.condition)}): break")
    coder.line(f"{count} += 1")
    coder.line("S.tick()")
    coder.loop_masks.append(mask)
    coder.block(op.body, mask)
    coder.loop_masks.pop()
    coder.depth -= 1
    coder.line(f"S.trips({handle}, {count})")


def _exit(coder: Coder, op: scalar.Break | scalar.Continue, mask: str) -> None:
    if mask != coder.loop_masks[-1]:
        coder.line(f"S.together({coder.site(op, op.NAME)}, {mask}, {coder.loop_masks[-1]})")
    coder.line(op.NAME)


def global_load(coder: Coder, op: scalar.LoadElement, mask: str) -> None:
    """A scalar from global memory, where anything depends on it."""
    if isinstance(op.view.root, Buffer) or op.result not in coder.slice.needed:
        return
    if op.result.type in FLOATS or op.view.root in coder.program.written:
        coder.bind(op.result, "UNKNOWN")  # data, or what the kernel itself may have changed
        return
    load = Load(op, len(coder.program.loads))
    coder.program.loads.append(load)
    at = coder.coordinates(op.view, op.indices)
    coder.bind(op.result, f"S.load({coder.name_global('g', load)}, W, {mask}, {at}, locals())")


def thread_bit(thread: int, threads: int) -> Any:
    """A per-warp constant: the lane mask of one thread, 0 in the other warps."""
    row = np.zeros(threads, dtype=np.int64)
    row[thread // WARP * WARP : (thread // WARP + 1) * WARP] = 1 << (thread % WARP)
    return row


def every_warpgroup(threads: int) -> Any:
    """A per-warp constant: lane 0 of each warpgroup's first warp."""
    return (np.arange(threads, dtype=np.int64) // WARP % 4 == 0).astype(np.int64)


def in_run(coder: Coder, op: Op, mask: str) -> None:
    """It touches registers alone, as its effects say: taken with its neighbours (`Level.flush`)."""


def rules(
    level: str, about: Callable[[type[Op]], bool], own: dict[type[Op], Translator], runs: Iterable[type[Op]]
) -> Rules[Translator]:
    """`runs`: operations on registers, scalar.py's added."""
    made = Rules[Translator](
        f"verifier of the {level} protocol", about, general=lambda kind: pure if kind.PURE else None
    )
    made.of = {**dict.fromkeys((*runs, scalar.FragDeclare), in_run), **_COMMON, **own}
    made.without("it stands in maps only, which are taken as a whole", scalar.FragRead, scalar.FragWrite)
    return made


_COMMON: dict[type[Op], Translator] = {
    scalar.VarDeclare: _declare,
    scalar.VarGet: _get,
    scalar.VarSet: _set,
    scalar.If: _if,
    scalar.For: _for,
    scalar.While: _while,
    scalar.Break: _exit,
    scalar.Continue: _exit,
    Section: _section,
}
