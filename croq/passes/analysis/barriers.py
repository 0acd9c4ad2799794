"""Barriers over sets of threads: which instruction, which named-barrier id.

The CTA barrier is id 0 and the target's last id stays free for code outside the compiler (`croq::` device helpers,
debuggers). Events that become named barriers are numbered from the one before down, synchronisation of thread sets from
1 up; a set has one id. Events can do without (they become mbarriers), sets cannot: some ids are kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import CtaSync, NamedBarrierSync, WarpSync
from croq.ir.objects import Kernel
from croq.ir.rewrite import Builder
from croq.ir.scalar import If
from croq.ir.types import ThreadSet
from croq.source import Span
from croq.target.cuda import CTA_BARRIER

FIRST_ID = CTA_BARRIER + 1
FOR_SETS = 6  # ids that events leave to thread sets: each warpgroup of a CTA of four, all, all but a producer


def id_for_event(kernel: Kernel) -> int | None:
    """A free id for one more event; None where the events have theirs."""
    taken, last = _of_events(kernel), _last_id(kernel)
    return last - taken if taken < last - FIRST_ID + 1 - FOR_SETS else None


def _id_for_set(kernel: Kernel, threads: ThreadSet) -> int | None:
    if threads not in kernel.barrier_sets:
        if len(kernel.barrier_sets) + _of_events(kernel) > _last_id(kernel) - FIRST_ID:
            return None
        kernel.barrier_sets += (threads,)
    return FIRST_ID + kernel.barrier_sets.index(threads)


def _last_id(kernel: Kernel) -> int:
    return kernel.target.named_barriers - 2


def _of_events(kernel: Kernel) -> int:
    return sum(event.barrier_id is not None for event in kernel.events)


def barrier(kernel: Kernel, threads: ThreadSet, span: Span | None, sink: Sink) -> list[Op]:
    """Operations by which exactly `threads` wait for one another; ordinary shared accesses are ordered by them."""
    if len(threads) <= 1:
        return []
    if threads == ThreadSet.all(kernel.threads):
        return [CtaSync(span=span, threads=threads)]
    if len(threads.warps()) == 1:
        return [WarpSync(span=span, threads=threads)]
    if not threads.whole_warps():
        sink.error(
            "E-2103",
            span,
            f"the threads {threads} must wait for one another here, but they do not fill their warps",
            notes=["a named barrier counts whole warps (PTX ISA, `barrier`)"],
            hint="narrow the block to a multiple of 32 threads, starting at one",
        )
        return []
    number = _id_for_set(kernel, threads)
    if number is None:
        sink.error(
            "E-2104",
            span,
            "no named barrier is left for this synchronisation",
            notes=[f"ids {FIRST_ID} to {_last_id(kernel)} are taken by other thread sets and events"],
            hint="let fewer different sets of threads synchronise",
        )
        return []
    return [NamedBarrierSync(number, len(threads), None, span=span, threads=threads)]


def barrier_each(kernel: Kernel, groups: Sequence[ThreadSet], span: Span | None, sink: Sink) -> list[Op]:
    """Each group waits for itself."""
    return each_group(groups, span, lambda group: barrier(kernel, group, span, sink))


def each_group(groups: Sequence[ThreadSet], span: Span | None, make: Callable[[ThreadSet], list[Op]]) -> list[Op]:
    """What each group does for itself; with several groups, of consecutive threads, a thread picks its own's."""
    if len(groups) == 1:
        return make(groups[0])
    everyone = groups[0]
    for group in groups[1:]:
        everyone = everyone | group
    result: list[Op] = []
    build = Builder(span=span, threads=everyone)
    thread = build.thread_index()
    for group in groups:
        first, last = group.ranges[0][0], group.ranges[-1][1]
        inside = build.binary(
            "land",
            build.binary("ge", thread, build.const("s32", first)),
            build.binary("lt", thread, build.const("s32", last)),
        )
        result += build.take()
        result.append(If(inside, Block(make(group)), None, span=span, threads=everyone))
    return result
