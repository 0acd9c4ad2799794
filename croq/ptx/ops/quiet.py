"""Instructions without an effect on results here: fences, hints, policies. PTX ISA, under their names.

Memory is one and in order here: of all fences, only those that publish ordinary stores, or new mbarriers, to the async
proxy are missed when they are missing. The others are the race detector's and the verifier's part.
"""

from __future__ import annotations

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.lanes import Lanes
from croq.ptx.registry import Form, Step, instruction

_SCOPES = "cta cluster gpu sys sc acq_rel acquire release gl"


@instruction(
    "fence membar",
    flags=f"{_SCOPES} proxy async mbarrier_init alias tensormap::generic shared::cta shared::cluster global "
    "sync_restrict::shared::cta sync_restrict::shared::cluster async::generic",
)
@instruction(
    "prefetch prefetchu",
    flags="global local L1 L2 tensormap param const L2::evict_last L2::evict_normal generic",
)
@instruction("cp.async.bulk.prefetch", flags="tensor 1d 2d 3d 4d 5d L2 global tile L2::cache_hint")
@instruction("griddepcontrol", flags="launch_dependents wait")
@instruction("pmevent applypriority discard", flags="mask global L2::evict_normal L2")
def nothing(builder: Builder, form: Form) -> Step:
    machine, shared = builder.machine, builder.memory.shared
    proxy = {"proxy", "async"} <= form.flags and "global" not in form.flags

    def publish(lanes: Lanes) -> None:
        machine.mbarriers.publish()
        if proxy:
            shared.fence_proxy()

    return publish if proxy or "mbarrier_init" in form.flags else lambda lanes: None


@instruction("createpolicy", flags="fractional range cvt global L2 L2::evict_last L2::evict_normal L2::evict_first "
             "L2::evict_unchanged")  # fmt: skip
def policy(builder: Builder, form: Form) -> Step:
    out = builder.target(form.operands[0], "b64")

    def step(lanes: Lanes) -> None:
        out[lanes.sel] = np.uint64(0)

    return step
