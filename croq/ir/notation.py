"""How the parts of an operation are written: what printer and parser share.

Each field of an operation has a role, which follows from its declaration alone:

    left         `result`, `future`: written before the `=`, with its type
    definition   `iv`, `iterators`, ..: values that the operation defines for its regions, in place and with their types
    region       a block in braces, under the field's name unless the operation has only one
    operand      values, objects, references, words: by position, `_` where there is none
    attribute    numbers and flags: `name=value`, left out where it is None; by position when it is the only field
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from croq.ir.core import RESULT_FIELDS, Block, Object, Op
from croq.ir.objects import OBJECTS, Kernel

Role = Literal["left", "definition", "region", "operand", "attribute"]

LEFT = frozenset({"result", "future"})
KEYWORDS = {"param": "params", "buffer": "buffers", "fragment": "fragments", "event": "events"} | {
    "variable": "variables",
    "tensor_map": "tensor_maps",
    "requirement": "requirements",
    "wait": "waits",
}  # what introduces an object's declaration -> the kernel's list of such objects
CLASSES: dict[str, type[Object]] = dict(zip(KEYWORDS, OBJECTS, strict=True))
RESERVED = frozenset({"_", "true", "false", "inf", "nan", "threads", "by"})
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:::|[.-])[A-Za-z0-9_]+)*")


@dataclass(frozen=True)
class FieldInfo:
    name: str
    hint: Any
    role: Role


def options(hint: Any) -> Iterator[Any]:
    """The alternatives of a type hint: members of unions, None left out."""
    if get_origin(hint) in (Union, UnionType):
        for arg in get_args(hint):
            yield from options(arg)
    elif hint is not NoneType:
        yield hint


def is_word(text: str) -> bool:
    """Whether a string may be written without quotes."""
    return WORD.fullmatch(text) is not None and text not in RESERVED


_CACHE: dict[type[Any], tuple[FieldInfo, ...]] = {}


def op_fields(cls: type[Op]) -> tuple[FieldInfo, ...]:
    """The fields of an operation class in declaration order, without span, threads and rule."""
    if cls not in _CACHE:
        _CACHE[cls] = _op_fields(cls)
    return _CACHE[cls]


def record_fields(cls: type[Object] | type[Kernel]) -> tuple[FieldInfo, ...]:
    """The attributes of an object or a kernel that text shows: all but the name, the span and other objects' lists."""
    if cls not in _CACHE:
        hints = get_type_hints(cls)
        hidden = {"name", "span", "init", "body", "file", *KEYWORDS.values()}
        names = [f.name for f in fields(cls) if f.name not in hidden]
        _CACHE[cls] = tuple(FieldInfo(name, hints[name], "attribute") for name in names)
    return _CACHE[cls]


def _op_fields(cls: type[Op]) -> tuple[FieldInfo, ...]:
    hints = get_type_hints(cls)
    names = [f.name for f in fields(cls) if f.name not in ("span", "threads", "rule")]
    roles = {name: _role(name, hints[name]) for name in names}
    inline = [name for name in names if roles[name] not in ("left", "region")]
    if len(inline) == 1 and roles[inline[0]] == "attribute":
        roles[inline[0]] = "operand"
    return tuple(FieldInfo(name, hints[name], roles[name]) for name in names)


def keyword_of(obj: Object) -> str:
    return next(word for word, cls in CLASSES.items() if isinstance(obj, cls))


def _role(name: str, hint: Any) -> Role:
    if name in LEFT:
        return "left"
    if name in RESULT_FIELDS:
        return "definition"
    if any(option is Block for option in options(hint)):
        return "region"
    return "attribute" if all(option in (int, bool, float) for option in options(hint)) else "operand"
