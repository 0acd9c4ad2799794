"""How each instruction is compiled: one handler a family, registered by name with the modifiers that it knows.

A modifier that a handler does not declare is refused, never passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from croq.ptx.faults import unsupported
from croq.ptx.syntax import WIDTHS, Instruction

if TYPE_CHECKING:
    from croq.ptx.build import Builder
    from croq.ptx.groups import Group
    from croq.ptx.lanes import Lanes
    from croq.ptx.machine import Machine

Step = Callable[["Lanes"], None]  # acts on some threads, and the next instruction follows
End = Callable[["Machine", "Group"], bool]  # decides where a group goes; False when another may have to run first


H = TypeVar("H", bound=Callable[..., Any])


@dataclass(frozen=True)
class Form:
    """An instruction as its handler sees it: the name it is registered by, its types and its other modifiers."""

    instruction: Instruction
    name: str
    types: tuple[str, ...]
    flags: frozenset[str]

    @property
    def operands(self) -> tuple[Any, ...]:
        return self.instruction.operands

    @property
    def type(self) -> str:
        return self.types[-1] if self.types else ""

    def one_of(self, *choices: str, default: str = "") -> str:
        """The modifier among `choices` that is there."""
        return next((c for c in choices if c in self.flags), default)

    def refuse(self, why: str = "") -> Exception:
        return unsupported(
            f"`{self.instruction.opcode}`" + (f": {why}" if why else " has no rule here"), self.instruction.place
        )


@dataclass(frozen=True)
class Rule:
    handler: Callable[[Builder, Form], Any]
    flags: frozenset[str]
    types: frozenset[str] | None
    ends: bool  # the handler gives an `End`


RULES: dict[str, Rule] = {}


def instruction(names: str, *, flags: str = "", types: str = "", ends: bool = False) -> Callable[[H], H]:
    """Register a handler for instructions `names`, with the modifiers and the types that it knows (all when empty)."""

    def register(handler: H) -> H:
        rule = Rule(handler, frozenset(flags.split()), frozenset(types.split()) or None, ends)
        for name in names.split():
            assert name not in RULES, name
            RULES[name] = rule
        return handler

    return register


def rule_of(ins: Instruction) -> tuple[Rule, Form]:
    """The rule of the longest beginning of the opcode that has one.

    Raises PtxFault E-7002 for an instruction or a modifier without a rule.
    """
    found = _match(ins.name, ins.modifiers)
    if isinstance(found, str):
        raise unsupported(f"`{ins.opcode}`: {found}", ins.place)
    rule, name, types, flags = found
    return rule, Form(ins, name, types, flags)


@lru_cache(maxsize=4096)
def _match(name: str, modifiers: tuple[str, ...]) -> tuple[Rule, str, tuple[str, ...], frozenset[str]] | str:
    taken = next((k for k in range(min(4, len(modifiers)), -1, -1) if ".".join((name, *modifiers[:k])) in RULES), None)
    if taken is None:
        return "the instruction has no rule here"
    name, modifiers = ".".join((name, *modifiers[:taken])), modifiers[taken:]
    rule = RULES[name]
    types = tuple(m for m in modifiers if m in WIDTHS and m not in rule.flags)
    flags = frozenset(modifiers) - set(types)
    unknown = sorted(flags - rule.flags) + sorted(set(types) - (rule.types or set(types)))
    return f"the form `.{unknown[0]}` has no rule here" if unknown else (rule, name, types, flags)
