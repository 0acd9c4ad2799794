"""PTX text to `syntax.Module`: recursive descent over the subset that NVRTC emits. PTX ISA, "Syntax", "Directives".

Names of registers, variables and labels that are declared inside braces (inline assembly, calls) are local to them;
they get unique names here, so that a function is one flat list of instructions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from itertools import islice

from croq.ptx.faults import PtxFault
from croq.ptx.syntax import (
    WIDTHS,
    Function,
    Group,
    Imm,
    Instruction,
    Mem,
    Module,
    Negated,
    Operand,
    Pair,
    Place,
    Reg,
    Sink,
    Sym,
    Variable,
    Vec,
)
from croq.ptx.tokens import Token, tokens

SPACES = (".shared", ".global", ".const", ".local", ".param")
LINKING = (".visible", ".extern", ".weak", ".common")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_COUNTED = {".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".maxnctapersm"}
_IGNORED = {".noreturn", ".blocksareclusters", ".explicitcluster"}


class _Scope:
    """The names that one pair of braces declares."""

    def __init__(self, parent: _Scope | None, number: int) -> None:
        self.parent = parent
        self.suffix = f"@{number}" if parent is not None else ""
        self.names: dict[str, Reg | Sym] = {}
        self.families: dict[str, tuple[str, int]] = {}  # `%r<10>`: type and count by prefix

    def find(self, name: str) -> Reg | Sym | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.stream = list(tokens(text))
        self.at = 0
        files = (_FILE.match(t.text) for t in self.stream if t.kind == "directive")
        self.files = {int(m[1]): m[2] for m in files if m}
        self.place = Place(1)
        self.module = Module("", {}, {}, self.lines)
        self.count = 0

    # ------------------------------------------------------------------------------------------------------- tokens
    @property
    def token(self) -> Token:
        return self.stream[self.at]

    def next(self) -> Token:
        token = self.stream[self.at]
        if token.kind in ("end", "bad"):
            raise self.fault(token)
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.stream[self.at].text == text and self.stream[self.at].kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fault(self.token, f"`{text}` is missing")

    def fault(self, token: Token, why: str = "") -> PtxFault:
        what = why or ("the text ends too early" if token.kind == "end" else f"`{token.text}` is not expected here")
        return PtxFault("E-7001", f"line {token.line} of the PTX: {what}", Place(token.line))

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.next()
        if token.kind != "int":
            raise self.fault(token)
        value = _integer(token.text)
        return -value if negative else value

    # ------------------------------------------------------------------------------------------------------- module
    def parse(self) -> Module:
        while self.token.kind != "end":
            self.top()
        return self.module

    def top(self) -> None:
        token = self.next()
        if token.kind == "directive":
            self.debug(token)
        elif token.text == ".version":
            self.next()
        elif token.text == ".address_size":
            self.integer()
        elif token.text == ".target":
            self.module.target = self.next().text
            while self.accept(","):
                self.next()
        elif token.text in LINKING:
            pass
        elif token.text in (".entry", ".func"):
            self.function(token)
        elif token.text in SPACES:
            variable = self.variable(token.text, None)
            self.module.variables[variable.name] = variable
        elif token.text == ".pragma":
            self.skip_statement()
        else:
            raise self.fault(token)

    def debug(self, token: Token) -> None:
        """`.loc` says where the following comes from; the lines of `.file` are known; sections are skipped."""
        if token.text.startswith(".section"):
            while self.next().text != "}":
                pass
            return
        match = _LOC.match(token.text)
        if match is None:
            return
        places = [(self.files.get(int(match[i])), int(match[i + 1])) for i in (1, 3) if match[i]]
        for name, line in places:
            if name is not None and not name.endswith((".cuh", ".cu")):
                self.place = Place(0, name, line)
                return

    def skip_statement(self) -> None:
        while self.next().text != ";":
            pass

    # ---------------------------------------------------------------------------------------------------- variables
    def variable(self, space: str, scope: _Scope | None) -> Variable:
        """`.shared .align 16 .b8 name[4] = {..};`, behind the state space."""
        align, kind = self.declared()
        name = self.next().text
        size: int | None = max(WIDTHS[kind] // 8, 1)
        unit = size
        while self.accept("["):
            if self.accept("]"):
                size = None
                continue
            size = (size or 0) * self.integer()
            self.expect("]")
        made = Variable(space[1:], name, align or unit or 1, size, type=kind)
        if self.accept("="):
            self.initial(made, unit or 1)
        if scope is not None:
            made.name = name + scope.suffix
            scope.names[name] = Sym(made.name)
        if space != ".param" or scope is not None:
            self.expect(";")
        return made

    def declared(self) -> tuple[int, str]:
        """Alignment (0: none is said) and type."""
        align, kind = 0, ""
        while self.token.text.startswith("."):
            word = self.next().text
            if word == ".align":
                align = self.integer()
            elif word[1:] in WIDTHS:
                kind = word[1:]
            elif word not in (".ptr", *SPACES):
                raise self.fault(self.token, f"`{word}` in a declaration")
        if not kind:
            raise self.fault(self.token, "a declaration without a type")
        return align, kind

    def initial(self, variable: Variable, unit: int) -> None:
        data = bytearray()
        pointers: list[tuple[int, str, int]] = []
        depth = 0
        while True:
            if self.accept("{"):
                depth += 1
            elif self.accept("}"):
                depth -= 1
            elif depth and self.accept(","):
                pass
            elif self.token.kind == "word":
                pointers.append((len(data), *self.address_of()))
                data += bytes(unit)
            else:
                data += self.constant().to_bytes(unit, "little", signed=False)
            if depth == 0:
                break
        size = variable.size if variable.size is not None else len(data)
        variable.size, variable.data = size, bytes(data).ljust(size, b"\0")
        variable.pointers = tuple(pointers)

    def address_of(self) -> tuple[str, int]:
        """`name`, `generic(name)`, with an addend."""
        name = self.next().text
        if name == "generic":
            self.expect("(")
            name = self.next().text
            offset = self.integer() if self.accept("+") else 0
            self.expect(")")
            return name, offset
        return name, self.integer() if self.accept("+") else 0

    def constant(self) -> int:
        """The bits of a number in an initial value."""
        negative = self.accept("-")
        token = self.next()
        if token.kind == "int":
            return (-_integer(token.text) if negative else _integer(token.text)) & (2**64 - 1)
        if token.kind == "float" and token.text[:2] in ("0f", "0F", "0d", "0D"):
            return int(token.text[2:], 16)
        raise self.fault(token)

    # ---------------------------------------------------------------------------------------------------- functions
    def function(self, head: Token) -> None:
        results = self.params() if head.text == ".func" and self.token.text == "(" else ()
        name = self.next().text
        params = self.params() if self.token.text == "(" else ()
        made = Function(name, head.text == ".entry", params, results, Place(head.line))
        self.module.functions[name] = made
        while self.token.text not in ("{", ";"):
            self.attribute(made)
        if self.accept(";"):
            made.defined = False
            return
        self.expect("{")
        self.place = Place(head.line)
        self.count = 0
        self.block(made, _Scope(None, 0))

    def params(self) -> tuple[Variable, ...]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            token = self.next()
            if token.text not in (".param", ".reg"):
                raise self.fault(token)
            found.append(self.variable(".param", None))
            self.accept(",")
        return tuple(found)

    def attribute(self, function: Function) -> None:
        token = self.next()
        if token.text in _COUNTED or token.text == ".reqnctapercluster":
            numbers = [self.integer()]
            while self.accept(","):
                numbers.append(self.integer())
            function.directives[token.text[1:]] = tuple(numbers)
        elif token.kind == "directive":
            self.debug(token)
        elif token.text == ".pragma":
            self.skip_statement()
        elif token.text not in _IGNORED:
            raise self.fault(token)

    # ------------------------------------------------------------------------------------------------------- bodies
    def block(self, function: Function, scope: _Scope) -> None:
        """Statements up to the closing brace; label operands are resolved at the end, when all are known."""
        start = len(function.body)
        while not self.accept("}"):
            token = self.token
            if token.kind == "directive":
                self.at += 1
                self.debug(token)
            elif token.text == "{":
                self.at += 1
                self.count += 1
                self.block(function, _Scope(scope, self.count))
            elif token.text == ";":
                self.at += 1
            elif token.kind == "word" and token.text.startswith("."):
                self.at += 1
                self.statement_directive(token, function, scope)
            elif token.kind == "word" and self.stream[self.at + 1].text == ":":
                self.label(function, scope)
            else:
                function.body.append(self.instruction(scope))
        own = {name: s for name, s in scope.names.items() if isinstance(s, Sym) and s.name in function.labels}
        if own and scope.parent is not None:
            for instruction in islice(function.body, start, None):
                _rename_labels(instruction, own)

    def label(self, function: Function, scope: _Scope) -> None:
        name = self.next().text
        self.expect(":")
        if self.token.text == ".branchtargets":
            self.at += 1
            targets = [self.next().text]
            while self.accept(","):
                targets.append(self.next().text)
            self.expect(";")
            function.labels[name] = -1
            scope.names[name] = Sym(",".join(targets))
            return
        unique = name + scope.suffix
        function.labels[unique] = len(function.body)
        scope.names[name] = Sym(unique)

    def statement_directive(self, token: Token, function: Function, scope: _Scope) -> None:
        if token.text == ".reg":
            self.registers(function, scope)
        elif token.text in SPACES:
            function.variables.append(self.variable(token.text, scope))
        elif token.text == ".pragma":
            self.skip_statement()
        else:
            raise self.fault(token)

    def registers(self, function: Function, scope: _Scope) -> None:
        word = self.next()
        kind = word.text[1:]
        if kind not in WIDTHS:
            raise self.fault(word)
        while True:
            name = self.next().text
            names = [name]
            if self.accept("<"):
                names = [f"{name}{i}" for i in range(self.integer())]
                self.expect(">")
            for each in names:
                unique = each + scope.suffix
                function.registers[unique] = kind
                scope.names[each] = Reg(unique, kind)
            if self.accept(";"):
                return
            self.expect(",")

    def instruction(self, scope: _Scope) -> Instruction:
        guard, negated = None, False
        line = self.token.line
        if self.accept("@"):
            negated = self.accept("!")
            guard = self.register(scope)
        token = self.next()
        if token.kind != "word":
            raise self.fault(token)
        name, *modifiers = token.text.split(".")
        operands: list[Operand] = []
        while not self.accept(";"):
            operands.append(self.operand(scope))
            if not self.accept(",") and self.token.text != ";":
                raise self.fault(self.token)
        place = Place(line, self.place.file, self.place.source_line)
        made = Instruction(name, tuple(modifiers), tuple(operands), place, guard, negated)
        if name == "brx" and isinstance(operands[1], Sym):
            made.targets = tuple(operands[1].name.split(","))
        return made

    def register(self, scope: _Scope) -> Reg:
        token = self.next()
        found = scope.find(token.text)
        if not isinstance(found, Reg):
            raise self.fault(token, f"`{token.text}` is no register")
        return found

    def operand(self, scope: _Scope) -> Operand:
        token = self.token
        special = _OPERANDS.get(token.text)
        if special is not None and token.kind == "sign":
            self.at += 1
            return special(self, scope)
        first = self.simple(scope)
        if self.accept("|"):
            return Pair(first, self.simple(scope))
        return first

    def simple(self, scope: _Scope) -> Operand:
        token = self.next()
        if token.kind == "int":
            return Imm(_integer(token.text))
        if token.kind == "float":
            return _float(token.text)
        if token.text == "-":
            number = self.simple(scope)
            if isinstance(number, Imm) and number.kind in ("int", "decimal"):
                return Imm(-number.value, number.kind)
        if token.kind != "word":
            raise self.fault(token)
        if token.text == "_":
            return Sink()
        return self.named(token.text, scope)

    def named(self, name: str, scope: _Scope) -> Reg | Sym:
        found = scope.find(name)
        if found is not None:
            return self.with_offset(found)
        if name.startswith("%"):
            return Reg(name)
        return self.with_offset(Sym(name))

    def with_offset(self, found: Reg | Sym) -> Reg | Sym:
        if isinstance(found, Sym) and self.token.text == "+":
            self.at += 1
            return Sym(found.name, found.offset + self.integer())
        return found

    def list_until(self, scope: _Scope, end: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self.accept(end):
            items.append(self.operand(scope))
            self.accept(",")
        return tuple(items)

    def vector(self, scope: _Scope) -> Operand:
        return Vec(self.list_until(scope, "}"))

    def group(self, scope: _Scope) -> Operand:
        return Group(self.list_until(scope, ")"))

    def memory(self, scope: _Scope) -> Operand:
        base = self.simple(scope)
        if not isinstance(base, (Reg, Sym, Imm)):
            raise self.fault(self.token)
        offset = self.integer() if self.accept("+") else 0
        coordinates: tuple[Operand, ...] = ()
        if self.accept(","):
            self.expect("{")
            coordinates = self.list_until(scope, "}")
        self.expect("]")
        return Mem(base, offset, coordinates)

    def negation(self, scope: _Scope) -> Operand:
        return Negated(self.register(scope))


_OPERANDS: dict[str, Callable[[_Parser, _Scope], Operand]] = {
    "{": _Parser.vector,
    "(": _Parser.group,
    "[": _Parser.memory,
    "!": _Parser.negation,
}


def _rename_labels(instruction: Instruction, own: Mapping[str, Sym]) -> None:
    """Branches to labels of the block whose end was reached."""
    if instruction.name != "bra":
        return
    target = instruction.operands[0]
    if isinstance(target, Sym) and target.name in own:
        instruction.operands = (own[target.name],)


def _integer(text: str) -> int:
    digits = text.rstrip("U")
    return int(digits, 8) if len(digits) > 1 and digits.isdigit() and digits[0] == "0" else int(digits, 0)


def _float(text: str) -> Imm:
    if text[:2] in ("0f", "0F"):
        return Imm(int(text[2:], 16), "f32")
    if text[:2] in ("0d", "0D"):
        return Imm(int(text[2:], 16), "f64")
    return Imm(float(text), "decimal")


def bits_of(value: float, width: int) -> int:
    """The bits of a decimal float constant of 32 or 64 bits."""
    return int.from_bytes(struct.pack("<f" if width == 32 else "<d", value), "little")


def parse(text: str) -> Module:
    """Raises PtxFault E-7001 with the line of what it does not know."""
    return _Parser(text).parse()
