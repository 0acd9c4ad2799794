"""Reads the compiler's log: resource usage of each kernel, and the remarks that mean lost performance.

ptxas prints usage with `-v`; its numbered remarks (C75xx) tell where it dropped what the code asked for. The forms
below are those of CUDA 12.4 to 13.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from croq.diagnostics import Diagnostic, make
from croq.source import Span

Place = Callable[[int], Span | None]


@dataclass(frozen=True)
class KernelUsage:
    """What one kernel takes: registers a thread, bytes a thread of spills and stack, barriers, static shared bytes.

    Spill counts are bytes of code-level stores and loads, not of traffic. `registers` is the launch value: with
    setmaxnreg the roles run with more or fewer.
    """

    name: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    barriers: int
    static_shared: int = 0


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_FUNCTION = re.compile(r"Function properties for '?([^'\s]+)'?")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_REMARK = re.compile(r"\((C\d{4,5})\)\s*(.*)")
_LINE = re.compile(r"\bline ([1-9]\d*)")  # of the PTX; 0 where ptxas knows none
_IN_FUNCTION = re.compile(r"function '([^']+)'")


def parse_usage(log: str) -> tuple[KernelUsage, ...]:
    """Usage of each entry function, in the order of the log."""
    usage: list[KernelUsage] = []
    entry: str | None = None
    frame = (0, 0, 0)
    in_entry = False
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, frame, in_entry = match[1], (0, 0, 0), True
        elif match := _FUNCTION.search(line):
            in_entry = match[1] == entry
        elif (match := _FRAME.search(line)) and in_entry:
            frame = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and entry is not None:
            stack, stores, loads = frame
            registers = int(match[1])
            barriers, shared = (int(m[1]) if (m := form.search(line)) else 0 for form in (_BARRIERS, _SHARED))
            usage.append(KernelUsage(entry, registers, stores, loads, stack, barriers, shared))
            entry = None
    return tuple(usage)


def parse_warnings(log: str, place: Place | None = None) -> tuple[Diagnostic, ...]:
    """Warnings about lost performance, one for each fault and kernel. `place`: where a line of the PTX came from."""
    return (*_usage_warnings(parse_usage(log)), *_remark_warnings(log, place or (lambda line: None)))


def _usage_warnings(usage: Iterable[KernelUsage]) -> Iterator[Diagnostic]:
    for kernel in usage:
        if kernel.spill_stores or kernel.spill_loads:
            yield make(
                "W-3001",
                None,
                f"kernel `{kernel.name}` spills registers: {kernel.spill_stores} bytes stored, "
                f"{kernel.spill_loads} bytes loaded a thread",
                severity="warning",
                notes=[f"{kernel.registers} registers a thread at launch"],
                hint="use smaller tiles, fewer fragments alive at a time, or a higher `setreg_inc` for the role",
            )
        elif kernel.stack_bytes:
            yield make(
                "W-3002",
                None,
                f"kernel `{kernel.name}` keeps {kernel.stack_bytes} bytes a thread in local memory",
                severity="warning",
                notes=["an array is indexed by a value that is not constant after unrolling"],
            )


def _remark_warnings(log: str, place: Place) -> Iterator[Diagnostic]:
    seen: set[tuple[str, str]] = set()
    for line in log.splitlines():
        match = _REMARK.search(line)
        if match is None:
            continue
        code, text = match[1], match[2].strip()
        function = _IN_FUNCTION.search(text)
        kernel = function[1] if function else ""
        if (code, kernel) in seen:
            continue
        seen.add((code, kernel))
        at = _LINE.search(text)
        yield _remark(code, text, kernel, place(int(at[1])) if at else None)


def _remark(code: str, text: str, kernel: str, span: Span | None) -> Diagnostic:
    where = f" in `{kernel}`" if kernel else ""
    if "setmaxnreg" in text:
        return make(
            "W-3003",
            None,
            f"ptxas ignores the register budgets of `setreg_inc` and `setreg_dec`{where} ({code})",
            severity="warning",
            notes=[f"ptxas: {text}"],
            hint="a `trap` anywhere in the kernel, or no static bound on its threads, has this effect",
        )
    if "wgmma" in text or "GMMA" in text:
        serialised = "serialized" in text or "serialised" in text
        what = "runs WGMMA one at a time" if serialised else "adds synchronisation around WGMMA"
        return make(
            "W-3004",
            span,
            f"ptxas {what}{where} ({code})",
            severity="warning",
            notes=[f"ptxas: {text}"],
            hint="touch no accumulator and no register operand between issue and wait, and branch around no WGMMA",
        )
    return make("W-3005", span, f"ptxas remark {code}{where}", severity="warning", notes=[f"ptxas: {text}"])
