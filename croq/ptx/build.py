"""PTX functions to blocks of steps: every instruction becomes one Python closure, with its operands resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from croq.ptx.definite import Tracking, Undefined, is_accumulation, may_be_undefined, registers_of
from croq.ptx.faults import PtxFault, of_unit, unsupported
from croq.ptx.lanes import Lanes
from croq.ptx.memory import LOCAL_START, SHARED_START, Memory, padded
from croq.ptx.mma_registers import MmaRegisters, names_of
from croq.ptx.parse import bits_of
from croq.ptx.registers import DTYPES, Array, Specials, constant, narrowed, signed, storage
from croq.ptx.registry import End, Step, rule_of
from croq.ptx.syntax import WIDTHS, Function, Imm, Instruction, Mem, Module, Negated, Operand, Reg, Sink, Sym
from croq.ptx.units.fault import UnitFault

JUMPS = {"bra", "brx", "ret", "exit", "trap", "call"}


@dataclass(slots=True)
class Block:
    """Steps that follow one another, then what decides. `places` has one place a step, then the end's."""

    number: int
    steps: list[Step] = field(default_factory=list)
    places: list[Instruction] = field(default_factory=list)
    end: End | None = None


class Code:
    """A program for a machine: blocks, and where functions begin."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.entries: dict[str, int] = {}
        self.tracked: list[Array] = []  # one bitmap a register that may be read before it is written
        self.returns: dict[int, Callable[[Lanes], None]] = {}  # by block of a call: copies its results


def shared_layout(module: Module, entry: Function) -> tuple[dict[str, int], int]:
    """Addresses of shared variables, static ones first, and the bytes of the static ones.

    PTX ISA, "Initializers", ".shared": an extern array without an extent is the dynamic part of the launch.
    """
    variables = [v for v in module.variables.values() if v.space == "shared"]
    variables += [
        v for f in module.functions.values() if f is entry or not f.entry for v in f.variables if v.space == "shared"
    ]
    at, found = SHARED_START, {}
    for variable in sorted(variables, key=lambda v: v.size is None):
        at = -(-at // variable.align) * variable.align
        found[variable.name] = at
        at += variable.size or 0
    dynamic = [v for v in variables if v.size is None]
    static = at - SHARED_START
    if dynamic and any(v.size is not None for v in variables):
        static = found[dynamic[0].name] - SHARED_START
    return found, static


def local_layout(functions: list[Function]) -> tuple[dict[str, int], int]:
    """Addresses of local variables: every function has its own place, since none calls itself."""
    at, found = LOCAL_START, {}
    for function in functions:
        for variable in function.variables:
            if variable.space == "local":
                at = -(-at // max(variable.align, 16)) * max(variable.align, 16)
                found[f"{function.name}:{variable.name}"] = at
                at += variable.size or 0
    return found, at - LOCAL_START


def param_layout(functions: list[Function]) -> tuple[dict[str, tuple[int, int]], int]:
    """Offset and size of what functions take and give, and of the variables that calls pass them in."""
    at, found = 0, {}
    for function in functions:
        own = (*function.params, *function.results, *(v for v in function.variables if v.space == "param"))
        for variable in own:
            at = -(-at // max(variable.align, 1)) * max(variable.align, 1)
            size = variable.size or 0
            found[f"{function.name}:{variable.name}"] = (at, size)
            at += size
    return found, padded(max(at, 1))


def reachable(module: Module, entry: Function) -> list[Function]:
    """The entry and the functions that it calls. Raises PtxFault E-7002 for one that calls itself."""
    order: list[Function] = []
    busy: set[str] = set()

    def visit(function: Function) -> None:
        busy.add(function.name)
        order.append(function)
        for ins in function.body:
            name = callee(ins)
            if name is None:
                continue
            if name in busy:
                raise unsupported(f"`{name}` calls itself", ins.place)
            called = module.functions.get(name)
            if called is not None and called.defined and called not in order:
                visit(called)
        busy.discard(function.name)

    visit(entry)
    return order


def callee(ins: Instruction) -> str | None:
    """The name of the function that a direct call calls."""
    if ins.name != "call":
        return None
    return next((o.name for o in ins.operands if isinstance(o, Sym)), None)


class Builder:
    """Compiles the functions of one kernel for CTAs of one shape. Handlers (`ops`) ask it for operands."""

    def __init__(
        self, module: Module, functions: list[Function], specials: Specials, memory: Memory, params: Array,
        param_places: Mapping[str, tuple[int, int]], addresses: Mapping[str, int], machine: Any,
    ) -> None:  # fmt: skip
        self.module = module
        self.functions = functions
        self.specials = specials
        self.threads = specials.threads
        self.memory = memory
        self.params = params  # [threads, bytes]: what calls pass
        self.param_places = param_places
        self.addresses = addresses  # generic-free: in the space's own window
        self.machine = machine
        self.code = Code()
        self.function = functions[0]
        self.rows: dict[str, Array] = {}
        self.defined: dict[str, Array] = {}
        self.carry = np.zeros(self.threads, dtype=bool)
        self.label_blocks: dict[str, int] = {}
        self.current_block = 0
        self.tracking = Tracking(self.function, Undefined())

    # ------------------------------------------------------------------------------------------------------ operands
    def source(self, operand: Operand, kind: str) -> Array:
        """An array to read a value of a type from, one element a thread. PTX ISA, "Operand Size Exceeding
        Instruction-Type Size": of a wider register the low bits are read."""
        if isinstance(operand, Imm):
            return constant(self._immediate(operand, kind), kind, self.threads)
        if isinstance(operand, Sym):
            return constant(self.address(operand), kind, self.threads)
        if isinstance(operand, Negated):
            raise unsupported("a negated predicate as a plain operand", None)
        row = self.row(operand)
        bits = WIDTHS[kind]
        if kind == "pred":
            return row
        if row.dtype.itemsize * 8 < bits:
            raise unsupported(f"a register of {row.dtype.itemsize * 8} bits where `{kind}` is read", None)
        return narrowed(row, bits).view(DTYPES[kind])

    def target(self, operand: Operand, kind: str) -> Array:
        """An array to write a value of a type to; in a wider register it is extended as the type says."""
        if isinstance(operand, Sink):
            return np.zeros(self.threads, DTYPES[kind])
        row = self.row(operand)
        bits = row.dtype.itemsize * 8
        if kind == "pred" or bits == WIDTHS[kind]:
            return row.view(DTYPES[kind])
        if bits < WIDTHS[kind]:
            raise unsupported(f"a register of {bits} bits for a result of type `{kind}`", None)
        return row.view(f"{'i' if signed(kind) else 'u'}{bits // 8}")

    def predicate(self, operand: Operand) -> tuple[Array, bool]:
        """A predicate, and whether it is negated."""
        if isinstance(operand, Negated):
            return self.row(operand.operand), True
        if isinstance(operand, Imm):
            return constant(operand.value, "pred", self.threads), False
        return self.row(operand), False

    def row(self, operand: Operand) -> Array:
        if not isinstance(operand, Reg):
            raise unsupported(f"an operand that is no register: {operand}", None)
        if not operand.type:
            row = self.specials.rows.get(operand.name)
            if row is None:
                raise unsupported(f"the special register `{operand.name}` has no rule here", None)
            return row
        key = f"{self.function.name}:{operand.name}"
        if key not in self.rows:
            self.rows[key] = storage(operand.type, self.threads)
        return self.rows[key]

    def defined_map(self, name: str) -> Array:
        """Of a register of the current function that may hold nothing: which threads have a value in it."""
        key = f"{self.function.name}:{name}"
        if key not in self.defined:
            self.defined[key] = np.zeros(self.threads, dtype=bool)
            self.code.tracked.append(self.defined[key])
        return self.defined[key]

    def _immediate(self, operand: Imm, kind: str) -> Any:
        if operand.kind == "int":
            return operand.value
        if operand.kind == "decimal":
            return operand.value if kind[0] == "f" else bits_of(float(operand.value), WIDTHS[kind])
        raw = np.array(operand.value, np.uint32 if operand.kind == "f32" else np.uint64)
        value = raw.view(np.float32 if operand.kind == "f32" else np.float64)
        if kind in ("f32", "f64"):
            return value.astype(DTYPES[kind])[()]
        return int(operand.value)

    def address(self, symbol: Sym) -> int:
        """The address of a variable in its own space."""
        for key in (f"{self.function.name}:{symbol.name}", symbol.name):
            if key in self.addresses:
                return self.addresses[key] + symbol.offset
        raise unsupported(f"`{symbol.name}` is no variable of the module", None)

    def param_offset(self, operand: Mem, width: int) -> int:
        """Where `[name+offset]` lies in what calls pass. Raises PtxFault E-7012, E-7013."""
        assert isinstance(operand.base, Sym)
        name = operand.base.name
        start, size = self.param_places[f"{self.function.name}:{name}"]
        offset = operand.base.offset + operand.offset
        if not 0 <= offset <= size - width:
            raise PtxFault(
                "E-7012", f"an access of {width} bytes at byte {offset} of parameter `{name}`, which has {size}"
            )
        return start + offset

    # --------------------------------------------------------------------------------------------------------- blocks
    def build(self) -> Code:
        for function in self.functions:
            self._cut(function)
        for function in self.functions:
            self.function = function
            self._compile(function)
        return self.code

    def _cut(self, function: Function) -> None:
        """Give every block its number: they begin at labels, behind jumps, and at what may have to wait."""
        self.code.entries[function.name] = len(self.code.blocks)
        leaders = self._leaders(function)
        names: dict[int, list[str]] = {}
        for label, at in function.labels.items():
            names.setdefault(at, []).append(label)
        for at in range(len(function.body) + 1):
            if at in leaders:
                number = len(self.code.blocks)
                self.code.blocks.append(Block(number))
                self.label_blocks[f"{function.name}#{at}"] = number
            for label in names.get(at, ()):
                self.label_blocks[f"{function.name}:{label}"] = len(self.code.blocks) - 1

    def _leaders(self, function: Function) -> set[int]:
        found = {0, len(function.body)} | {at for at in function.labels.values() if at >= 0}
        for at, ins in enumerate(function.body):
            if rule_of(ins)[0].ends:
                found.add(at + 1)
                if ins.name not in JUMPS or (ins.guard is not None and ins.name != "bra"):
                    found.add(at)
        return found

    def _compile(self, function: Function) -> None:
        tracking = Tracking(function, may_be_undefined(function))
        self.tracking = tracking
        self.mma_names = names_of(function)
        numbers = self.label_blocks
        block = self.code.blocks[self.code.entries[function.name]]
        for at, ins in enumerate(function.body):
            number = numbers.get(f"{function.name}#{at}")
            if number is not None and number != block.number:
                block = self.code.blocks[number]
            try:
                self._instruction(block, ins, tracking)
            except PtxFault as fault:
                raise fault.at(ins.place) from None
            except UnitFault as refusal:
                raise of_unit(refusal).at(ins.place) from None
        self.code.blocks[numbers[f"{function.name}#{len(function.body)}"]].end = _ran_off

    def _instruction(self, block: Block, ins: Instruction, tracking: Tracking) -> None:
        rule, form = rule_of(ins)
        self.current_block = block.number
        made = rule.handler(self, form)
        if not is_accumulation(ins):
            registers: MmaRegisters = self.machine.mma_registers
            guarded = registers.guarded_end if rule.ends else registers.guarded
            made = guarded(self.function.name, self.mma_names, ins, made)
        block.places.append(ins)
        if rule.ends:
            made = self._guarded_end(ins, made) if ins.guard is not None and ins.name != "bra" else made
            block.end = tracking.checked_end(self, ins, made)
            return
        made = tracking.wrap(self, form, made)
        if ins.guard is not None:
            made = self._guarded(ins, made)
        block.steps.append(made)

    def _guarded(self, ins: Instruction, step: Step) -> Step:
        assert ins.guard is not None
        row, negated = self.row(ins.guard), ins.negated

        def run(lanes: Any) -> None:
            mask = row[lanes.sel] ^ negated if negated else row[lanes.sel]
            if mask.all():
                step(lanes)
            elif mask.any():
                step(lanes.where(mask))

        return run

    def _guarded_end(self, ins: Instruction, end: End) -> End:
        """Those who skip go on; the others stay, and skip nothing when they run again."""
        assert ins.guard is not None
        row, negated = self.row(ins.guard), ins.negated

        def run(machine: Any, group: Any) -> bool:
            mask = row[group.lanes.sel] ^ negated
            if mask.all():
                return end(machine, group)
            machine.divide(group, mask, group.at, group.at + 1)
            return False

        return run

    def mma_slots(self, operand: Operand) -> tuple[int, ...]:
        """The registers of an operand of a matrix product, as `MmaRegisters` counts them."""
        registers: MmaRegisters = self.machine.mma_registers
        return tuple(registers.slot(f"{self.function.name}:{name}") for name in registers_of((operand,)))

    def block_of(self, operand: Operand) -> int:
        """The block that a label begins."""
        if not isinstance(operand, Sym):
            raise unsupported("a branch to something that is no label", None)
        number = self.label_blocks.get(f"{self.function.name}:{operand.name}")
        if number is None:
            raise unsupported(f"there is no label `{operand.name}`", None)
        return number


def _ran_off(machine: Any, group: Any) -> bool:
    """A function that ends without `ret` returns. PTX ISA, ret"""
    return bool(machine.leave(group))
