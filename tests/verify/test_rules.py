"""A ring of three stages in hardware IR, right as it stands, and what single changes to it must be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from croq.ir.parser import parse_kernel
from croq.verify import Verdict, verify_protocol

RING = (Path(__file__).resolve().parent / "ring.ir").read_text(encoding="utf-8")


def line(number: int) -> str:
    """The operation that comes from source line `number`."""
    (found,) = (text for text in RING.splitlines() if text.endswith(f"// line {number}"))
    return found


def without(*numbers: int) -> str:
    text = RING
    for number in numbers:
        text = text.replace(line(number) + "\n", "")
    return text


def changed(*pairs: tuple[str, str]) -> str:
    text = RING
    for old, new in pairs:
        assert text.count(old) == 1, f"{text.count(old)} places have {old!r}"
        text = text.replace(old, new)
    return text


def swapped(a: int, b: int) -> str:
    return RING.replace(line(a), "@@").replace(line(b), line(a)).replace("@@", line(b))


def verdict(text: str) -> Verdict:
    return verify_protocol(parse_kernel(text))


ALL_LANES = (
    "elect warp {\n          mbarrier.arrive @empty, %last  // line 35\n        }",
    "mbarrier.arrive @empty, %last  // line 35",
)
NOT_ALONE = (
    '%first: bool = binary eq, %t, %0\n    section "one thread issues", thread, role=false, %first {',
    'section "all wait", thread, role=false, _ {',
)
ISSUE_ALONE = [
    (line(11), "elect set, thread=0 {\n" + line(11)),
    (line(13), line(13) + "\n}"),
]
HALF = [
    ("%is_consumer: bool = binary eq, %p, %1", "%192: s32 = const 192\n%is_consumer: bool = binary ge, %t, %192"),
    ("count=128, _", "count=64, _"),
    ("thread=128", "thread=192"),
    ("@empty, count=4", "@empty, count=2"),
]
EVERY_TIME = ("binary gt, %k, %0", "binary ge, %k, %0")

MUTANTS = {
    "the producer does not wait": ("E-6005", without(10)),
    "the consumer does not wait": ("E-6001", without(30)),
    "the consumer never gives a slot back": ("E-6008", without(35)),
    "nobody announces bytes": ("E-6008", without(11)),
    "one arrival too few": ("E-6005", changed(("@empty, count=4", "@empty, count=3"))),
    "one arrival too many": ("E-6008", changed(("@empty, count=4", "@empty, count=5"))),
    "an arrival that nobody makes": ("E-6008", changed(("@full, count=1", "@full, count=2"))),
    "the producer waits for the wrong parity": ("E-6008", changed(("cast %flip", "cast %odd"))),
    "the consumer waits for the wrong parity": (
        "E-6001",
        changed(("%parity: u32 = cast %now", "%other: s32 = binary xor, %now, %1\n%parity: u32 = cast %other")),
    ),
    "a wait leaves one MMA too many in flight": ("E-6002", changed(("depth=1", "depth=2"))),
    "the last wait leaves an MMA in flight": ("E-6003", changed(("wgmma.wait depth=0", "wgmma.wait depth=1"))),
    "the last MMA is not waited for": ("E-6003", without(40)),  # tensor.W1, tensor.W2
    "fewer bytes announced than loaded": ("E-6007", changed(("%slot, bytes=24576", "%slot, bytes=16384"))),
    "more bytes announced than loaded": ("E-6007", changed(("%slot, bytes=24576", "%slot, bytes=32768"))),
    "no fence before the store engine reads": ("E-6004", without(42)),
    "the fence stands behind the barrier": ("E-6004", swapped(42, 43)),
    "no barrier before the store engine reads": ("E-6001", without(43)),
    "the store is not waited for": ("E-6012", without(47)),
    "the store is not committed": ("E-6012", without(46)),
    "no fence between registers and MMA": ("E-6003", without(31)),  # tensor.W3
    "an MMA is not committed": ("E-6003", without(33)),
    "barriers not visible to the copy engine": ("E-6004", without(3)),
    "no barrier behind the initialisation": ("E-6009", without(4)),
    "a barrier is not initialised": ("E-6009", without(2)),
    "the accumulator holds nothing": ("E-6009", without(21)),  # tensor.W5
    "the slot of the MMA in flight is given back": (
        "E-6002",
        changed(EVERY_TIME, ("binary mod, %before, %3", "binary mod, %k, %3")),
    ),
    "a load is issued before the wait": ("E-6007", swapped(10, 13)),
    "the accumulator is stored before the last wait": ("E-6003", swapped(40, 41)),
    "the producer counts a fourth slot": (
        "E-6010",
        changed(("%slot: s32 = binary mod, %i, %3", "%4: s32 = const 4\n%slot: s32 = binary mod, %i, %4")),
    ),
    "the consumer counts two slots": (
        "E-6012",
        changed(("%at: s32 = binary mod, %k, %3", "%2: s32 = const 2\n%at: s32 = binary mod, %k, %2")),
    ),
    "the producer counts two slots": (
        "E-6005",
        changed(("%slot: s32 = binary mod, %i, %3", "%2: s32 = const 2\n%slot: s32 = binary mod, %i, %2")),
    ),
    "every lane arrives": ("E-6005", changed(ALL_LANES)),
    "threads wait that have nothing to do": ("E-6006", changed(NOT_ALONE, *ISSUE_ALONE)),
    "a barrier for threads that do not come": ("E-6008", changed(("count=128, _", "count=256, _"))),
    "half a warpgroup multiplies": ("E-6001", changed(*HALF)),  # tensor.W4
    "the consumer leaves a tile": (
        "E-6012",
        changed(("for %k: s32, %n {", "%fewer: s32 = binary sub, %n, %1\nfor %k: s32, %fewer {")),
    ),
    "the consumer wants one tile more": (
        "E-6008",
        changed(("for %k: s32, %n {", "%more: s32 = binary add, %n, %1\nfor %k: s32, %more {")),
    ),
    "descriptors of A step too far": ("E-6013", changed(("jump=32), @b_buf", "jump=64), @b_buf"))),  # tensor.W6
    "descriptors of B have another swizzle": ("E-6013", changed(("layout=1, jump=32), m=", "layout=2, jump=32), m="))),
    "a box leaves its tile": (
        "E-6010",
        changed(("@a_buf<%slot>[0:64, 0:64]", "@a_buf<%slot>[32:64, 0:64]")),
    ),  # memory.M5
}

HARMLESS = {
    "as it stands": RING,
    "bytes announced behind the first load": swapped(11, 12),
    "an empty bulk group more": changed(
        (line(47), line(47) + "\n      bulk.commit\n      bulk.wait depth=0, read=true")
    ),
    "a second proxy fence": changed((line(42), line(42) + "\n    fence.proxy_async")),
    "MMAs waited for at once": changed(("wgmma.wait depth=1", "wgmma.wait depth=0")),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_right_kernel_is_proved(name: str) -> None:
    found = verdict(HARMLESS[name])
    assert found.proved, found
    assert list(found) == []
    assert str(found).startswith("proved for all schedules, trip counts a loop: 1..7")


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_kernel_is_refused(name: str) -> None:
    code, text = MUTANTS[name]
    found = verdict(text)
    assert found.outcome == "fault", found
    (fault,) = found.diagnostics()
    assert fault.code == code, fault.render()
    assert fault.severity == "error" and fault.message


def test_counterexample_names_both_places_and_the_event() -> None:
    (fault,) = verdict(changed(EVERY_TIME, ("binary mod, %before, %3", "binary mod, %k, %3"))).diagnostics()
    assert fault.message == "a TMA load overwrites `a_buf[0]` while an MMA may still read it"
    assert fault.span is not None and fault.span.line == 12
    assert [label.span.line for label in fault.labels] == [32, 35]
    assert fault.hint == "wait for the MMA before `trigger empty`"
    schedule = fault.notes[-1]
    assert "producer (warp 0)" in schedule and "consumer (warps 4 to 7)" in schedule
    assert schedule.splitlines()[-1].strip() == "> 12:1 overwrites a_buf[0] while an MMA at 32:1 reads it"


def test_verdict_does_not_change_from_run_to_run() -> None:
    text = MUTANTS["a wait leaves one MMA too many in flight"][1]
    first, second = (verdict(text).diagnostics()[0].render() for _ in range(2))
    assert first == second
