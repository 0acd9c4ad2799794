"""Sets of integers as unions of arithmetic progressions, and what arithmetic does to them backwards.

They are for finding inputs: every set is a set of candidates, and where a result would take too many progressions only
some of them are kept. What is found is tried by a run; nothing is proved here (croq/verify/intervals.py does).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

FAR = 1 << 62
MOST_PARTS = 192


@dataclass(frozen=True)
class Progression:
    """`lo, lo + step, .., hi`; never empty."""

    lo: int
    hi: int
    step: int = 1

    def __contains__(self, x: int) -> bool:
        return self.lo <= x <= self.hi and (x - self.lo) % self.step == 0


Domain = tuple[Progression, ...]

NOTHING: Domain = ()
ANYTHING: Domain = (Progression(-FAR, FAR),)


def between(lo: int, hi: int, step: int = 1) -> Domain:
    """`lo`, `lo + step`, .. up to `hi` at most."""
    return (Progression(lo, hi - (hi - lo) % step, step),) if lo <= hi else NOTHING


def exactly(*values: int) -> Domain:
    return tuple(Progression(v, v) for v in values)


def contains(domain: Domain, x: int) -> bool:
    return any(x in part for part in domain)


def union(*domains: Domain) -> Domain:
    return tuple(dict.fromkeys(part for domain in domains for part in domain))[:MOST_PARTS]


def meet(a: Domain, b: Domain) -> Domain:
    return union(*(_meet(p, q) for p in a for q in b))


def _meet(a: Progression, b: Progression) -> Domain:
    """By the Chinese remainder theorem."""
    lo, hi = max(a.lo, b.lo), min(a.hi, b.hi)
    common = gcd(a.step, b.step)
    if lo > hi or (b.lo - a.lo) % common:
        return NOTHING
    step = a.step // common * b.step
    turns = (b.lo - a.lo) // common * pow(a.step // common, -1, b.step // common) if b.step > common else 0
    first = a.lo + a.step * turns  # in both, as far as remainders go
    return between(lo + (first - lo) % step, hi, step)


def shift(domain: Domain, by: int) -> Domain:
    return tuple(Progression(p.lo + by, p.hi + by, p.step) for p in domain)


def negate(domain: Domain) -> Domain:
    return tuple(Progression(-p.hi, -p.lo, p.step) for p in domain)


def factor(domain: Domain, by: int) -> Domain:
    """x with `x * by` in the domain."""
    if by == 0:
        return ANYTHING if contains(domain, 0) else NOTHING
    if by < 0:
        return negate(factor(domain, -by))
    found: list[Progression] = []
    for p in meet(domain, between(-FAR // by * by, FAR // by * by, by)):
        found += between(p.lo // by, p.hi // by, max(1, p.step // by))
    return tuple(found)


def dividend(domain: Domain, by: int, up: bool = False) -> Domain:
    """x with `x / by` (towards zero; `up`: rounded up) in the domain."""
    if by < 0:
        return negate(dividend(domain, -by, up)) if not up else NOTHING
    if by == 0:
        return NOTHING
    found: list[Progression] = []
    for p in domain:
        if p.step == 1 or p.lo == p.hi:
            found += between(_lowest(p.lo, by, up), _highest(p.hi, by, up))
        else:  # of each block its ends
            for offset in {0, by - 1}:
                found += between(_lowest(p.lo, by, up) + offset, _highest(p.hi, by, up), p.step * by)
    return tuple(found)


def _lowest(quotient: int, by: int, up: bool) -> int:
    if up:
        return (quotient - 1) * by + 1
    return quotient * by if quotient > 0 else quotient * by - (by - 1)


def _highest(quotient: int, by: int, up: bool) -> int:
    if up:
        return quotient * by
    return quotient * by + by - 1 if quotient >= 0 else quotient * by


def reduced(domain: Domain, by: int) -> Domain:
    """x with `x % by` (sign of x) in the domain."""
    by = abs(by)
    if by == 0:
        return NOTHING
    found: list[Progression] = []
    for rest in meet(domain, between(0, by - 1)):
        found += between(rest.lo, FAR) if (rest.lo, rest.hi, rest.step) == (0, by - 1, 1) else _congruent(rest, by, 1)
    for rest in meet(domain, between(1 - by, 0)):
        found += _congruent(rest, by, -1)
    return tuple(found[:MOST_PARTS])


def _congruent(rest: Progression, by: int, sign: int) -> Iterator[Progression]:
    values = range(rest.lo, rest.hi + 1, rest.step)
    for value in [*values[: MOST_PARTS // 8], *values[-1:]]:
        span = FAR // by * by
        yield from between(value, value + span, by) if sign > 0 else between(value - span, value, by)


def edges(domain: Domain) -> Iterator[int]:
    """The first and the last number of each progression that has one."""
    for p in domain:
        if abs(p.lo) < FAR // 2:
            yield p.lo
        if abs(p.hi) < FAR // 2:
            yield p.hi


def nearest(domain: Domain, to: int = 0) -> int | None:
    """The number of the domain nearest to `to`."""
    found = [_nearest(p, to) for p in domain]
    return min(found, key=lambda x: (abs(x - to), -x)) if found else None


def _nearest(p: Progression, to: int) -> int:
    if to <= p.lo:
        return p.lo
    if to >= p.hi:
        return p.hi
    below = to - (to - p.lo) % p.step
    return below if to - below <= p.step - (to - below) or below + p.step > p.hi else below + p.step


def sampled(values: Iterable[int]) -> Domain:
    return exactly(*sorted(set(values))[:MOST_PARTS])
