"""Hangs found on the device: kernels in which every blocking mbarrier wait gives up after a time and says which it was.

A watchdog build is the same emitted text compiled with `CROQ_WATCHDOG` (runtime/croq.cuh). A warp whose wait lasts too
long writes a record to host memory that the device sees, and then traps: the launch fails, the context is lost, and the
record is left. The lowered kernel turns it into the event, its generation, and the lines that wait for it.

Waits at named barriers cannot be bounded: a kernel that hangs there hangs in a watchdog build too. A launch of a
watchdog build waits for its stream, so that a report belongs to one kernel.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from croq.diagnostics import CroqError, Diagnostic, LaunchError, make
from croq.driver.bindings import driver
from croq.driver.device import current_context, synchronize
from croq.driver.errors import check
from croq.ir.hw import MbarrierWait
from croq.ir.types import ThreadSet
from croq.passes.analysis.generations import Remainders
from croq.passes.analysis.threads import ThreadAnalysis
from croq.source import Span
from croq.target.cuda import MBARRIER_BYTES, WARP

if TYPE_CHECKING:
    from croq.driver.launch import Module, PreparedLaunch
    from croq.ir.objects import Event, Kernel

MACRO = "CROQ_WATCHDOG"
VARIABLE = "croq_watchdog_report"  # of the module: where the device finds the host's memory
RECORDS, WORDS, WORD_BYTES = 1024, 4, 8  # the form of a report, as runtime/croq.cuh writes it
LONGEST = 3600.0  # seconds

_WHOLE = 1 << 63
_LOW = 0xFFFFFFFF
_LISTED = 4  # further waits and blocks that a message names


def option(seconds: float) -> str:
    """The compiler's option for waits of at most `seconds`."""
    return f"-D{MACRO}={max(1, round(seconds * 1e9))}"


def fault(seconds: float) -> Diagnostic | None:
    """What is wrong with a time limit (E-4200)."""
    if math.isfinite(seconds) and 0 < seconds <= LONGEST:
        return None
    hint = "waits of a sound kernel last milliseconds: 1 or 2 seconds leave room enough"
    message = f"a watchdog of {seconds:g} seconds makes no sense; it takes more than 0 and at most {LONGEST:g}"
    return make("E-4200", None, message, hint=hint)


# ------------------------------------------------------------------------------------------------------------- records
@dataclass(frozen=True)
class Record:
    """What one warp wrote: the barrier's place in bytes from the start of the CTA's shared memory, the parity that it
    waited for, and who it is: the linear index of its first thread that waited, and bits for the lanes that did. `line`
    is the emitted file's (0: not known)."""

    offset: int
    parity: int
    block: tuple[int, int, int]
    thread: int
    lanes: int
    line: int = 0

    @property
    def threads(self) -> ThreadSet:
        first = self.thread - self.thread % WARP
        return ThreadSet.of(first + lane for lane in range(WARP) if self.lanes >> lane & 1)


def decode(words: Sequence[int]) -> tuple[Record, ...]:
    """The whole records of a report, in the order in which warps gave up."""
    found = []
    for i in range(0, len(words) - WORDS + 1, WORDS):
        head, xy, z_thread, lanes = words[i : i + WORDS]
        if head & _WHOLE:
            block = (xy & _LOW, xy >> 32, z_thread & _LOW)
            found.append(Record(head & _LOW, head >> 32 & 1, block, z_thread >> 32, lanes & _LOW, lanes >> 32))
    return tuple(found)


# -------------------------------------------------------------------------------------------------------------- waits
Lines = Callable[[int], "int | None"]  # from a line of the emitted file to one of the source


def _no_line(emitted: int) -> int | None:
    return None


@dataclass(frozen=True)
class Starved:
    """The warps that waited in vain for one phase of one barrier, at one place where that is known. `event` is None for
    a barrier that croq did not place. `threads` are those of the first block; `lines` are the waits that they can have
    been at."""

    event: Event | None
    slot: int
    offset: int
    parity: int
    blocks: tuple[tuple[int, int, int], ...]
    threads: ThreadSet
    lines: tuple[Span, ...]

    @property
    def name(self) -> str:
        """The event as the source spells it: `kf[1]`, or `qf` where it has one slot."""
        if self.event is None:
            return f"the mbarrier at byte {self.offset} of shared memory"
        return f"{self.event.name}[{self.slot}]" if self.event.slots > 1 else self.event.name

    @property
    def generations(self) -> str:
        """Which generations of the slot have that parity."""
        odd = self.parity ^ int(self.event is not None and self.event.ready)
        return "odd" if odd else "even"


def starved(kernel: Kernel, records: Iterable[Record], source_line: Lines = _no_line) -> tuple[Starved, ...]:
    """Records put together by barrier, parity and place, in order of the first of each. `source_line` gives the line of
    the source for one of the emitted file."""
    groups: dict[tuple[int, int, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.offset, record.parity, record.line), []).append(record)
    return tuple(_starved(kernel, group, source_line(group[0].line)) for group in groups.values())


def _starved(kernel: Kernel, records: Sequence[Record], line: int | None) -> Starved:
    first = records[0]
    event = _event_at(kernel, first.offset)
    slot = 0 if event is None or event.offset is None else (first.offset - event.offset) // MBARRIER_BYTES
    blocks = tuple(dict.fromkeys(record.block for record in records))
    threads = ThreadSet.of(t for record in records if record.block == first.block for t in record.threads)
    lines = () if event is None else tuple(_waits(kernel, event, slot, threads))
    here = tuple(span for span in lines if span.line == line)
    return Starved(event, slot, first.offset, first.parity, blocks, threads, here or lines)


def _event_at(kernel: Kernel, offset: int) -> Event | None:
    for event in kernel.events:
        if event.lowering == "mbarrier" and event.offset is not None:
            inside = offset - event.offset
            if 0 <= inside < event.slots * MBARRIER_BYTES and inside % MBARRIER_BYTES == 0:
                return event
    return None


def _waits(kernel: Kernel, event: Event, slot: int, threads: ThreadSet) -> Iterator[Span]:
    """The places of the waits for that slot of the event that any of these threads come to, each once."""
    known = Remainders(kernel, ThreadAnalysis(kernel))
    seen = set()
    for op in kernel.walk():
        if isinstance(op, MbarrierWait) and op.event is event and op.span is not None:
            comes = [thread for thread in threads if op.threads is None or thread in op.threads]
            place = (op.span.start, op.span.end)
            if place not in seen and any(known.may_be(op.slot, slot, thread) for thread in comes):
                seen.add(place)
                yield op.span


# ------------------------------------------------------------------------------------------------------------- report
class Hang(LaunchError):
    """A launch that the watchdog ended. `waits`: what starved, the first to give up first."""

    def __init__(self, kernel: Kernel, waits: Sequence[Starved], seconds: float) -> None:
        self.waits = tuple(waits)
        super().__init__([report(kernel, self.waits, seconds)])


def report(kernel: Kernel, waits: Sequence[Starved], seconds: float) -> Diagnostic:
    """E-4201 for a wait on an event, E-4202 for one on a barrier of the file's own C++; `waits` is not empty."""
    first, *others = waits
    message = f"kernel `{kernel.name}` hangs: {_who_waits(first)}"
    labels = [(span, f"or here, for `{first.name}`") for span in first.lines[1:]]
    labels += [(span, f"here for {_quoted(wait)}") for wait in others[:_LISTED] for span in wait.lines]
    notes = [_note(first, seconds), *(_also(wait) for wait in others[:_LISTED])]
    if len(others) > _LISTED:
        notes.append(f"and {len(others) - _LISTED} more waits starve")
    hint = "`croq check` looks for it in all schedules; `croq sim --schedule random:1` says which trigger is missing"
    if first.event is None:
        hint = "look at the mbarriers in the file's `__device__` functions"
    span = first.lines[0] if first.lines else first.event.span if first.event is not None else None
    code = "E-4201" if first.event is not None else "E-4202"
    return make(code, span, message, labels=_unlike(labels, span), notes=notes, hint=hint)


def _unlike(labels: Iterable[tuple[Span, str]], span: Span | None) -> Iterator[tuple[Span, str]]:
    """Without what would be quoted twice."""
    seen = {span}
    for place, text in labels:
        if place not in seen:
            seen.add(place)
            yield place, text


def _note(wait: Starved, seconds: float) -> str:
    which = f"the phase of parity {wait.parity}"
    if wait.event is not None:
        slot = f"slot {wait.slot} of `{wait.event.name}`" if wait.event.slots > 1 else f"`{wait.event.name}`"
        which += f" of {slot} ({wait.generations} generations; {_takes(wait.event)})"
    return f"for {seconds:g} s nobody completed {which}{_elsewhere(wait)}"


def _takes(event: Event) -> str:
    arrivals = f"one takes {event.arrivals} arrival{'s' if event.arrivals != 1 else ''}"
    return f"{arrivals} and {event.tx_bytes} bytes" if event.tx_bytes else arrivals


def _also(wait: Starved) -> str:
    lines = sorted({span.line for span in wait.lines})
    where = f", line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
    return f"{_who_waits(wait)}, parity {wait.parity}{where}{_elsewhere(wait)}"


def _elsewhere(wait: Starved) -> str:
    rest = wait.blocks[1:]
    if not rest:
        return ""
    named = ", ".join(map(str, rest[:_LISTED]))
    more = f" and {len(rest) - _LISTED} more" if len(rest) > _LISTED else ""
    return f"; the same in block{'s' if len(rest) > 1 else ''} {named}{more}"


def _quoted(wait: Starved) -> str:
    return f"`{wait.name}`" if wait.event is not None else wait.name


def _who_waits(wait: Starved) -> str:
    ranges = ", ".join(str(a) if b == a + 1 else f"{a}..{b - 1}" for a, b in wait.threads.ranges)
    one = len(wait.threads) == 1
    who, waits = (f"thread {ranges}", "waits") if one else (f"threads {ranges}", "wait")
    return f"{who} of block {wait.blocks[0]} {waits} for {_quoted(wait)}"


# ------------------------------------------------------------------------------------------------------------- device
class Mailbox:
    """Host memory that the device of the current context sees, for one report. Freed with the object."""

    def __init__(self) -> None:
        """Raises EnvironmentFault when the driver has no such memory."""
        cu = driver()
        size = RECORDS * WORDS * WORD_BYTES
        flags = cu.CU_MEMHOSTALLOC_PORTABLE | cu.CU_MEMHOSTALLOC_DEVICEMAP
        host = int(check(cu.cuMemHostAlloc(size, flags), "cuMemHostAlloc"))
        self._free = weakref.finalize(self, _free, host)
        self._words = (ctypes.c_uint64 * (RECORDS * WORDS)).from_address(host)
        ctypes.memset(host, 0, size)
        self.pointer = int(check(cu.cuMemHostGetDevicePointer(host, 0), "cuMemHostGetDevicePointer"))

    def records(self) -> tuple[Record, ...]:
        return decode(list(self._words))


def _free(host: int) -> None:
    """Best effort: a context that a trap ended, or a driver that is gone, has given it back already."""
    with suppress(Exception):
        driver().cuMemFreeHost(host)


class Watchdog:
    """The mailboxes of a module's kernels, one in each context that they are launched in."""

    def __init__(self, module: Module, seconds: float, source_line: Lines = _no_line) -> None:
        self.seconds = seconds
        self._source_line = source_line
        self._module = module
        self._mailboxes: dict[int, Mailbox] = {}

    def watch(self, launch: PreparedLaunch, kernel: Kernel) -> WatchedLaunch:
        """The launch, watched. Its context must be current."""
        current = current_context()
        assert current is not None, "a launch is prepared in a context"
        context = current[0]
        if context not in self._mailboxes:
            mailbox = self._mailboxes[context] = Mailbox()
            self._module.set_variable(VARIABLE, mailbox.pointer.to_bytes(WORD_BYTES, "little"))
        return WatchedLaunch(launch, kernel, self._mailboxes[context], self.seconds, self._source_line)


class WatchedLaunch:
    """A launch that waits for its end, and says where the kernel hangs when the watchdog ended it."""

    def __init__(
        self, launch: PreparedLaunch, kernel: Kernel, mailbox: Mailbox, seconds: float, source_line: Lines = _no_line
    ) -> None:
        self._launch = launch
        self._source_line = source_line
        self._kernel = kernel
        self._mailbox = mailbox
        self._seconds = seconds

    def __call__(self, stream: Any = None) -> None:
        """Raises Hang (E-4201, E-4202) when the watchdog ended the kernel, and what a launch raises."""
        try:
            self._launch(stream)
            synchronize(stream)
        except CroqError as error:
            waits = starved(self._kernel, self._mailbox.records(), self._source_line)
            if not waits:
                raise
            raise Hang(self._kernel, waits, self._seconds) from error
