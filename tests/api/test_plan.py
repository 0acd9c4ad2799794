"""The plan of a kernel made by hand: the promised keys in their order, and the text for readers."""

from __future__ import annotations

import json

from croq.ir.core import Block, Value
from croq.ir.hw import Section, SetMaxNReg
from croq.ir.objects import Buffer, Event, Fragment, Kernel, Param, TensorMap, Wait
from croq.ir.types import ThreadSet
from croq.plan import plan, render, to_json
from croq.sema.symbolic import Dim
from croq.source import SourceFile, Span
from croq.target.fragments import AccumulatorLayout

KEYS = [
    "kernel", "threads", "grid", "launch_bounds", "shared_bytes", "shared", "events", "waits", "tensor_maps",
    "fragments", "registers", "synchronisation",
]  # fmt: skip


def threads(*ranges):
    return ThreadSet(tuple(ranges))


def section(label, *ops):
    return Section(label, "group-4", True, Value("bool"), Block(list(ops)))


def made():
    s, h, b = (Dim.symbol(name) for name in ("Q_SEQ", "H", "B"))
    k = Param("K", "bf16", (b, s, h, Dim.of(128)))
    body = Block([section("p == 0", SetMaxNReg("dec", 40)), section("p > 0", SetMaxNReg("inc", 232))])
    kernel = Kernel("flash_atten", SourceFile("v4.co", "\n" * 88), [k], (s.cdiv(128), h, b), 384, body, 3, 1)
    kernel.shared_bytes = 65544
    kernel.buffers = [Buffer("k_buf", "bf16", (128, 128), 2, swizzle=128, offset=0, alignment=1024, why="K of an MMA")]
    kernel.events = [
        Event("kf", 2, lowering="mbarrier", arrivals=1, tx_bytes=32768, triggers=threads((0, 1)),
              waiters=threads((128, 384)), why="completed by TMA"),
        Event("qe", 1, True, lowering="named_barrier", barrier_id=14, barrier_threads=320,
              triggers=threads((128, 384)), waiters=threads((0, 64)), why="one slot"),
    ]  # fmt: skip
    kernel.tensor_maps = [TensorMap("K_map", k, (64, 128), (3, 1), None, (Dim.of(128), s), 128, 2)]
    kernel.fragments = [Fragment("acc_s", "f32", (64, 128), AccumulatorLayout(64, 128))]
    kernel.waits = [Wait("wait_0", ("qk",), 1, "one group is younger", span=Span(kernel.file, 87, 88))]
    return kernel


def test_the_promised_keys_come_in_order():
    (item,) = plan([made()])
    assert list(item) == KEYS
    assert item["grid"] == ["cdiv(Q_SEQ, 128)", "H", "B"]
    assert item["launch_bounds"] == [384, 1]
    assert item["shared"][0] | {"why": ""} == {
        "name": "k_buf", "offset": 0, "bytes": 65536, "swizzle": 128, "slots": 2, "why": ""
    }  # fmt: skip
    kf, qe = item["events"]
    assert list(kf) == ["name", "slots", "lowering", "arrivals", "tx_bytes", "ready", "triggers", "waiters", "why"]
    assert list(qe) == ["name", "slots", "lowering", "id", "threads", "ready", "triggers", "waiters", "why"]
    assert kf["triggers"] == [[0, 1]] and kf["waiters"] == [[128, 384]] and kf["ready"] is False
    assert item["fragments"][0]["registers"] == 64
    assert item["waits"] == [{"line": 88, "futures": ["qk"], "depth": 1, "why": "one group is younger"}]
    assert item["registers"] == [{"role": "p == 0", "setreg": 40}, {"role": "p > 0", "setreg": 232}]


def test_the_json_text_is_json_of_the_same():
    plans = plan([made(), made()])
    assert json.loads(to_json(plans)) == plans
    assert to_json([]) == "[]\n"


def test_the_text_for_readers(golden):
    golden(render(plan([made()])) + "\n")


def test_without_minimum_residency_the_bounds_are_the_threads():
    kernel = made()
    kernel.min_blocks = None
    assert plan([kernel])[0]["launch_bounds"] == [384]
