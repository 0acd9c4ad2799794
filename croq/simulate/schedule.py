"""Who runs next, and when what is in flight takes effect.

eager        every asynchronous operation is complete the moment it is issued; warps run round robin until they block
lazy         a TMA load lands only when no warp can go on without it; a WGMMA runs when it is waited for; a bulk store
             reads its source when it is waited for
random:SEED  at each step a random warp that can go on, or a random operation in flight, some of which are far
             slower than others; equal seeds give equal runs
hostile:K    the K-th plan of `hostile`: some operations as late as can be, warps by strict priorities
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random

from croq.diagnostics import LaunchError, make
from croq.simulate.deadlock import deadlock
from croq.simulate.faults import argument_fault, fault
from croq.simulate.hostile import Plan
from croq.simulate.machine import Cta, Mma, Pending, Policy, Warp

PATIENCE = 1000  # steps that the most urgent warp of a hostile schedule makes before it lets others by: it may spin


def parse(schedule: str) -> Policy:
    """The policy of `eager`, `lazy`, `random:SEED` or `hostile:K`. Raises LaunchError E-5007."""
    if not isinstance(schedule, str):
        raise _unknown(repr(schedule))
    if schedule == "eager":
        return Policy(schedule, eager=True)
    if schedule == "lazy":
        return Policy(schedule, lazy=True)
    head, _, number = schedule.partition(":")
    if number.isdecimal() and number.isascii():
        if head == "random":
            return Policy(f"random:{int(number)}", seed=int(number))
        if head == "hostile":
            return Policy(f"hostile:{int(number)}", hostile=int(number))
    raise _unknown(schedule)


def _unknown(schedule: str) -> LaunchError:
    hint = "there are `eager`, `lazy`, `random:SEED`, `hostile` and `hostile:K`, with whole numbers from 0"
    return argument_fault([make("E-5007", None, f"no schedule is called `{schedule}`", hint=hint)])


def run_cta(cta: Cta) -> None:
    """Run all warps of a CTA to their end. Raises SimulationFault."""
    if cta.program.plan is not None:
        _Hostile(cta, cta.program.plan).run()
    elif cta.random is not None:
        _run_random(cta)
    else:
        _run_round_robin(cta)
    for pending in cta.pending:
        raise fault(
            "E-5021",
            pending.op,
            f"a {pending.op.NAME} is still in flight when the CTA exits",
            notes=["the shared memory that it uses may belong to another CTA by then"],
            hint="wait for it before the kernel ends",
        )
    for group in cta.warpgroups:
        group.end()


def _advance(warp: Warp) -> bool:
    """Run a warp until it blocks; False when it has ended."""
    assert warp.run is not None
    try:
        warp.waiting = next(warp.run)
    except StopIteration:
        warp.run = None
        return False
    return True


def _run_round_robin(cta: Cta) -> None:
    live = list(cta.warps)
    while live:
        progress = spinning = False
        for warp in list(live):
            if warp.waiting is not None and not warp.waiting.ready():
                continue
            if not _advance(warp):
                live.remove(warp)
                progress = True
            elif warp.waiting is not None:
                progress = True
            else:
                spinning = True
        if progress:
            continue
        if cta.pending:
            cta.pending.pop(0).complete()
        elif not spinning:
            raise deadlock(cta, live)


def _run_random(cta: Cta) -> None:
    random = cta.random
    assert random is not None
    live = list(cta.warps)
    turn = 0
    while live:
        turn += 1
        warps = [w for w in live if _can_go_on(w, turn)]
        flights: list[tuple[float, Callable[[], None]]] = [(p.weight, partial(_land, cta, p)) for p in cta.pending]
        flights += [(w.queue[0].weight, partial(_execute, w)) for w in cta.warps if w.queue]
        if not warps and not flights:
            raise deadlock(cta, live)
        slowness = sum(weight for weight, _ in flights)
        if warps and random.random() * (len(warps) + slowness) < len(warps):
            # Hardware lets no warp starve: the longer one has been able to go on, the sooner it does.
            warp = random.choices(warps, [(1 + turn - w.ready_since) ** 2 for w in warps])[0]
            warp.ready_since = 0
            _step(live, warp)
        else:
            random.choices([act for _, act in flights], [weight for weight, _ in flights])[0]()


def _can_go_on(warp: Warp, turn: int) -> bool:
    if warp.waiting is not None and not warp.waiting.ready():
        return False
    if not warp.ready_since:
        warp.ready_since = turn
    return True


def _step(live: list[Warp], warp: Warp) -> None:
    if not _advance(warp):
        live.remove(warp)


def _execute(warp: Warp) -> None:
    warp.queue.popleft().complete()


def _land(cta: Cta, pending: Pending) -> None:
    cta.pending.remove(pending)
    pending.complete()


class _Hostile:
    """Strict priorities: a warp goes when nobody more urgent can; late operations complete when nobody can go."""

    def __init__(self, cta: Cta, plan: Plan) -> None:
        self.cta, self.plan = cta, plan
        self.late = plan.late
        self.live = [cta.warps[index] for index in plan.order]
        self.random = Random(f"{plan.what}:{cta.program.policy.hostile}:{cta.block}")

    def run(self) -> None:
        last, steps = None, 0
        for turn in count():
            if not self.live:
                return
            self._prompt()
            ready = [w for w in self.live if w.waiting is None or w.waiting.ready()]
            if not ready:
                if not self._complete_late():
                    raise deadlock(self.cta, self.live)
                continue
            chosen = ready[0]
            steps = steps + 1 if chosen is last else 0
            if steps > PATIENCE:
                chosen, steps = ready[turn % len(ready)], PATIENCE - len(ready)
                if turn % PATIENCE == 0:  # those that spin may wait for what is late
                    self._complete_late()
            last = ready[0]
            _step(self.live, chosen)
            if self.plan.changes and self.random.random() * 1000 < self.plan.changes:
                self.live = [*self.live[1:], *self.live[:1]]

    def _prompt(self) -> None:
        """Complete what is not late."""
        for pending in list(self.cta.pending):
            if pending.op not in self.late:
                _land(self.cta, pending)
        for warp in self.cta.warps:
            while warp.queue and warp.queue[0].op not in self.late:
                _execute(warp)

    def _complete_late(self) -> bool:
        """One late operation: of those in flight the first or the last, MMAs of a warp in their order. False: none."""
        flights: list[Pending | Mma] = [*self.cta.pending, *(w.queue[0] for w in self.cta.warps if w.queue)]
        if not flights:
            return False
        chosen = flights[-1 if self.plan.newest_first else 0]
        if isinstance(chosen, Pending):
            _land(self.cta, chosen)
        else:
            _execute(chosen.of)
        return True
