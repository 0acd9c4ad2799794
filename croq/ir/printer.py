"""The IR as text: deterministic, complete, and derived from the declarations of operations and objects.

The grammar is in docs/ir.md; `croq.ir.parser` reads the text back. Left out is everything of a span but its line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from croq.ir.core import Block, Composite, Object, Op, Value
from croq.ir.notation import KEYWORDS, FieldInfo, is_word, keyword_of, op_fields, record_fields
from croq.ir.objects import EventRef, FragRef, Kernel, Matrix, Module, Start, View
from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import Span

INDENT = "  "


def print_module(module: Module) -> str:
    """Every kernel of the module, a blank line between."""
    return "\n".join(print_kernel(kernel) for kernel in module.kernels)


def print_kernel(kernel: Kernel, only: str | None = None) -> str:
    """The kernel as text that ends in a newline.

    `only` picks one part: "params", "buffers", "fragments", "events", "variables", "tensor_maps" or "body". Raises
    ValueError for another word.
    """
    printer = Printer(kernel)
    if only is None:
        lines = [printer.header(), *printer.declarations(), *printer.block(kernel.body, 1, kernel.everyone), "}"]
    elif only == "body":
        lines = list(printer.block(kernel.body, 0, kernel.everyone))
    elif only in KEYWORDS.values():
        lines = [printer.declaration(obj) for obj in getattr(kernel, only)]
    else:
        raise ValueError(f"a kernel has no part {only!r}; parts are {', '.join(KEYWORDS.values())} and body")
    return "".join(f"{line}\n" for line in lines)


def print_op(op: Op) -> str:
    """One operation (and its regions) on its own; unnamed values are numbered from 0 in order of appearance."""
    return "\n".join(Printer(None).op(op, 0, None))


class Printer:
    """Names values in order of definition; one object prints one kernel."""

    def __init__(self, kernel: Kernel | None) -> None:
        self.kernel = kernel
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.numbered = 0
        groups = [getattr(kernel, group) for group in KEYWORDS.values()] if kernel is not None else []
        counts = Counter(obj.name for group in groups for obj in group)
        self.ambiguous = {name for name, count in counts.items() if count > 1}
        if kernel is not None:
            self._name_all(kernel.body)

    def header(self) -> str:
        assert self.kernel is not None
        attributes = self._record(self.kernel)
        return f"kernel {self.kernel.name} file={json.dumps(self.kernel.file.name)}{', ' if attributes else ''}" + (
            f"{attributes} {{"
        )

    def declarations(self) -> Iterator[str]:
        for group in KEYWORDS.values():
            for obj in getattr(self.kernel, group):
                yield INDENT + self.declaration(obj)

    def declaration(self, obj: Object) -> str:
        attributes = self._record(obj)
        return f"{keyword_of(obj)} @{obj.name}{' ' if attributes else ''}{attributes}{_line(obj.span)}"

    def block(self, block: Block, depth: int, around: ThreadSet | None) -> Iterator[str]:
        for op in block.ops:
            yield from self.op(op, depth, around)

    def op(self, op: Op, depth: int, around: ThreadSet | None) -> Iterator[str]:
        """`around`: who executes the block that the operation stands in."""
        infos = op_fields(type(op))
        left = ", ".join(self._definition(value) for value in _left_values(op, infos))
        parts = [part for info in infos if (part := self._part(op, info)) is not None]
        line = (f"{left} = " if left else "") + op.NAME + (" " + ", ".join(parts) if parts else "")
        if op.threads != around:
            line += f" threads {'_' if op.threads is None else op.threads}"
        if op.rule is not None:
            line += f" by {op.rule}"
        regions = [(info.name, getattr(op, info.name)) for info in infos if info.role == "region"]
        named = len(regions) > 1
        pad, comment, opened = INDENT * depth, _line(op.span), False
        for name, region in regions:
            if region is None:
                continue
            start = f"{'} ' if opened else line + ' '}{name + ' ' if named else ''}{{"
            yield pad + start + ("" if opened else comment)
            yield from self.block(region, depth + 1, op.threads)
            opened = True
        yield pad + ("}" if opened else line + comment)

    # ------------------------------------------------------------------------------------------------------ pieces
    def _part(self, op: Op, info: FieldInfo) -> str | None:
        item = getattr(op, info.name)
        if info.role == "operand":
            return self.item(item)
        if info.role == "attribute":
            return None if item is None else f"{info.name}={self.item(item)}"
        if info.role == "definition":
            if isinstance(item, tuple):
                return f"({', '.join(self._definition(value) for value in item)})"
            return self._definition(item)
        return None

    def _record(self, obj: Object | Kernel) -> str:
        declared = {f.name: f for f in fields(obj)}
        shown = []
        for info in record_fields(type(obj)):
            item = getattr(obj, info.name)
            if not _is_default(declared[info.name], item):
                shown.append(f"{info.name}={self.item(item)}")
        return ", ".join(shown)

    def _definition(self, value: Value) -> str:
        bounds = f"[{value.bounds[0]}..{value.bounds[1]}]" if value.bounds is not None else ""
        return f"%{self._name(value)}: {value.type}{bounds}"

    def item(self, item: Any) -> str:
        """Any field value but a block."""
        if item is None or isinstance(item, bool):
            return {None: "_", True: "true", False: "false"}[item]
        if isinstance(item, str):
            return item if is_word(item) else json.dumps(item)
        if isinstance(item, int | float | Dim | ThreadSet):
            return str(item)
        if isinstance(item, Value):
            return f"%{self._name(item)}"
        if isinstance(item, Object):
            return f"{keyword_of(item) if item.name in self.ambiguous else ''}@{item.name}"
        if isinstance(item, Composite):
            return self._reference(item)
        if isinstance(item, tuple):
            return f"({', '.join(self.item(part) for part in item)})"
        if isinstance(item, set | frozenset):
            return f"{{{', '.join(sorted(self.item(part) for part in item))}}}"
        if is_dataclass(item):
            return self._layout(item)
        raise TypeError(f"no notation for {item!r}")

    def _reference(self, item: Composite) -> str:
        if isinstance(item, View):
            spans = [
                f"{self.item(offset)}:{extent}{'' if d in item.kept else '!'}"
                for d, (offset, extent) in enumerate(zip(item.offsets, item.extents, strict=True))
            ]
            order = "" if list(item.kept) == sorted(item.kept) else f" kept {self.item(item.kept)}"
            return f"{self.item(item.root)}{self._slot(item.slot)}[{', '.join(spans)}]{order}"
        if isinstance(item, EventRef):
            order = f".at({self.item(item.order)})" if item.order is not None else ""
            return f"{self.item(item.event)}{self._slot(item.slot)}{order}"
        if isinstance(item, FragRef):
            return f"{self.item(item.frag)}{self._slot(item.slot)}"
        if isinstance(item, Matrix | Start):
            return f"{type(item).__name__.lower()}({self._attributes(item)})"
        raise TypeError(f"no notation for {item!r}")

    def _slot(self, slot: Value | int | None) -> str:
        return "" if slot is None else f"<{self.item(slot)}>"

    def _layout(self, item: Any) -> str:
        return f"{item.kind}({self._attributes(item)})"

    def _attributes(self, item: Any) -> str:
        return ", ".join(
            f"{f.name}={self.item(getattr(item, f.name))}"
            for f in fields(item)
            if f.name != "kind" and not _is_default(f, getattr(item, f.name))
        )

    def _name_all(self, block: Block) -> None:
        for op in block.walk():
            for value in op.results():
                self._name(value)

    def _name(self, value: Value) -> str:
        known = self.names.get(value)
        if known is not None:
            return known
        if value.name is None:
            name = str(self.numbered)
            self.numbered += 1
        else:
            name, n = value.name, 0
            while name in self.taken:
                n += 1
                name = f"{value.name}.{n}"
        self.taken.add(name)
        self.names[value] = name
        return name


def _left_values(op: Op, infos: tuple[FieldInfo, ...]) -> Iterator[Value]:
    for info in infos:
        item = getattr(op, info.name) if info.role == "left" else None
        if item is not None:
            yield item


def _is_default(declared: Field[Any], item: Any) -> bool:
    if declared.default is not MISSING:
        return bool(item == declared.default)
    return declared.default_factory is not MISSING and bool(item == declared.default_factory())


def _line(span: Span | None) -> str:
    return "" if span is None else f"  // line {span.line}"
