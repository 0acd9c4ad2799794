"""Where everything in shared memory lies, and whether it fits.

Rules
    M1  Buffers come in order of alignment, widest first, then of declaration: no padding between swizzled tiles.
    M2  Barriers (8 bytes a slot, mbarrier events only) follow the buffers.
    M3  Every buffer lives for the whole kernel: with asynchronous producers two buffers are never known to be apart in
        time without a proof that the protocol gives, not the text (language reference 7.5).
    M4  The sum is at most what a CTA of the target may have (`shared_bytes`; 227 KiB on sm_90); E-324 lists what takes
        the space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.facts import PLACES
from croq.ir.objects import Kernel
from croq.passes.base import Pass
from croq.target.cuda import MBARRIER_BYTES


@dataclass(frozen=True)
class SharedMemory(Pass):
    name: ClassVar[str] = "shared-memory"
    needs = ("swizzles", "events")
    adds = (PLACES,)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        end = 0
        shared = [b for b in kernel.buffers if b.storage == "shared"]
        for buffer in sorted(shared, key=lambda b: -b.alignment):  # M1, M3
            end = -(-end // buffer.alignment) * buffer.alignment
            buffer.offset = end
            end += buffer.slots * buffer.slot_stride
        end = -(-end // MBARRIER_BYTES) * MBARRIER_BYTES
        for event in kernel.events:
            if event.lowering == "mbarrier":  # M2
                event.offset = end
                end += event.slots * MBARRIER_BYTES
        kernel.shared_bytes = end
        if end > kernel.target.shared_bytes:  # M4
            _over_budget(kernel, end, sink)


def _over_budget(kernel: Kernel, total: int, sink: Sink) -> None:
    shared = sorted((b for b in kernel.buffers if b.storage == "shared"), key=lambda b: -b.slots * b.slot_stride)
    notes = [
        f"`{b.name}`: {b.slots} x {b.slot_stride} = {b.slots * b.slot_stride} bytes"
        if b.slots > 1
        else f"`{b.name}`: {b.slot_stride} bytes"
        for b in shared
    ]
    barriers = sum(e.slots * MBARRIER_BYTES for e in kernel.events if e.lowering == "mbarrier")
    if barriers:
        notes.append(f"barriers of events: {barriers} bytes")
    most = kernel.target.shared_bytes
    sink.error(
        "E-324",
        shared[0].span if shared else kernel.events[0].span,
        f"shared data of `{kernel.name}` takes {total} bytes, {total - most} more than the {most} of a CTA",
        notes=notes,
        hint="use fewer stages, smaller tiles, or let one buffer serve two purposes",
    )
