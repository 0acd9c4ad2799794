"""C++ names: the source's own where possible, unique among all that is visible at a place."""

from __future__ import annotations

import re
from collections.abc import Iterable

from croq import cuda_names
from croq.ir.objects import Kernel
from croq.ir.scalar import Call
from croq.syntax.outside import macros_in


class Names:
    """Names of one function. Scopes nest; a name that goes out of scope may be given again."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._scopes: list[set[str]] = [set(reserved)]

    def push(self) -> None:
        self._scopes.append(set())

    def pop(self) -> None:
        self._scopes.pop()

    def taken(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def declare(self, wanted: str) -> str:
        """`wanted`, or the first of `wanted_2`, `wanted_3`, ... that C++ does not reserve and nothing visible has."""
        base = cuda_names.plain(wanted)
        name, n = base, 1
        while self.taken(name) or cuda_names.taken_for_variables(name):
            n += 1
            name = f"{base}_{n}"
        self._scopes[-1].add(name)
        return name


def outside_names(kernel: Kernel) -> set[str]:
    """The names of the C++ outside that `kernel` itself uses, and the macros there: not to be hidden, or replaced."""
    calls = [op for op in kernel.walk() if isinstance(op, Call)]
    called = {word for op in calls for text in (op.callee, *op.template_args) for word in re.findall(r"\w+", text)}
    return called | macros_in(kernel.device_text)
