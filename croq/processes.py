"""Two computations at once, the second in a process of its own: where there are two processors, and processes fork."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """What both return. What `second` returns travels as a pickle, and it must not touch what others see.

    Where its process does not come to its end, `second` is computed here.
    """
    if not hasattr(os, "fork") or _processors() < 2:
        return first(), second()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(writer, second)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        try:
            found = first()
            data = answer.read()
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
    try:
        return found, pickle.loads(data)
    except Exception:  # it failed, or could not be sent: the fault shows here
        return found, second()


def _answer(writer: int, compute: Callable[[], Any]) -> None:
    """All that the new process does."""
    with suppress(BaseException), os.fdopen(writer, "wb") as answer:
        answer.write(pickle.dumps(compute()))
    os._exit(0)


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
