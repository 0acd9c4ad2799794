"""What instructions cost in modelled time (croq/timelines): cycles of an SM.

`measured` entries come from microbenchmarks on an H200, the others are estimates; docs/timelines.md shows the table and
a test keeps the two equal.
"""

from __future__ import annotations

from croq.target.base import Cost

COSTS = {
    # pipes of an SM quarter, cycles for one instruction of a warp
    "issue": Cost(1, False, "any instruction, in the scheduler"),
    "fma": Cost(1.08, True, "FADD, FMUL, FFMA"),
    "alu": Cost(2.1, True, "FMNMX, compare, select, integer arithmetic (measured: FMNMX; F2FP 2.2)"),
    "xu": Cost(8, True, "MUFU: exp2, reciprocal, square root, logarithm, tanh"),
    "lsu": Cost(4, False, "shared memory: 4 bytes a lane, or one shuffle"),
    "lsu.global": Cost(8, False, "global memory: 4 bytes a lane"),
    "fma.under_mma": Cost(1.12, True, "factor on `fma` while the tensor cores work (1.08 -> 1.21)"),
    "alu.under_mma": Cost(1.95, True, "factor on `alu` while the tensor cores work (2.1 -> 4.1)"),
    # latencies
    "statement": Cost(16, False, "the last result of a register statement, after its last instruction"),
    "shuffle": Cost(24, False, "the result of a shuffle"),
    "shared": Cost(30, False, "the result of a load from shared memory"),
    "global": Cost(600, False, "the result of a load from global memory (most hit L2)"),
    "call": Cost(50, False, "a call of a device function, beside one `fma` a register of its fragments"),
    # barriers
    "mbarrier.poll": Cost(65, True, "an mbarrier wait that finds its phase complete (60 to 90)"),
    "mbarrier.wake": Cost(25, False, "from the completion of a phase until a warp that waits goes on"),
    "mbarrier.arrive": Cost(20, False, "an arrival, until it counts; also expect_tx"),
    "bar": Cost(25, False, "bar.sync and bar.arrive, after the last arrival"),
    "setmaxnreg": Cost(30, False, "setmaxnreg"),
    "fence": Cost(10, False, "fence.proxy_async, mbarrier.init"),
    # tensor cores
    "wgmma": Cost(64, True, "m64n128k16 on the tensor cores; other widths in proportion to n"),
    "wgmma.least": Cost(16, False, "one of few columns"),
    "wgmma.issue": Cost(18, True, "one wgmma instruction in the warp that issues it (8 in 150)"),
    "wgmma.queue": Cost(8, True, "instructions that a warpgroup can have in flight; the next one waits"),
    "wgmma.latency": Cost(64, True, "from the end of the last instruction until a wait sees it (64 to 83)"),
    "wgmma.wait": Cost(7, True, "a wgmma.wait that has nothing to wait for"),
    "wgmma.fence": Cost(2, False, "wgmma.fence, wgmma.commit"),
    # copies
    "tma.issue": Cost(20, False, "one TMA instruction in the thread that issues it; also commit and wait of a group"),
    "tma.latency": Cost(650, False, "a TMA load, until its first byte is there (most hit L2)"),
    "tma.store": Cost(300, False, "a TMA store, until its source is read"),
    "tma.bytes": Cost(64, False, "bytes a cycle between L2 and the SM, loads and stores apart"),
    "copy.batch": Cost(8, False, "loads that a thread has in flight in a copy by all threads"),
}  # fmt: skip
