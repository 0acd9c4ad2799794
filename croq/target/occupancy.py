"""How many CTAs of a kernel an SM holds at a time, and what limits it.

CUDA C++ Programming Guide, "Multiprocessor Level": registers are given to warps in units, whatever `setmaxnreg` does
with them afterwards. A warp has them of its quarter, which has a register file of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from croq.target.base import Target
from croq.target.cuda import QUARTERS, REGISTER_UNIT, WARP


@dataclass(frozen=True)
class Occupancy:
    """`limits`: what allows no more, of registers, shared memory, warps and CTAs."""

    ctas: int
    warps: int
    limits: tuple[str, ...]


def occupancy(target: Target, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Of CTAs of so many threads with so many registers each, and bytes of shared memory."""
    warps = -(-threads // WARP)
    of_a_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    allowed = {
        "registers": target.registers // QUARTERS // max(1, of_a_warp) * QUARTERS // warps,
        "shared memory": target.sm_shared_bytes // (shared_bytes + target.cta_shared_reserved),
        "warps": target.sm_warps // warps,
        "CTAs": target.sm_ctas,
    }
    ctas = min(allowed.values())
    return Occupancy(ctas, ctas * warps, tuple(name for name, most in allowed.items() if most == ctas))
