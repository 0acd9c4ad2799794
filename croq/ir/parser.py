"""Printed IR back to a kernel: `print_kernel(parse_kernel(text)) == text` for printed text.

The grammar is in docs/ir.md. Like the printer it follows the declarations: the field of a class says what may stand at
its place. Spans become empty spans at their line of a file that has only line ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import croq.ir.hw
import croq.ir.scalar
import croq.ir.tile  # noqa: F401  (the three register the operations)
from croq.diagnostics import CompileError, make
from croq.ir.core import REGISTRY, Block, Composite, Object, Op, Value
from croq.ir.notation import CLASSES, KEYWORDS, WORD, FieldInfo, op_fields, options, record_fields
from croq.ir.objects import (
    Buffer,
    Event,
    EventRef,
    Fragment,
    FragRef,
    Kernel,
    Layout,
    Matrix,
    Module,
    Param,
    Start,
    View,
)
from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import SourceFile, Span
from croq.target import DEFAULT, TARGETS
from croq.target.fragments import LAYOUTS

CODE = "E-2190"
_SPACE = re.compile(r"(?:\s|//(?! line \d)[^\n]*)*")
_LINE = re.compile(r"[ \t]*// line (\d+)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_FLOAT = re.compile(r"-?(?:inf|nan|\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)")
_INTEGER = re.compile(r"-?\d+")
_NAME = re.compile(r"\w+")
_VALUE = re.compile(r"\w+(?:\.\d+)?")  # a number behind the dot tells values of one name apart
_T = TypeVar("_T")


def parse_kernel(text: str) -> Kernel:
    """The kernel of printed text. Raises CompileError (E-2190) with the place where the text cannot be read."""
    module = parse_module(text)
    if len(module.kernels) != 1:
        raise CompileError([make(CODE, None, f"IR text with {len(module.kernels)} kernels where one is expected")])
    return module.kernels[0]


def parse_module(text: str, name: str = "<ir>") -> Module:
    """The kernels of printed text; `name` is what messages call it."""
    parser = _Parser(text, name)
    kernels = []
    while not parser.at_end():
        kernels.append(parser.kernel())
    return Module(kernels[0].file if kernels else SourceFile("<ir>", ""), kernels)


class _Parser:
    def __init__(self, text: str, name: str = "<ir>") -> None:
        self.source = SourceFile(name, text)
        self.text = text
        self.position = 0
        lines = [int(n) for n in re.findall(r"// line (\d+)$", text, re.MULTILINE)]
        self.blank = "\n" * max(lines, default=0)
        self.file = SourceFile("<ir>", self.blank)
        self.objects: dict[type[Object], dict[str, Object]] = {}
        self.values: dict[str, Value] = {}
        self.pending: set[str] = set()

    # ----------------------------------------------------------------------------------------------------- scanning
    def fail(self, expected: str) -> NoReturn:
        span = Span(self.source, self.position, self.position + 1)
        raise CompileError([make(CODE, span, f"IR text cannot be read: expected {expected}")])

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.position)
        self.position = found.end() if found else self.position

    def at_end(self) -> bool:
        self.skip()
        return self.position >= len(self.text)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        self.skip()
        found = pattern.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return found.group()

    def take(self, token: str) -> bool:
        """Consume `token` if it comes next; a word only when it ends there."""
        self.skip()
        end = self.position + len(token)
        if not self.text.startswith(token, self.position):
            return False
        if (token[-1].isalnum() or token == "_") and re.match(r"\w", self.text[end : end + 1]):
            return False
        self.position = end
        return True

    def need(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"`{token}`")

    def name(self, pattern: re.Pattern[str] = _NAME) -> str:
        found = self.match(pattern)
        return found if found is not None else self.fail("a name")

    def listed(self, close: str, item: Callable[[], _T]) -> list[_T]:
        """Items with commas between, up to and with `close`."""
        items: list[_T] = []
        while not self.take(close):
            if items:
                self.need(",")
            items.append(item())
        return items

    def line(self) -> Span | None:
        found = _LINE.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        start = self.file.line_starts[int(found.group(1)) - 1]
        return Span(self.file, start, start)

    # ------------------------------------------------------------------------------------------- kernels and objects
    def kernel(self) -> Kernel:
        self.objects = {cls: {} for cls in CLASSES.values()}
        self.values, self.pending = {}, set()
        self.need("kernel")
        name = self.name()
        self.need("file")
        self.need("=")
        self.file = SourceFile(str(self.string()), self.blank)
        self.take(",")
        attributes = self.record(Kernel)
        self.need("{")
        while (keyword := self.keyword()) is not None:
            self.declaration(keyword)
        known = ThreadSet.all(attributes.get("threads", 0)) if attributes.get("known_threads") else None
        body = self.block(known)
        if self.pending:
            self.fail(f"a definition of %{min(self.pending)}")
        lists: dict[str, Any] = {group: list(self.objects[CLASSES[k]].values()) for k, group in KEYWORDS.items()}
        self.kernel_checks(attributes)
        return Kernel(name=name, file=self.file, body=body, **attributes, **lists)

    def kernel_checks(self, attributes: dict[str, Any]) -> None:
        for required in ("grid", "threads"):
            if required not in attributes:
                self.fail(f"a kernel with `{required}`")
        if attributes.get("arch", DEFAULT.name) not in TARGETS:
            self.fail(f"an architecture that croq makes code for: {', '.join(TARGETS)}")

    def keyword(self) -> str | None:
        return next((keyword for keyword in KEYWORDS if self.take(keyword + " ")), None)

    def declaration(self, keyword: str) -> None:
        cls = CLASSES[keyword]
        self.need("@")
        name = self.name()
        attributes = self.record(cls)
        try:
            made = cls(name=name, span=self.line(), **attributes)
        except TypeError as error:
            self.fail(f"a complete {keyword} ({error})")
        self.objects[cls][name] = made

    def record(self, cls: type[Object] | type[Kernel]) -> dict[str, Any]:
        infos = {info.name: info for info in record_fields(cls)}
        found: dict[str, Any] = {}
        while (info := self.attribute_name(infos)) is not None:
            found[info.name] = self.item(info.hint)
            self.take(",")
        return found

    def attribute_name(self, infos: dict[str, FieldInfo]) -> FieldInfo | None:
        start = self.position
        name = self.match(_NAME)
        if name in infos and self.take("="):
            return infos[name]
        self.position = start
        return None

    # --------------------------------------------------------------------------------------------------- operations
    def block(self, around: ThreadSet | None) -> Block:
        """Operations up to and with the closing brace; the opening one is consumed. `around` execute the block."""
        ops: list[Op] = []
        while not self.take("}"):
            if self.at_end():
                self.fail("`}`")
            ops.append(self.op(around))
        return Block(ops)

    def op(self, around: ThreadSet | None) -> Op:
        left: list[Value] = []
        self.skip()
        if self.text.startswith("%", self.position):
            left.append(self.definition())
            while self.take(","):
                left.append(self.definition())
            self.need("=")
        name = self.match(WORD)
        cls = REGISTRY.get(name or "")
        if cls is None:
            self.fail("the name of an operation")
        infos = op_fields(cls)
        found: dict[str, Any] = {}
        for info in infos:
            if info.role == "left":
                found[info.name] = left.pop(0) if left else None
        self.inline(infos, found)
        threads = self.item(ThreadSet) if self.take("threads") else around
        rule = self.match(WORD) if self.take("by ") else None
        span = self.regions(infos, found, threads)
        op = cls(**found, span=span, threads=threads, rule=rule)
        for info in infos:
            if info.role == "left" and found[info.name] is not None:
                found[info.name].op = op
        return op

    def inline(self, infos: tuple[FieldInfo, ...], found: dict[str, Any]) -> None:
        """Operands, attributes and definitions, in the order of their declaration."""
        first = True
        for info in infos:
            if info.role not in ("operand", "attribute", "definition"):
                continue
            start = self.position
            if not first and not self.take(","):
                if info.role != "attribute":
                    self.fail("`,`")
                found[info.name] = None
                continue
            if info.role == "operand":
                found[info.name] = self.item(info.hint)
            elif info.role == "definition":
                many = self.take("(")
                found[info.name] = tuple(self.listed(")", self.definition)) if many else self.definition()
            elif self.take(info.name) and self.take("="):
                found[info.name] = self.item(info.hint)
            else:
                self.position = start
                found[info.name] = None
                continue
            first = False

    def regions(self, infos: tuple[FieldInfo, ...], found: dict[str, Any], around: ThreadSet | None) -> Span | None:
        declared = [info for info in infos if info.role == "region"]
        span, opened = self.line() if not declared else None, False
        for info in declared:
            found[info.name] = None
            if len(declared) > 1 and not self.take(info.name):
                continue
            self.need("{")
            if not opened:
                span, opened = self.line(), True
            found[info.name] = self.block(around)
        return span

    def definition(self) -> Value:
        self.need("%")
        name = self.name(_VALUE)
        if name in self.values and name not in self.pending:
            self.fail(f"a name that is not taken, unlike %{name}")
        value = self.value(name)
        self.pending.discard(name)
        self.need(":")
        value.type = self.name()
        if self.take("["):
            low = self.integer()
            self.need("..")
            value.bounds = (low, self.integer())
            self.need("]")
        return value

    def value(self, name: str) -> Value:
        if name not in self.values:
            self.values[name] = Value("", None if name.isdigit() else name.partition(".")[0])
            self.pending.add(name)
        return self.values[name]

    # -------------------------------------------------------------------------------------------------------- items
    def item(self, hint: Any) -> Any:
        """What a field of this type may hold."""
        kinds = list(options(hint))
        if self.take("_"):
            return None
        tuples = next((kind for kind in kinds if get_origin(kind) is tuple), None)
        self.skip()
        ahead = self.text[self.position : self.position + 1]
        if tuples is not None and ahead == "(":
            return self.sequence(tuples)
        if Dim in kinds:
            return self.dim()
        if ahead == "%":
            self.need("%")
            return self.value(self.name(_VALUE))
        if ahead == "{":
            return self.threads() if ThreadSet in kinds else set(self.braced())
        if Layout in kinds:
            return self.layout()
        for record in (Matrix, Start):
            if record in kinds:
                self.need(record.__name__.lower())
                return self.attributes(record)
        if any(isinstance(kind, type) and issubclass(kind, Object | Composite) for kind in kinds):
            return self.reference(kinds)
        return self.literal(kinds)

    def literal(self, kinds: list[Any]) -> int | float | bool | str:
        if bool in kinds and self.take("true"):
            return True
        if bool in kinds and self.take("false"):
            return False
        if float in kinds and (number := self.match(_FLOAT)) is not None:
            return float(number)
        if int in kinds:
            return self.integer()
        return self.string()

    def integer(self) -> int:
        number = self.match(_INTEGER)
        return int(number) if number is not None else self.fail("an integer")

    def string(self) -> str:
        quoted = self.match(_STRING)
        if quoted is not None:
            return str(json.loads(quoted))
        word = self.match(WORD)
        return word if word is not None else self.fail("a word or a string")

    def sequence(self, hint: Any) -> tuple[Any, ...]:
        self.need("(")
        args = [arg for arg in get_args(hint) if arg is not Ellipsis]
        count = 0

        def part() -> Any:
            nonlocal count
            count += 1
            return self.item(args[min(count, len(args)) - 1])

        return tuple(self.listed(")", part))

    def braced(self) -> list[str]:
        self.need("{")
        return self.listed("}", self.string)

    def threads(self) -> ThreadSet:
        def part() -> tuple[int, int]:
            low = self.integer()
            self.need("..")
            return low, self.integer()

        self.need("{")
        return ThreadSet(tuple(self.listed("}", part)))

    def layout(self) -> Any:
        kind = self.match(_NAME)
        cls = LAYOUTS.get(kind or "")
        if cls is None:
            self.fail(f"a layout: {', '.join(LAYOUTS)}")
        return self.attributes(cls)

    def attributes(self, cls: type[Any]) -> Any:
        """An instance of a dataclass from `(name=value, ..)`."""
        hints = get_type_hints(cls)
        infos = {f.name: FieldInfo(f.name, hints[f.name], "attribute") for f in fields(cls)}
        found: dict[str, Any] = {}
        self.need("(")
        while not self.take(")"):
            info = self.attribute_name(infos)
            if info is None:
                self.fail(f"one of the attributes {', '.join(infos)}")
            found[info.name] = self.item(info.hint)
            self.take(",")
        try:
            return cls(**found)
        except TypeError as error:
            self.fail(f"all attributes ({error})")

    # --------------------------------------------------------------------------------------------------- references
    def reference(self, kinds: list[Any]) -> Any:
        keyword = next((word for word in KEYWORDS if self.take(word + "@")), None)
        if keyword is None:
            self.need("@")
        name = self.name()
        classes = [kind for kind in kinds if isinstance(kind, type)]
        if any(issubclass(kind, Object) for kind in classes):
            return self.object(name, keyword, tuple(kind for kind in classes if issubclass(kind, Object)))
        slot = self.item(Value | int | None) if self.take("<") else None
        if slot is not None:
            self.need(">")
        if View in classes and self.take("["):
            return self.view(self.object(name, keyword, (Param, Buffer)), slot)
        if EventRef in classes:
            order = self.item(Value) if self.take(".at(") else None
            if order is not None:
                self.need(")")
            return EventRef(self.object(name, keyword, (Event,)), slot, order)
        return FragRef(self.object(name, keyword, (Fragment,)), slot)

    def object(self, name: str, keyword: str | None, classes: tuple[type[Object], ...]) -> Any:
        for cls in (CLASSES[keyword],) if keyword is not None else classes:
            if name in self.objects[cls]:
                return self.objects[cls][name]
        self.fail(f"an object that is declared; there is no @{name}")

    def view(self, root: Any, slot: Any) -> View:
        kept: list[int] = []
        dims: list[tuple[Any, Dim]] = []

        def part() -> None:
            offset = self.item(Value | int)
            self.need(":")
            dims.append((offset, self.dim()))
            if not self.take("!"):
                kept.append(len(dims) - 1)

        self.listed("]", part)
        order = self.sequence(tuple[int, ...]) if self.take("kept") else tuple(kept)
        return View(root, slot, tuple(o for o, _ in dims), tuple(e for _, e in dims), order)

    # -------------------------------------------------------------------------------------------------- symbolic dims
    def dim(self) -> Dim:
        total = self.term()
        while True:
            if self.take("+"):
                total = total + self.term()
            elif self.take("-"):
                total = total - self.term()
            else:
                return total

    def term(self) -> Dim:
        if self.take("-"):
            return self.term() * -1
        product = self.quotient()
        while self.take("*"):
            product = product * self.quotient()
        return product

    def quotient(self) -> Dim:
        left = self.primary()
        if self.take("/"):
            return left.div(self.primary())
        return left.mod(self.primary()) if self.take("%") else left

    def primary(self) -> Dim:
        if self.take("("):
            inner = self.dim()
            self.need(")")
            return inner
        word = self.name()
        if word.isdigit():
            return Dim.of(int(word))
        if word in ("cdiv", "min", "max") and self.take("("):
            left = self.dim()
            self.need(",")
            right = self.dim()
            self.need(")")
            return {"cdiv": left.cdiv, "min": left.min, "max": left.max}[word](right)
        return Dim.symbol(word)
