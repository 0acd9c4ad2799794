"""The passes, in order. Each is a function of the kernel alone; the verifier runs after every one."""

from __future__ import annotations

from collections.abc import Callable, Collection

from croq.diagnostics import CompileError, Sink, make
from croq.ir.objects import Kernel, Module
from croq.ir.verify import verify
from croq.passes.base import Pass
from croq.passes.contract import Contract
from croq.passes.events import Events
from croq.passes.fences import Fences
from croq.passes.fragments import Fragments
from croq.passes.futures import Futures
from croq.passes.mma import MmaLowering
from croq.passes.moves import Moves
from croq.passes.narrow import Narrow
from croq.passes.operands import Operands
from croq.passes.pace import Pace
from croq.passes.participants import Participants
from croq.passes.prologue import Prologue
from croq.passes.ranges import Ranges
from croq.passes.registers import Registers
from croq.passes.releases import Releases
from croq.passes.reuse import Reuse
from croq.passes.shared_memory import SharedMemory
from croq.passes.simplify import Simplify
from croq.passes.swizzles import Swizzles

Observer = Callable[[str, Kernel], None]


def passes() -> list[Pass]:
    return [
        Participants(),  # first: everything below asks which threads act
        Fragments(),  # before mma: accumulators get their layout from tile MMAs
        Swizzles(),  # before mma and moves: operands and boxes follow the buffer's layout
        Events(),  # before moves: a load is issued against the barrier that its event became
        Moves(),
        Narrow(),  # after moves, which elect who issues
        MmaLowering(),  # after fragments: zero fills that an MMA absorbs are `reg.fill` by then
        Operands(),  # directly after mma, whose batches it completes; before simplify, which tidies its arithmetic
        Futures(),
        Releases(),  # a check; after futures, whose waits know what they complete
        Registers(),
        Reuse(),  # after moves and mma, whose barriers may do; before fences, which look at barriers
        Pace(),  # after all that makes barriers for another reason; before fences
        Fences(),  # after moves and mma: it looks at the stores and barriers that they made
        SharedMemory(),  # after events: only they know how many barriers there are
        Simplify(),  # after everything that computes slots, parities and coordinates
        Ranges(),  # after everything that computes integers
        Contract(),  # after simplify: a product that is used twice is not fused
        Prologue(),  # last
    ]


def names() -> list[str]:
    return [p.name for p in passes()]


def run(
    module: Module,
    sink: Sink,
    *,
    after: str | None = None,
    only: Collection[str] | None = None,
    observer: Observer | None = None,
) -> None:
    """Lower every kernel of the module in place; stop behind the pass `after`, leave out what is not in `only`.

    Raises CompileError with all that a pass found. `observer(pass name, kernel)` sees the kernel after each pass.
    """
    every = passes()
    order = every if only is None else [item for item in every if item.name in only]
    if after is not None and after not in names():
        raise CompileError(
            [make("E-2001", None, f"there is no pass `{after}`", notes=[f"passes: {', '.join(names())}"])]
        )
    for kernel in module.kernels:
        for item in order:
            item.apply(kernel, sink)
            sink.check()
            verify(kernel, "hw" if item is every[-1] else "tile")
            if observer is not None:
                observer(item.name, kernel)
            if item.name == after:
                break
