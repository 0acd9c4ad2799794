"""Limits of CPU time: how busy the machine is makes no difference."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Expired(BaseException):
    """A time limit is over. Not an Exception: tools turn those into faults of their own."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise Expired in the block when it takes more CPU time. Main thread of a POSIX process only."""

    def stop(signum: int, frame: object) -> None:
        raise Expired

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
