"""Where everything in shared memory lies, and whether it fits.

Rules
    M1  Buffers come in order of alignment, widest first, then of declaration: no padding between swizzled tiles.
    M2  Barriers (8 bytes a slot, mbarrier events only) follow the buffers.
    M3  Every buffer lives for the whole kernel: with asynchronous producers two buffers are never known to be apart in
        time without a proof that the protocol gives, not the text (language reference 7.5).
    M4  The sum is at most 227 KiB (232448 bytes), what a CTA may have on sm_90 (CUDA programming guide, compute
        capability 9.0); E-324 lists what takes the space.

Needs: swizzles, events. Adds: `offset` on buffers and events, `shared_bytes` of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.objects import Kernel
from croq.passes.base import Pass
from croq.target.sm90.limits import SHARED_PER_CTA

BARRIER_BYTES = 8


@dataclass(frozen=True)
class SharedMemory(Pass):
    name: ClassVar[str] = "shared-memory"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        end = 0
        shared = [b for b in kernel.buffers if b.storage == "shared"]
        for buffer in sorted(shared, key=lambda b: -b.alignment):
            end = -(-end // buffer.alignment) * buffer.alignment
            buffer.offset = end
            end += buffer.slots * buffer.slot_stride
        end = -(-end // BARRIER_BYTES) * BARRIER_BYTES
        for event in kernel.events:
            if event.lowering == "mbarrier":
                event.offset = end
                end += event.slots * BARRIER_BYTES
        kernel.shared_bytes = end
        if end > SHARED_PER_CTA:
            _over_budget(kernel, end, sink)


def _over_budget(kernel: Kernel, total: int, sink: Sink) -> None:
    shared = sorted((b for b in kernel.buffers if b.storage == "shared"), key=lambda b: -b.slots * b.slot_stride)
    notes = [
        f"`{b.name}`: {b.slots} x {b.slot_stride} = {b.slots * b.slot_stride} bytes"
        if b.slots > 1
        else f"`{b.name}`: {b.slot_stride} bytes"
        for b in shared
    ]
    barriers = sum(e.slots * BARRIER_BYTES for e in kernel.events if e.lowering == "mbarrier")
    if barriers:
        notes.append(f"barriers of events: {barriers} bytes")
    over = total - SHARED_PER_CTA
    sink.error(
        "E-324",
        shared[0].span if shared else kernel.events[0].span,
        f"shared data of `{kernel.name}` takes {total} bytes, {over} more than the {SHARED_PER_CTA} of a CTA",
        notes=notes,
        hint="use fewer stages, smaller tiles, or let one buffer serve two purposes",
    )
