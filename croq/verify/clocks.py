"""Vector clocks as whole numbers, a field of 32 bits for each component: joining two takes a few operations on numbers,
whatever they count. The top bit of a field is free, so that a difference does not borrow from the next one.
"""

from __future__ import annotations

Clock = int
LOG_WIDTH = 5
WIDTH = 1 << LOG_WIDTH
MOST = (1 << WIDTH - 1) - 1  # what a field holds


def guards(components: int) -> int:
    """The top bits of so many fields, which `joined` takes."""
    return sum(1 << WIDTH * n + WIDTH - 1 for n in range(components))


def joined(a: Clock, b: Clock, tops: int) -> Clock:
    """The larger of each two fields."""
    not_less = (a | tops) - b & tops  # the top bit of each field in which `a` has at least as much
    return b ^ (a ^ b) & not_less - (not_less >> WIDTH - 1)


def field(component: int, value: int) -> Clock:
    """A clock that knows of one component."""
    return value << (component << LOG_WIDTH)


def known(clock: Clock, component: int) -> int:
    return clock >> (component << LOG_WIDTH) & MOST
