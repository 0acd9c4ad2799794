"""When what is in flight takes effect, and which threads go first.

eager        at the moment of its issue; threads in the order of their place in the program, which brings those that
             have parted together again behind a branch
lazy         as late as can be: when no thread can go on without it, or when it is waited for
random:SEED  at random; warps in random order, for random stretches, some far behind the others for a while; now and
             then a part of a warp goes ahead of the rest. Equal seeds give equal runs
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from croq.ptx.faults import PtxFault
from croq.target.cuda import WARP

if TYPE_CHECKING:
    from croq.ptx.groups import Group

SLOW = 0.02  # how often a slow warp runs, next to another
MOODS = (20, 100, 500)  # choices after which others are slow
LANDINGS = (0.02, 0.2, 0.5)  # how often something in flight lands at a choice


@dataclass
class Schedule:
    name: str
    random: Random | None = field(default=None, repr=False)
    landing: float = field(default=0.0, init=False, repr=False)
    _slow: dict[int, bool] = field(default_factory=dict, init=False, repr=False)
    _left: int = field(default=0, init=False, repr=False)  # choices until the mood changes

    def pick(self, groups: list[Group]) -> Group:
        """Who goes on, of those who can; for random ones."""
        assert self.random is not None
        if self._left == 0:
            self._left, self.landing = self.random.choice(MOODS), self.random.choice(LANDINGS)
            self._slow.clear()
        self._left -= 1
        if len(groups) == 1:
            return groups[0]
        weights = [SLOW if self._is_slow(group.lanes.first // WARP) else 1.0 for group in groups]
        return self.random.choices(groups, weights)[0]

    def _is_slow(self, warp: int) -> bool:
        assert self.random is not None
        return self._slow.setdefault(warp, self.random.random() < 0.3)

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
