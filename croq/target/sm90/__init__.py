"""Hopper: what sm_90a allows, each number with its source.

"CUDA guide" is the table of technical specifications by compute capability in the CUDA C++ Programming Guide, column
9.0. The modules of this folder describe instructions that no other architecture has; who imports one speaks of these.
"""

from __future__ import annotations

from croq.target.base import Target
from croq.target.sm90.costs import COSTS
from croq.target.sm90.wgmma import WGMMA

SM_90A = Target(
    name="sm_90a",  # the 'a' is required by wgmma and setmaxnreg. PTX ISA, target ISA notes of both
    capability=(9, 0),
    shared_bytes=227 * 1024,  # with cudaFuncAttributeMaxDynamicSharedMemorySize. CUDA guide
    registers=65536,  # CUDA guide
    sm_shared_bytes=228 * 1024,  # CUDA guide
    cta_shared_reserved=1024,  # CUDA guide, "Shared Memory" of compute capability 9.0
    sm_warps=64,  # CUDA guide
    sm_ctas=32,  # CUDA guide
    register_requests=range(24, 257, 8),  # PTX ISA, "setmaxnreg": the immediate is a multiple of 8 in 24..256
    named_barriers=16,  # ids 0..15. PTX ISA, "bar, barrier"
    tensor_core=WGMMA,
    costs=COSTS,
)
