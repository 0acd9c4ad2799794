"""Rules by operation class: what one consumer does with each operation, and of which it knows nothing, and why.

Whoever treats operations class by class keeps its rules in a `Rules`. It sees a closed world: of an operation without a
rule it must not say that all is well. `without` names those that it leaves alone on purpose; tests/ir/test_consumers.py
names the rest, of every consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from croq.diagnostics import InternalError, make
from croq.ir.core import REGISTRY, Op

Rule = TypeVar("Rule")
_R = TypeVar("_R")
CONSUMERS: list[Rules[object]] = []


def lowered(kind: type[Op]) -> bool:
    """Whether operations of the class may be left when all passes have run."""
    return kind.VOCABULARY != "tile"


class Rules(Generic[Rule]):
    """`about`: the classes that the consumer meets. `general`: the rule of those that traits are enough for."""

    def __init__(
        self,
        consumer: str,
        about: Callable[[type[Op]], bool] = lowered,
        general: Callable[[type[Op]], Rule | None] = lambda kind: None,
    ) -> None:
        self.consumer, self.about, self.general = consumer, about, general
        self.of: dict[type[Op], Rule] = {}
        self.left_alone: dict[type[Op], str] = {}
        CONSUMERS.append(self)  # type: ignore[arg-type]

    def __call__(self, *kinds: type[Op]) -> Callable[[_R], _R]:
        """Declare a function to be the rule of some classes."""

        def register(rule: _R) -> _R:
            self.of.update(dict.fromkeys(kinds, rule))  # type: ignore[arg-type]
            return rule

        return register

    def without(self, why: str, *kinds: type[Op]) -> None:
        """There is no rule for these, on purpose."""
        self.left_alone.update(dict.fromkeys(kinds, why))

    def get(self, op: Op) -> Rule | None:
        kind = type(op)
        return self.of.get(kind) or self.general(kind)

    def __getitem__(self, op: Op) -> Rule:
        """For a consumer that has a rule for all that it meets."""
        rule = self.get(op)
        if rule is None:
            raise InternalError([make("E-9001", op.span, f"{self.consumer}: no rule for the operation `{op.NAME}`")])
        return rule

    def missing(self) -> Iterator[type[Op]]:
        """Classes that the consumer meets and has no word about."""
        for kind in REGISTRY.values():
            if self.about(kind) and not (kind in self.of or kind in self.left_alone or self.general(kind) is not None):
                yield kind
