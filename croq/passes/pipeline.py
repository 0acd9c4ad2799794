"""The passes, in order. Each is a function of the kernel alone, and is held to its contract behind it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence

from croq.diagnostics import CompileError, InternalError, Sink, make
from croq.ir.objects import Kernel, Module
from croq.ir.verify import verify
from croq.passes.access import Access
from croq.passes.base import Pass
from croq.passes.contract import Contract
from croq.passes.counters import Counters
from croq.passes.cta_level import CtaLevel
from croq.passes.dead_code import DeadCode
from croq.passes.events import Events
from croq.passes.fences import Fences
from croq.passes.fragments import Fragments
from croq.passes.futures import Futures
from croq.passes.joins import Joins
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
    """In their order: each stands behind those that it needs; where several orders would do, text reads better so."""
    return [
        CtaLevel(),
        Participants(),
        Fragments(),  # before mma: accumulators get their layout from tile MMAs
        Swizzles(),
        Events(),
        Moves(),
        Narrow(),
        MmaLowering(),
        Operands(),  # directly after mma, whose batches it completes
        Futures(),
        Releases(),
        Registers(),
        Reuse(),
        Pace(),
        Fences(),
        SharedMemory(),
        Joins(),
        Counters(),
        Simplify(),
        Ranges(),
        Contract(),
        DeadCode(),
        Prologue(),
        Access(),
    ]


def names() -> list[str]:
    return [p.name for p in passes()]


def check_names(wanted: Iterable[str]) -> None:
    """Raise CompileError E-3103 for what is no pass."""
    known = names()
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            notes = [f"the passes are, in order: {', '.join(known)}"]
            hint = f"did you mean `{near[0]}`?" if near else None
            raise CompileError([make("E-3103", None, f"there is no pass `{name}`", notes=notes, hint=hint)])


def check_order(order: Sequence[Pass]) -> None:
    """Raise InternalError E-9004 where a pass stands before one that it needs, or needs one that is not there."""
    seen: set[str] = set()
    for item in order:
        missing = [need for need in item.needs if need not in seen]
        if missing:
            raise InternalError([make("E-9004", None, f"pass `{item.name}` stands before {', '.join(missing)}")])
        seen.add(item.name)


def run(
    module: Module,
    sink: Sink,
    *,
    after: str | None = None,
    only: Collection[str] | None = None,
    observer: Observer | None = None,
) -> None:
    """Lower every kernel of the module in place; stop behind the pass `after`, leave out what is not in `only`.

    Raises CompileError with all that a pass found, E-3103 for an unknown name, and E-3106 where `only` lacks what
    one of it needs. `observer(pass name, kernel)` sees the kernel after each pass.
    """
    every = passes()
    check_order(every)
    order = every if only is None else [item for item in every if item.name in only]
    check_names([*(only or ()), *([after] if after is not None else [])])
    for kernel in module.kernels:
        if only is not None:
            _require(kernel, every, order)
        done: list[Pass] = []
        for item in order:
            item.apply(kernel, sink)
            sink.check()
            done.append(item)
            gone = [kind for made in done for kind in made.leaves_no]
            facts = [fact for made in done for fact in made.facts]
            verify(kernel, "hw" if item is every[-1] else "tile", gone, facts)
            if observer is not None:
                observer(item.name, kernel)
            if item.name == after:
                break


def _require(kernel: Kernel, every: Sequence[Pass], order: Sequence[Pass]) -> None:
    """What the passes of `order` need has run on the kernel, or is among them."""
    for item in order:
        for need in (made for made in every if made.name in item.needs and made not in order):
            signs = list(need.undone(kernel))
            if signs:
                message = f"pass `{item.name}` needs `{need.name}`, which has not run on kernel `{kernel.name}`"
                hint = f"run `{need.name}` before it, or start from IR that was printed behind it (docs/passes.md)"
                raise CompileError([make("E-3106", None, message, notes=signs[:3], hint=hint)])
