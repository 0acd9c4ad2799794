"""What PTX text says: functions, variables, instructions, operands. PTX ISA, "Syntax"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

WIDTHS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32,
    "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64,
    "b128": 128,
}  # fmt: skip


class Place(NamedTuple):
    """A line of the PTX, and what `.loc` says of it: a file's name and line, "" and 0 where nothing does."""

    line: int
    file: str = ""
    source_line: int = 0


@dataclass(frozen=True, slots=True)
class Reg:
    """A register; `name` is unique in its function, `shown` is as it is written. Special registers have no `type`."""

    name: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant: an integer, or the bits of a float of 32 or 64 bits (`kind` "f32", "f64"), or a decimal float."""

    value: int | float
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Sym:
    """The address of a variable or a parameter, or a function's name, or a label (see `Function.labels`)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """`{a, b}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Mem:
    """`[base+offset]`, `[base, {coordinates}]`."""

    base: Reg | Sym | Imm
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: a result and a predicate."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`."""

    operand: Reg


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`: results or arguments of a call."""

    items: tuple[Operand, ...]


Operand = Reg | Imm | Sym | Vec | Mem | Pair | Negated | Sink | Group


@dataclass(slots=True)
class Instruction:
    """`@guard name.modifiers operands;`. `text` is what reports quote."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    place: Place
    guard: Reg | None = None
    negated: bool = False
    targets: tuple[str, ...] = ()  # of brx.idx

    @property
    def opcode(self) -> str:
        return ".".join((self.name, *self.modifiers))


@dataclass(slots=True)
class Variable:
    """A variable of a state space. `size` in bytes, None for an array whose extent the launch gives."""

    space: str
    name: str
    align: int
    size: int | None
    data: bytes | None = None
    type: str = "b8"
    pointers: tuple[tuple[int, str, int], ...] = ()  # (byte, symbol, addend) of initial values that are addresses


@dataclass(slots=True)
class Function:
    """`labels` map to the index of the instruction that follows."""

    name: str
    entry: bool
    params: tuple[Variable, ...]
    results: tuple[Variable, ...]
    place: Place
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)  # type by unique name
    variables: list[Variable] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    defined: bool = True


@dataclass(slots=True)
class Module:
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    lines: list[str]

    def text(self, line: int) -> str:
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""

    def entries(self) -> Iterator[Function]:
        return (f for f in self.functions.values() if f.entry)
