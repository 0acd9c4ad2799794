"""What a pass is: a frozen dataclass with a name, its options as fields, and `apply`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.objects import Kernel


class Pass(ABC):
    """One step from tile IR to hardware IR. File, class and command-line name agree.

    The docstring of a pass says what must hold before it, what holds after it, and what it must follow and why. Faults
    of the program go to the sink; a pass that finds one may leave the kernel half changed, so the pipeline checks the
    sink after each pass.
    """

    name: ClassVar[str]

    @abstractmethod
    def apply(self, kernel: Kernel, sink: Sink) -> None:
        """Change the kernel in place."""
