"""Time limits."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Expired(BaseException):
    """A time limit is over. Not an Exception: tools turn those into faults of their own."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise Expired in the block when it takes longer. Main thread of a POSIX process only."""

    def stop(signum: int, frame: object) -> None:
        raise Expired

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
