"""The protocol verifier at work on what was compiled: is the order that data needs kept, and if not, by whose fault?

`validate` is quick and part of every compile: the lowered kernel as it will be emitted, within the default bounds, so
that a fault of croq's own lowering cannot reach a GPU unnoticed. `judge` is what `croq check` asks for: both levels of
the IR, within wide bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from croq.diagnostics import Diagnostic
from croq.processes import both

if TYPE_CHECKING:
    from croq.ir.objects import Kernel
    from croq.verify import Verdict


@dataclass(frozen=True)
class Judgement:
    """The verdicts on one kernel: `source` on the program as written, `lowered` on what the compiler made of it."""

    kernel: str
    source: Verdict
    lowered: Verdict
    remarks: tuple[Diagnostic, ...] = ()

    @property
    def proved(self) -> bool:
        return self.source.proved and self.lowered.proved

    @property
    def assumes(self) -> tuple[str, ...]:
        """What a proof takes for granted of this kernel."""
        return tuple(dict.fromkeys((*self.source.assumes, *self.lowered.assumes))) if self.proved else ()

    @property
    def bugs(self) -> list[Exception]:
        """Failures of the verifier itself."""
        return [verdict.bug for verdict in (self.source, self.lowered) if verdict.bug is not None]

    def diagnostics(self) -> list[Diagnostic]:
        """One report for one fault: that of the lowered kernel names the culprit (croq.verify.blame); and what the
        protocol says nothing of."""
        found = self.lowered.diagnostics() or self.source.diagnostics()
        return [*found, *self.remarks]

    def __str__(self) -> str:
        if self.source.proved and self.lowered.proved:
            return f"{self.kernel}: {self.lowered}"
        return f"{self.kernel}: as written, {self.source}; as lowered, {self.lowered}"


def validate(kernel: Kernel, written: Callable[[str], Kernel]) -> list[Diagnostic]:
    """Faults of the lowered kernel. What is not decided within the default bounds is `croq check`'s to say. `written`
    gives the kernel of a name as the program has it (`Stages.written`)."""
    from croq.verify import blame, verify_protocol

    verdict = verify_protocol(kernel)
    if verdict.outcome != "fault":
        return []
    source = written(kernel.name)
    return blame(verdict, verify_protocol(source, level="tile"), source).diagnostics()


def judge(
    kernels: Iterable[Kernel], written: Callable[[str], Kernel], *, together: bool = False
) -> Iterator[Judgement]:
    """The verdicts on every kernel of a program. `together`: both of a kernel at once, in two processes."""
    from croq.verify import THOROUGH, blame, disagreements, verify_protocol

    for kernel in kernels:
        source = written(kernel.name)
        lowered, verdict = (both if together else _in_turn)(
            partial(verify_protocol, kernel, options=THOROUGH),
            partial(verify_protocol, source, level="tile", options=THOROUGH),
        )
        remarks = tuple(disagreements(kernel))
        yield Judgement(kernel.name, verdict, blame(lowered, verdict, source), remarks)


def _in_turn(first: Callable[[], Verdict], second: Callable[[], Verdict]) -> tuple[Verdict, Verdict]:
    return first(), second()
