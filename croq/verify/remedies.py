"""What would make a wrong protocol right: repairs of the program, each tried by proving the repaired program.

A repair changes the tile IR in place, is followed in all schedules, and is taken back. The first whose program is
proved is the remedy. The search is bounded by the protocol operations that it follows, so that its answer is the same
on every machine.
"""

from __future__ import annotations

from itertools import islice

from croq.ir.objects import Kernel
from croq.verify.check import Options, verify_protocol
from croq.verify.repairs import repairs

MOST_STEPS = 400_000  # protocol operations over all trials
MOST_TRIALS = 80


def remedy(kernel: Kernel) -> str | None:
    """What to do to a kernel that is refused as it is written (tile IR behind `participants`); None: nothing found."""
    steps = 0
    for repair in islice(repairs(kernel), MOST_TRIALS):
        repair.swap()
        try:
            verdict = verify_protocol(kernel, level="tile", options=Options())
        finally:
            repair.swap()
        if verdict.proved:
            return f"{repair.text}. Then the protocol is proved"
        steps += verdict.coverage.steps
        if steps > MOST_STEPS:
            break
    return None
