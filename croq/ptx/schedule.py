"""When what is in flight takes effect, and which threads go first.

eager        at the moment of its issue; threads in the order of their place in the program, which brings those that
             have parted together again behind a branch
lazy         as late as can be: when no thread can go on without it, or when it is waited for
random:SEED  at random; warps in random order, for random stretches. Equal seeds give equal runs
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from croq.ptx.faults import PtxFault


@dataclass
class Schedule:
    name: str
    random: Random | None = field(default=None, repr=False)

    def delays(self) -> bool:
        """Whether an operation that is issued now takes effect later."""
        if self.random is not None:
            return self.random.random() < 0.7
        return self.name == "lazy"


def schedule_of(name: str) -> Schedule:
    """Raises PtxFault E-7003 for an unknown one."""
    if name in ("eager", "lazy"):
        return Schedule(name)
    head, _, seed = name.partition(":")
    if head == "random" and seed.isdecimal() and seed.isascii():
        return Schedule(f"random:{int(seed)}", Random(int(seed)))
    hint = "there are `eager`, `lazy` and `random:SEED`"
    raise PtxFault("E-7003", f"no schedule of the PTX level is called `{name}`", hint=hint)
