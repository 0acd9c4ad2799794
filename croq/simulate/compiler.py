"""Turns the hardware IR of a kernel into Python closures, once, so that running it looks at no IR.

Each operation becomes one function of a warp; one that may block becomes a generator function, which yields what it
waits for. A warp's values live in a list, numbered here; constants and symbols are put there before the start.

Divergence: `warp.mask` holds the lanes that execute. A condition that differs between lanes runs both sides one after
the other with the mask narrowed; a loop goes on until no lane is left. Inside `reg.map` values have the shape of the
fragment's part instead of one entry a lane, and `warp.element_mask` takes the place of `warp.mask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from croq.ir.core import Block, Op, Value
from croq.ir.dispatch import Rules
from croq.ir.objects import Buffer, Fragment, FragRef, Kernel, Param, TensorMap, Variable
from croq.ir.scalar import FragDeclare
from croq.sema.symbolic import Dim
from croq.simulate import hostile
from croq.simulate.dtypes import Array, Scalar
from croq.simulate.faults import fault
from croq.simulate.hostile import Plan
from croq.simulate.machine import Policy, Run, Warp
from croq.simulate.memory import GlobalData, SharedTile
from croq.simulate.registers import Registers, Shape
from croq.target.cuda import WARP

Plain = Callable[[Warp], None]
Blocking = Callable[[Warp], Run]


@dataclass(frozen=True)
class Code:
    """What an operation became: `plain` when it never blocks, else `blocking`; `exits`: it may end loop iterations."""

    plain: Plain | None = None
    blocking: Blocking | None = None
    exits: bool = False

    def as_blocking(self) -> Blocking:
        if self.blocking is not None:
            return self.blocking
        plain = self.plain
        assert plain is not None

        def run(warp: Warp) -> Run:
            plain(warp)
            return
            yield

        return run


Handler = Callable[["Compiler", Any], "Code | None"]


class Recorder(Protocol):
    """Compiles operations by their handlers, and writes down what warps do when they come to them (croq.timelines)."""

    def operation(self, c: Compiler, op: Op, handler: Handler) -> Code | None: ...


handles = Rules[Handler]("simulator")  # `None` from a handler: nothing to do at run time


@dataclass
class Map:
    """The `reg.map` being compiled: the shape of its values, and the values and variables that are its own."""

    axes: int
    columns: int  # extent of the last axis
    inside: set[Value]
    variables: set[Variable]
    lifted: dict[int, int]  # values of the code around it: their number, and the number of their reshaped copy
    assigned: set[Variable] = field(default_factory=set)  # variables of the code around it that it sets


def handed_on(op: Op) -> Exception:
    return fault("E-5030", op, "the simulator cannot hand a variable of the thread from element to element")


@dataclass
class Program:
    """A compiled kernel for one binding of its symbols and arrays."""

    kernel: Kernel
    policy: Policy
    main: Blocking
    values: list[Any]
    plan: Plan | None  # of a hostile schedule

    def start(self, warp: Warp) -> None:
        warp.v = list(self.values)
        warp.run = self.main(warp)


class Compiler:
    """State of one compilation; what handlers use."""

    def __init__(
        self,
        kernel: Kernel,
        policy: Policy,
        data: Mapping[Param, GlobalData],
        symbols: Mapping[str, int | float],
        recorder: Recorder | None = None,
    ) -> None:
        self.kernel = kernel
        self.policy = policy
        self.data = data
        self.symbols = symbols
        self.recorder = recorder  # of a timeline
        self.values: list[Any] = []
        self.map: Map | None = None
        self._slots: dict[Value | Variable, int] = {}
        self._tiles: dict[Buffer, SharedTile] = {}
        self._shapes: dict[Fragment, Shape] = {}
        self._declared = {op.frag: op for op in kernel.walk() if isinstance(op, FragDeclare)}
        self.mapped: dict[TensorMap, Any] = {}  # what `ops_copy` makes of tensor maps
        self.library: Any = None  # the file's device functions, when one is called

    def compile(self) -> Program:
        code = self.block(self.kernel.body)
        main = code.as_blocking()

        def run(warp: Warp) -> Run:
            yield from main(warp)
            check_exit(warp)

        number = self.policy.hostile
        plan = hostile.plan(self.kernel, number) if number is not None else None
        return Program(self.kernel, self.policy, run, self.values, plan)

    # --------------------------------------------------------------------------------------------- values
    def slot(self, value: Value | Variable) -> int:
        """The number of a value where it is used; inside a map, of its form that broadcasts."""
        number = self._number(value)
        around = self.map
        if around is None or (value in around.inside if isinstance(value, Value) else value in around.variables):
            return number
        if number not in around.lifted:
            around.lifted[number] = self.new()
        return around.lifted[number]

    def outer(self, variable: Variable, op: Op) -> int:
        """The number of a variable that a map assigns to and does not own; what it holds meanwhile nobody may ask."""
        assert self.map is not None
        number = self._number(variable)
        if number in self.map.lifted:
            raise handed_on(op)
        self.map.assigned.add(variable)
        return number

    def result(self, value: Value) -> int:
        """The number of a value where it is defined."""
        return self._number(value)

    def new(self, initial: Any = None) -> int:
        self.values.append(initial)
        return len(self.values) - 1

    def preset(self, value: Value, content: Scalar) -> None:
        """A value that is the same in every thread of the grid."""
        self.values[self._number(value)] = content

    def _number(self, value: Value | Variable) -> int:
        number = self._slots.get(value)
        if number is None:
            number = self._slots[value] = self.new()
        return number

    def getter(self, value: Value | int | None) -> Callable[[Warp], Scalar]:
        """Reads an operand that may be known already (None is 0)."""
        if value is None or isinstance(value, int):
            known = value or 0
            return lambda warp: known
        slot = self.slot(value)
        return lambda warp: warp.v[slot]

    def extent(self, dim: Dim, op: Op) -> int:
        try:
            return dim.evaluate(self.symbols)  # type: ignore[arg-type]
        except KeyError as error:
            raise fault("E-5005", op, f"symbol `{error.args[0]}` has no value") from None
        except ZeroDivisionError:
            raise fault("E-5005", op, f"`{dim}` divides by zero") from None

    # -------------------------------------------------------------------------------------------- objects
    def tile(self, buffer: Buffer) -> SharedTile:
        found = self._tiles.get(buffer)
        if found is None:
            found = self._tiles[buffer] = SharedTile(buffer)
        return found

    def shape(self, fragment: Fragment) -> Shape:
        found = self._shapes.get(fragment)
        if found is None:
            declared = self._declared.get(fragment)
            threads = declared.threads if declared is not None else None
            first = threads.first if threads is not None and len(threads) else 0
            found = self._shapes[fragment] = Shape(fragment, first)
        return found

    def fragment(self, ref: FragRef) -> Callable[[Warp], Registers]:
        """Finds a warp's registers of a fragment, or of one of an array."""
        shape = self.shape(ref.frag)
        if ref.slot is None or isinstance(ref.slot, int):
            key: Any = (shape, ref.slot)

            def find(warp: Warp) -> Registers:
                found = warp.fragments.get(key)
                if found is None:
                    found = warp.fragments[key] = Registers(shape)
                return found

            return find
        slot = self.slot(ref.slot)

        def find_slot(warp: Warp) -> Registers:
            key = (shape, warp.v[slot])
            found = warp.fragments.get(key)
            if found is None:
                found = warp.fragments[key] = Registers(shape)
            return found

        return find_slot

    def active(self) -> Callable[[Warp], Array | None]:
        """What masks effects here: active lanes, or active elements inside a map; None when all are."""
        if self.map is not None:
            return lambda warp: warp.element_mask
        return Warp.active

    # --------------------------------------------------------------------------------------------- blocks
    def operation(self, op: Op) -> Code | None:
        handler = handles.get(op)
        if handler is None:
            raise fault("E-5030", op, f"the simulator cannot run `{op.NAME}`")
        if self.recorder is not None and self.map is None:
            return self.recorder.operation(self, op, handler)
        return handler(self, op)

    def block(self, block: Block | None) -> Code:
        """A block's operations in order."""
        codes = [code for op in (block.ops if block else ()) if (code := self.operation(op)) is not None]
        exits = any(code.exits for code in codes)
        if all(code.blocking is None for code in codes):
            return Code(plain=_plain_block([c.plain for c in codes if c.plain is not None], exits), exits=exits)
        return Code(blocking=_blocking_block(codes), exits=exits)

    def preemptible(self, code: Code) -> Code:
        """Under a stepwise schedule, other agents may come before this operation."""
        if not self.policy.stepwise or self.map is not None:
            return code
        inner = code.blocking
        plain = code.plain

        def run(warp: Warp) -> Run:
            yield None
            if plain is not None:
                plain(warp)
            elif inner is not None:
                yield from inner(warp)

        return Code(blocking=run, exits=code.exits)

    @contextmanager
    def mapping(self, around: Map) -> Iterator[Map]:
        before, self.map = self.map, around
        try:
            yield around
        finally:
            self.map = before


def _plain_block(steps: list[Plain], exits: bool) -> Plain:
    if len(steps) == 1:
        return steps[0]
    if not exits:

        def run(warp: Warp) -> None:
            for step in steps:
                step(warp)

        return run

    def run_while_active(warp: Warp) -> None:
        for step in steps:
            step(warp)
            if not warp.mask:
                return

    return run_while_active


def _blocking_block(codes: list[Code]) -> Blocking:
    steps = [(code.plain, code.blocking) for code in codes]

    def run(warp: Warp) -> Run:
        for plain, blocking in steps:
            if plain is not None:
                plain(warp)
            elif blocking is not None:
                yield from blocking(warp)
            if not warp.mask:
                return

    return run


def exits(block: Block | None) -> bool:
    """Whether a block may leave the loop around it."""
    return block is not None and any(op.CONTROL == "exit" for op in block.walk())


def check_exit(warp: Warp) -> None:
    """A warp may not end with operations in flight that use its registers or the CTA's shared memory."""
    for mma in warp.mmas:
        raise fault("E-5021", mma.op, f"an MMA of warp {warp.index} is not waited for before the kernel ends")
    for lane, bulk in warp.bulk.items():
        for pending in bulk:
            raise fault(
                "E-5021",
                pending.op,
                f"thread {WARP * warp.index + lane} ends without waiting until its bulk store has read shared memory",
            )
