"""What holds of a kernel behind certain passes, and for good. Each fact finds where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from croq.ir import hw
from croq.ir.objects import Kernel, View


@dataclass(frozen=True)
class Fact:
    text: str
    broken: Callable[[Kernel], Iterator[str]]  # what is wrong, in words

    def __str__(self) -> str:
        return self.text


def _laid_out(kernel: Kernel) -> Iterator[str]:
    for frag in kernel.fragments:
        if frag.layout is None or frag.type is None or frag.shape is None:
            yield f"fragment `{frag.name}` has no type, shape or layout"


def _decided(kernel: Kernel) -> Iterator[str]:
    for event in kernel.events:
        if event.lowering is None:
            yield f"event `{event.name}` has no lowering"
        elif event.lowering == "mbarrier" and event.arrivals < 1:
            yield f"event `{event.name}` has no arrivals"
        elif event.lowering == "named_barrier" and (event.barrier_id is None or event.barrier_threads < 1):
            yield f"event `{event.name}` has no barrier id or no thread count"


def _placed(kernel: Kernel) -> Iterator[str]:
    for event in kernel.events:
        if event.lowering == "mbarrier" and event.offset is None:
            yield f"event `{event.name}` has no place in shared memory"
    for buffer in kernel.buffers:
        if buffer.storage == "shared" and buffer.offset is None:
            yield f"buffer `{buffer.name}` has no place in shared memory"
        elif buffer.offset is not None and buffer.offset % buffer.alignment:
            yield f"buffer `{buffer.name}` is not aligned to {buffer.alignment}"


def _described(kernel: Kernel) -> Iterator[str]:
    for op in kernel.walk():
        if isinstance(op, hw.WgmmaIssue):
            for operand, matrix in ((op.a, op.a_matrix), (op.b, op.b_matrix)):
                if isinstance(operand, View) != (matrix is not None):
                    yield "a `wgmma.issue` lacks descriptors, or has them for a fragment"


def _reasoned(kernel: Kernel) -> Iterator[str]:
    for op in kernel.walk():
        if op.ORDERS and op.rule is None:
            yield f"`{op.NAME}` names no rule"


LAYOUTS = Fact("every fragment has a type, a shape and a layout", _laid_out)
BARRIERS = Fact("every event is an mbarrier or a named barrier, with its counts", _decided)
PLACES = Fact("every shared buffer and mbarrier has its place", _placed)
DESCRIPTORS = Fact("every MMA operand in shared memory has its descriptors", _described)
REASONS = Fact("every operation that orders names the rule by which it is there", _reasoned)
LOWERED = (LAYOUTS, BARRIERS, PLACES, DESCRIPTORS, REASONS)  # what emission needs
