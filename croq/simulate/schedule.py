"""Who runs next, and when what is in flight takes effect.

eager        every asynchronous operation is complete the moment it is issued; warps run round robin until they block
lazy         a TMA load lands only when no warp can go on without it; a WGMMA runs when it is waited for; a bulk store
             reads its source when it is waited for
random:SEED  at each step a random warp that can go on, or a random operation in flight, some of which are far
             slower than others; equal seeds give equal runs
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from croq.diagnostics import LaunchError, make
from croq.ir.objects import Event
from croq.simulate.faults import SimulationFault, argument_fault, fault
from croq.simulate.machine import Cta, Pending, Policy, Waiting, Warp
from croq.source import Span


def parse(schedule: str) -> Policy:
    """The policy of `eager`, `lazy` or `random:SEED`. Raises LaunchError E-5007."""
    if schedule == "eager":
        return Policy(schedule, eager=True)
    if schedule == "lazy":
        return Policy(schedule, lazy=True)
    head, colon, seed = schedule.partition(":")
    if head == "random" and colon and seed.isdecimal() and seed.isascii():
        return Policy(f"random:{int(seed)}", seed=int(seed))
    raise _unknown(schedule)


def _unknown(schedule: str) -> LaunchError:
    hint = "there are `eager`, `lazy` and `random:SEED`, with a non-negative whole number as the seed"
    return argument_fault([make("E-5007", None, f"no schedule is called `{schedule}`", hint=hint)])


def run_cta(cta: Cta) -> None:
    """Run all warps of a CTA to their end. Raises SimulationFault."""
    if cta.random is not None:
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


# ---------------------------------------------------------------------------------------------------------- deadlock
def deadlock(cta: Cta, live: list[Warp]) -> SimulationFault:
    """What every warp that is left waits for, one label a source line."""
    waits: dict[tuple[Span | None, str], list[int]] = defaultdict(list)
    events: dict[Event, None] = {}
    for warp in live:
        assert warp.waiting is not None
        waits[warp.waiting.op.span, warp.waiting.describe()].append(warp.index)
        event = getattr(warp.waiting.op, "event", None)
        if isinstance(event, Event):
            events[event] = None
    (span, _), *others = waits
    labels = [(s, f"{_wait_for(waits[s, text])} {text}") for s, text in others if s is not None]
    notes = [f"{_wait_for(warps)} {text}" for (s, text), warps in waits.items() if s is None or s is span]
    ended = [warp.index for warp in cta.warps if warp not in live]
    if ended:
        notes.append(f"{_warps(ended)} {'has' if len(ended) == 1 else 'have'} ended")
    notes += [note for warp in live if (note := _lapped(warp))]
    notes += [f"`{e.name}` is triggered by threads {e.triggers}" for e in events if e.triggers is not None]
    notes += [f"{_waiting(warp.waiting)}: only a part of warp {warp.index} is there" for warp in live if _partial(warp)]
    return fault(
        "E-5010",
        span,
        f"deadlock: {_warps([w.index for w in live])} of {len(cta.warps)} cannot go on",
        labels=labels,
        notes=dict.fromkeys(notes),
        hint="an event is waited for more often than it is triggered, or the handshakes wait for one another",
    )


def _lapped(warp: Warp) -> str | None:
    """Whether the phase that a warp wants has come and gone: parity cannot tell it from the next but one."""
    barrier = warp.waiting.barrier if warp.waiting is not None else None
    if barrier is None:
        return None
    wanted = warp.passed.get(barrier, 0) - barrier.event.ready
    if barrier.phase <= wanted:
        return None
    return (
        f"warp {warp.index} has missed a phase of `{barrier.name}`: it waits for phase {wanted}, which is over since "
        f"phase {barrier.phase} began; nothing made the others wait for it"
    )


def _partial(warp: Warp) -> bool:
    return warp.mask != warp.base


def _waiting(waiting: Waiting | None) -> str:
    return waiting.op.NAME if waiting is not None else "end"


def _wait_for(indices: list[int]) -> str:
    return f"{_warps(indices)} {'waits' if len(indices) == 1 else 'wait'} for"


def _warps(indices: list[int]) -> str:
    """`warp 3`, `warps 0 to 3`, `warps 0, 2, 5`."""
    indices = sorted(indices)
    if len(indices) == 1:
        return f"warp {indices[0]}"
    if indices == list(range(indices[0], indices[-1] + 1)):
        return f"warps {indices[0]} to {indices[-1]}"
    return "warps " + ", ".join(str(i) for i in indices)
