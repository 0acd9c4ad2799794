"""What a pass is: a frozen dataclass with a name, its contract as data, its options as fields, and `apply`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Op
from croq.ir.facts import Fact
from croq.ir.objects import Kernel


class Pass(ABC):
    """One step from tile IR to hardware IR. File, class and command-line name agree.

    The docstring of the module says what is derived, and states the rules. Faults of the program go to the sink; a pass
    that finds one may leave the kernel half changed, so the pipeline checks the sink after each pass.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()  # passes that have run before
    adds: ClassVar[tuple[type[Op] | Fact, ...]] = ()  # operations that it makes, and what holds from here
    leaves_no: ClassVar[tuple[type[Op], ...]] = ()  # operations that are gone behind it, for good

    @abstractmethod
    def apply(self, kernel: Kernel, sink: Sink) -> None:
        """Change the kernel in place."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(item for item in self.adds if isinstance(item, Fact))

    def undone(self, kernel: Kernel) -> Iterator[str]:
        """Signs that the pass has not run on the kernel."""
        left = {type(op) for op in kernel.walk()}.intersection(self.leaves_no)
        yield from (f"`{kind.NAME}` is left" for kind in sorted(left, key=lambda kind: kind.NAME))
        for fact in self.facts:
            yield from fact.broken(kernel)
