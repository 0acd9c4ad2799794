"""The watchdog without a GPU: builds, records, reports; and the deliberately wrong kernels that need it."""

from __future__ import annotations

import argparse
import ctypes
import enum
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import croq
from croq.diagnostics import CompileError, LaunchError
from croq.driver import errors, launch, watchdog
from croq.driver.cache import cache_key
from croq.driver.nvrtc import compile_ptx, prelude
from croq.driver.watchdog import Hang, Record, Starved, Watchdog, decode, report, starved
from croq.ir.objects import Kernel
from croq.settings import Settings
from tests.command_line import croq as command
from tests.conftest import ROOT
from tools import device_mutants, wrong_kernels

SECONDS = 2.0
ALL_LANES = 0xFFFFFFFF


def words(
    offset: int, parity: int, block: tuple[int, int, int] = (0, 0, 0), thread: int = 0, lanes: int = 1, line: int = 0
) -> list[int]:
    """A record as the device writes it."""
    return [1 << 63 | parity << 32 | offset, block[1] << 32 | block[0], thread << 32 | block[2], line << 32 | lanes]


@pytest.fixture(scope="module")
def v4() -> Kernel:
    (kernel,) = croq.compile("v4").devices
    return kernel


def offset(kernel: Kernel, name: str, slot: int = 0) -> int:
    event = next(event for event in kernel.events if event.name == name)
    assert event.offset is not None
    return event.offset + 8 * slot


def line(kernel: Kernel, text: str, number: int = 0) -> int:
    return [i for i, written in enumerate(kernel.file.text.split("\n"), 1) if text in written][number]


def emitted_waits(kernel: croq.Kernel) -> list[int]:
    """Lines of the emitted file that wait for an mbarrier."""
    return [i for i, text in enumerate(kernel.cuda.split("\n"), 1) if "croq::mbarrier_wait(" in text]


# -------------------------------------------------------------------------------------------------------------- builds
@pytest.mark.nvrtc
@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_shipped_kernels_compile_with_a_watchdog(name: str) -> None:
    plain, watched = croq.compile(name), croq.compile(name, watchdog=SECONDS)
    assert watched.cuda == plain.cuda
    assert watched.cubin != plain.cubin
    assert watched.warnings == plain.compilation.diagnostics  # ptxas has others, which say nothing about the program
    assert b"croq_watchdog_report" in watched.cubin
    assert b"croq_watchdog" not in plain.cubin


@pytest.mark.nvrtc
def test_the_ptx_reports_before_it_traps() -> None:
    text = croq.compile("v4", watchdog=SECONDS).ptx
    assert re.search(r"fence\.acq_rel\.sys;(.|\n)*st\.volatile\.u64(.|\n)*trap;", text)
    assert "trap;" not in croq.compile("v4").ptx


@pytest.mark.nvrtc
def test_the_device_knows_the_line_of_each_wait() -> None:
    kernel = croq.compile("v4", watchdog=SECONDS)
    text = kernel.ptx
    waits = emitted_waits(kernel)
    assert len(waits) == 7
    assert [line for line in waits if str(line << 32) not in text] == []  # the high half of a record's last word
    assert str(waits[0] << 32) not in croq.compile("v4").ptx


@pytest.mark.nvrtc
def test_kernels_without_shared_memory_compile_too() -> None:
    body = '#include "croq.cuh"\nextern "C" __global__ void k(unsigned a) { croq::mbarrier_wait(a, 0); }'
    assert "croq_watchdog_report" in compile_ptx(body, options=[watchdog.option(SECONDS)])


def test_the_device_writes_what_the_host_reads() -> None:
    text = prelude()["croq.cuh"]
    assert f"constexpr u32 RECORDS = {watchdog.RECORDS};" in text
    assert f"report + {watchdog.WORDS} * index" in text
    assert re.search(rf"__device__ unsigned long long\* {watchdog.VARIABLE};", text)
    assert f"#ifdef {watchdog.MACRO}" in text


@pytest.mark.nvrtc
def test_the_time_is_part_of_the_cache_key() -> None:
    keys = {cache_key("text", options=Settings.of(watchdog=seconds).options) for seconds in (None, 1, 2)}
    assert len(keys) == 3
    assert Settings.of(watchdog=0.5).options == ("-DCROQ_WATCHDOG=500000000",)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e6])
def test_a_time_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(CompileError, match="E-4200"):
        Settings.of(watchdog=seconds)


# ------------------------------------------------------------------------------------------------------------- records
def test_records_are_decoded() -> None:
    report = [*words(0x18, 1, (3, 2, 1), 352, ALL_LANES, 185), *words(8, 0, (70000, 0, 65535), 1), *[0] * 8]
    assert decode(report) == (
        Record(0x18, 1, (3, 2, 1), 352, ALL_LANES, 185),
        Record(8, 0, (70000, 0, 65535), 1, 1),
    )


def test_a_record_that_is_not_whole_is_passed_over() -> None:
    broken = words(8, 1)
    broken[0] &= ~(1 << 63)
    assert [record.offset for record in decode([*broken, *words(16, 0)])] == [16]
    assert decode([]) == ()


def test_lanes_are_threads() -> None:
    assert str(Record(0, 0, (0, 0, 0), 130, 0b1100).threads) == "{130..132}"


# ------------------------------------------------------------------------------------------------------------- reports
def records(kernel: Kernel) -> list[Record]:
    """Consumers of two blocks wait for a load of V, and the producer for room for K."""
    found = []
    for block in ((5, 0, 0), (7, 1, 0)):
        found += [Record(offset(kernel, "vf", 1), 0, block, t, ALL_LANES) for t in range(128, 384, 32)]
        found.append(Record(offset(kernel, "ke"), 1, block, 0, 1))
    return found


def test_starved_warps_are_put_together(v4: Kernel) -> None:
    first, second = starved(v4, records(v4))
    assert (first.name, first.slot, first.parity, first.generations) == ("vf[1]", 1, 0, "even")
    assert (first.blocks, str(first.threads)) == (((5, 0, 0), (7, 1, 0)), "{128..384}")
    assert (second.name, str(second.threads), second.generations) == ("ke[0]", "{0..1}", "even")  # it starts ready


def test_only_waits_of_those_threads_are_named(v4: Kernel) -> None:
    first, second = starved(v4, records(v4))
    assert first.lines[0].line == line(v4, "wait vf.at")
    assert [span.line for span in second.lines] == [line(v4, "wait ke.at")]
    (odd,) = starved(v4, [Record(offset(v4, "ke"), 1, (0, 0, 0), 128, 1)])  # no consumer waits for it
    assert odd.lines == ()


@pytest.mark.parametrize("lineinfo", [False, True])
def test_each_group_of_threads_is_named_where_it_waits(lineinfo: bool) -> None:
    """Two places wait for `kf`; a report named both for each, though the first waits for slot 0 only."""
    made = croq.compile("v4", lineinfo=lineinfo)
    (kernel,) = made.devices
    first, loop = (line(kernel, "wait kf.at", n) for n in (0, 1))
    recorded = {made.compilation.source_line(n): n for n in emitted_waits(made)}
    if lineinfo:  # `#line` has told the compiler so already
        recorded = {first: first, loop: loop}
    found = [Record(offset(kernel, "kf", 1), 0, (0, 0, 0), t, ALL_LANES, recorded[loop]) for t in range(128, 256, 32)]
    found += [Record(offset(kernel, "kf"), 0, (0, 0, 0), t, ALL_LANES, recorded[first]) for t in range(256, 384, 32)]
    later, earlier = starved(kernel, found, made.compilation.source_line)
    assert (later.name, str(later.threads), [s.line for s in later.lines]) == ("kf[1]", "{128..256}", [loop])
    assert (earlier.name, str(earlier.threads), [s.line for s in earlier.lines]) == ("kf[0]", "{256..384}", [first])
    text = report(kernel, [later, earlier], SECONDS).render()
    assert f"threads 256..383 of block (0, 0, 0) wait for `kf[0]`, parity 0, line {first}" in text
    assert "or here" not in text


def test_one_phase_may_starve_at_two_places(v4: Kernel) -> None:
    lines = [line(v4, "wait kf.at", n) for n in (0, 1)]
    found = [Record(offset(v4, "kf"), 0, (0, 0, 0), 128 + 128 * n, ALL_LANES, at) for n, at in enumerate(lines)]
    assert [[s.line for s in wait.lines] for wait in starved(v4, found, lambda emitted: emitted)] == [
        [n] for n in lines
    ]


SLOTS = """__co__ void f(global f32 [R, 128] x) {
  parallel b by 1 : block {
    shared event e[2];
    parallel p by 2 : group-4, t by 128 : thread {
      inthreads.async (p == 0) { foreach {r} in [R] { trigger e.at(2 * r); trigger e.at(2 * r + 1); } }
      inthreads.async (p == 1) {
        foreach {r} in [R] {
          wait e.at(2 * r);
          wait e.at(2 * r + 1);
        }
      }
    }
  }
}
"""


def test_waits_for_other_slots_are_not_named_even_without_a_line() -> None:
    (kernel,) = croq.compile(SLOTS, verify=False).devices
    for slot, text in ((0, "wait e.at(2 * r);"), (1, "wait e.at(2 * r + 1);")):
        (wait,) = starved(kernel, [Record(offset(kernel, "e", slot), 0, (0, 0, 0), 128, ALL_LANES)])
        assert [span.line for span in wait.lines] == [line(kernel, text)]


def test_the_report_says_who_waits_where_for_what(v4: Kernel) -> None:
    text = report(v4, starved(v4, records(v4)), SECONDS).render()
    wanted = (
        "error[E-4201]: kernel `flash_atten` hangs: threads 128..383 of block (5, 0, 0) wait for `vf[1]`\n",
        f"  --> v4.co:{line(v4, 'wait vf.at')}:",
        "wait vf.at(v_pipe_order);",
        "for 2 s nobody completed the phase of parity 0 of slot 1 of `vf` (even generations; one takes 1 arrival and "
        "32768 bytes); the same in block (7, 1, 0)",
        f"thread 0 of block (5, 0, 0) waits for `ke[0]`, parity 1, line {line(v4, 'wait ke.at')}; the same in block",
        "here for `ke[0]`",
        "= help: `croq check` looks for it",
    )
    assert [part for part in wanted if part not in text] == []


def test_a_barrier_that_croq_did_not_place_is_reported_by_its_address(v4: Kernel) -> None:
    for place in (offset(v4, "qf") + 4, 0x7000):
        waits = starved(v4, [Record(place, 1, (0, 0, 0), 5, 1 << 5)])
        found = report(v4, waits, SECONDS)
        assert (found.code, found.span) == ("E-4202", None)
        assert f"thread 5 of block (0, 0, 0) waits for the mbarrier at byte {place} of shared memory" in found.message


def test_a_report_stays_short(v4: Kernel) -> None:
    many = [Record(0x7000 + 8 * i, 0, (block, 0, 0), 0, 1) for i in range(20) for block in range(50)]
    text = report(v4, starved(v4, many), SECONDS).render()
    assert "and 15 more waits starve" in text
    assert "(1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0) and 45 more" in text
    assert len(text.splitlines()) < 12


# -------------------------------------------------------------------------------------------------------------- launch
class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_LAUNCH_FAILED = 719


OK = Status.CUDA_SUCCESS


class Driver:
    """Stands for the driver: a module variable, host memory, and a device that writes `report` and traps."""

    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2

    def __init__(self) -> None:
        self.memory: list[Any] = []
        self.freed: list[int] = []
        self.variable = ctypes.create_string_buffer(8)
        self.report: list[int] = []
        self.ends = OK

    def cuLibraryLoadData(self, *_: object) -> tuple[Status, str]:
        return OK, "library"

    def cuLibraryGetGlobal(self, library: object, name: bytes) -> tuple[Status, int, int]:
        if name != b"croq_watchdog_report":
            return Status.CUDA_ERROR_NOT_FOUND, 0, 0
        return OK, ctypes.addressof(self.variable), 8

    def cuMemcpyHtoD(self, to: int, source: int, size: int) -> tuple[Status]:
        ctypes.memmove(to, source, size)
        return (OK,)

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[Status, int]:
        assert flags == 3
        self.memory.append(ctypes.create_string_buffer(b"\xff" * size, size))
        return OK, ctypes.addressof(self.memory[-1])

    def cuMemHostGetDevicePointer(self, host: int, flags: int) -> tuple[Status, int]:
        return OK, host

    def cuMemFreeHost(self, host: int) -> tuple[Status]:
        self.freed.append(host)
        return (OK,)

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return OK, b"unspecified launch failure"

    def synchronize(self, stream: object = None) -> None:
        if self.report:
            pointer = int.from_bytes(self.variable.raw, "little")
            (ctypes.c_uint64 * len(self.report)).from_address(pointer)[:] = [*self.report]
        errors.check((self.ends,), "cuCtxSynchronize")


@pytest.fixture
def cu(monkeypatch: pytest.MonkeyPatch) -> Driver:
    fake = Driver()
    for module in (launch, errors, watchdog):
        monkeypatch.setattr(module, "driver", lambda: fake)
    monkeypatch.setattr(watchdog, "synchronize", fake.synchronize)
    monkeypatch.setattr(watchdog, "current_context", lambda: (100, 0))
    return fake


def test_a_launch_that_hangs_says_where(cu: Driver, v4: Kernel) -> None:
    launches: list[object] = []
    watched = Watchdog(launch.Module(b"cubin"), SECONDS).watch(launches.append, v4)  # type: ignore[arg-type]
    watched(7)  # nothing starves
    cu.report, cu.ends = words(offset(v4, "kf"), 0, (1, 0, 0), 128, ALL_LANES), Status.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(Hang) as caught:
        watched(8)
    assert launches == [7, 8]
    assert [wait.name for wait in caught.value.waits] == ["kf[0]"]
    assert caught.value.diagnostics[0].code == "E-4201"
    assert isinstance(caught.value, LaunchError)


def test_a_fault_without_records_stays_what_it_is(cu: Driver, v4: Kernel) -> None:
    watched = Watchdog(launch.Module(b"cubin"), SECONDS).watch(lambda stream: None, v4)  # type: ignore[arg-type]
    cu.ends = Status.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(LaunchError, match="E-4040"):
        watched()


def test_the_launches_of_a_context_share_a_mailbox(cu: Driver, v4: Kernel) -> None:
    owner = Watchdog(launch.Module(b"cubin"), SECONDS)
    for _ in range(3):
        owner.watch(lambda stream: None, v4)  # type: ignore[arg-type]
    assert len(cu.memory) == 1
    assert int.from_bytes(cu.variable.raw, "little") == ctypes.addressof(cu.memory[0])
    del owner
    assert cu.freed == [ctypes.addressof(cu.memory[0])]


def test_variables_are_written_whole(cu: Driver) -> None:
    module = launch.Module(b"cubin")
    assert not module.set_variable("no_such", bytes(8))
    with pytest.raises(ValueError, match="8 bytes, not 4"):
        module.set_variable(watchdog.VARIABLE, bytes(4))


HANGS = """
import numpy as np, ml_dtypes
import croq
from croq.driver.device_array import DeviceArray
from croq.driver.watchdog import Hang

text = open("tests/cases/gemm_ring.co").read().replace("mutable u32 order = 0;", "mutable u32 order = 1;", 1)
kernel = croq.compile(text, watchdog=0.2, verify=False)  # the verifier refuses it
a, b, c = (DeviceArray.from_numpy(np.zeros((256, 256), ml_dtypes.bfloat16)) for _ in range(3))
try:
    kernel(a, b, c)
except Hang as hang:
    print(*(wait.name for wait in hang.waits))
    print(hang)
"""


@pytest.mark.gpu
def test_a_gpu_reports_its_hang() -> None:
    """In a process of its own: the trap ends the context."""
    done = subprocess.run([sys.executable, "-c", HANGS], cwd=ROOT, capture_output=True, text=True, timeout=120)
    events, _, text = done.stdout.partition("\n")
    assert "full[0]" in events.split(), done.stderr
    assert "error[E-4201]: kernel `gemm` hangs: thread" in text
    assert "wait full.at(order);" in text


HANGS_AT_ONE_OF_TWO = """
import numpy as np, ml_dtypes
import croq
from croq.driver.device_array import DeviceArray
from croq.driver.watchdog import Hang

before, release, after = open("kernels/v4.co").read().rpartition("trigger ke.at(k_pipe_order++);")
kernel = croq.compile(before + "k_pipe_order = k_pipe_order + 1;" + after, watchdog=0.2, verify=False)
q, k, v, o = (DeviceArray.from_numpy(np.zeros((1, 1024, 1, 128), ml_dtypes.bfloat16)) for _ in range(4))
try:
    kernel(q, k, v, o)
except Hang as hang:
    for wait in hang.waits:
        print(wait.name, *(span.line for span in wait.lines))
"""


@pytest.mark.gpu
def test_a_gpu_says_at_which_of_two_waits(v4: Kernel) -> None:
    """Consumers wait for `kf` before their loop and in it; they starve in the loop."""
    code = [sys.executable, "-c", HANGS_AT_ONE_OF_TWO]
    done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, timeout=120)
    found = {name: lines for name, *lines in map(str.split, done.stdout.splitlines())}
    assert found.get("kf[1]") == [str(line(v4, "wait kf.at", 1))], done.stderr
    assert found.get("ke[1]") == [str(line(v4, "wait ke.at"))], done.stdout


# ------------------------------------------------------------------------------------------------------- command line
def test_the_command_line_refuses_a_time_that_makes_no_sense() -> None:
    result = command("run", "v4", "--device", "sim", "--watchdog", "0")
    assert result.exit_code == 2
    assert "E-4200" in result.stderr


def test_the_simulator_needs_no_watchdog() -> None:
    sizes = ["--seq", "128", "--batch", "1", "--heads", "1", "--tiles", "1"]
    result = command("run", "v1", *sizes, "--device", "sim", "--watchdog", "1")
    assert result.exit_code == 0
    assert "--watchdog is for a GPU" in result.stderr


# -------------------------------------------------------------------------------------------------- wrong kernels
@pytest.fixture(scope="module")
def gemm() -> wrong_kernels.Base:
    return wrong_kernels.Base("gemm_ring")


def test_every_chosen_mutant_exists(gemm: wrong_kernels.Base) -> None:
    bases = {name: wrong_kernels.Base(name) if name != "gemm_ring" else gemm for name in wrong_kernels.KERNELS}
    found = [bases[choice.kernel].find(choice).mutant.id for choice in wrong_kernels.CHOICES]
    assert len(set(found)) == len(wrong_kernels.CHOICES) >= 12
    with pytest.raises(LookupError):
        gemm.find(wrong_kernels.Choice("gemm_ring", "no-such"))


def test_no_chosen_mutant_can_hang_at_a_named_barrier() -> None:
    """All threads leave a removed one out; any other change of one could strand some of them."""
    about = [choice.what for choice in wrong_kernels.CHOICES if "named_barrier" in choice.what]
    assert set(about) <= {"named_barrier.sync:removed"}


def test_a_text_that_the_rules_refuse_is_lowered_all_the_same(gemm: wrong_kernels.Base) -> None:
    kernel, refused = gemm.make(gemm.find(wrong_kernels.Choice("gemm_ring", "trigger-early", "`trigger empty")))
    assert refused == "E-1121"
    assert wrong_kernels.predict(gemm, kernel)[:2] == ("E-6002", "nothing is guaranteed")


def test_hangs_are_predicted_with_their_events(gemm: wrong_kernels.Base) -> None:
    kernel, refused = gemm.make(gemm.find(wrong_kernels.Choice("gemm_ring", "mbarrier.arrive(empty):removed")))
    _, predicted, events, certain = wrong_kernels.predict(gemm, kernel)
    assert (refused, set(events), certain) == ("", {"full", "empty"}, True)
    assert predicted.startswith("hangs at `")


def entry(**fields: Any) -> dict[str, Any]:
    return {"certain": False, "predicted": "nothing is guaranteed", "events": [], **fields}


RAN = {"status": "ran", "launches": 9, "wrong": 0, "max_error": 0.0, "not_finite": 0}


@pytest.mark.parametrize(
    ("predicted", "found", "agrees"),
    [
        (entry(certain=True, events=["kf"]), {"status": "hang", "events": ["kf[1]", "ke[0]"]}, "yes"),
        (entry(certain=True, events=["kf"]), {"status": "hang", "events": ["qf"]}, "NO"),
        (entry(certain=True, events=["kf"]), RAN, "NO"),
        (entry(), RAN, "yes"),
        (entry(), {"status": "stuck"}, "NO"),
        (entry(), {"status": "fault"}, "yes"),
        (entry(), {"status": "not run"}, "-"),
        (entry(predicted=wrong_kernels.SAME), RAN, "yes"),
        (entry(predicted=wrong_kernels.SAME), RAN | {"wrong": 1}, "NO"),
        (entry(predicted=wrong_kernels.WRONG), RAN | {"wrong": 1}, "yes"),
        (entry(predicted=wrong_kernels.WRONG), RAN, "NO"),
    ],
)
def test_what_is_observed_is_held_against_what_was_predicted(predicted: Any, found: Any, agrees: str) -> None:
    assert device_mutants._agrees(predicted, found) == agrees


def process(program: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_process_that_dies_costs_its_own_line_only(tmp_path: Path) -> None:
    names = {"full": {"path": "tests/cases/gemm_ring.co"}}
    (tmp_path / "mutants.json").write_text(json.dumps({"watchdog": 1, "kernels": names, "mutants": []}))
    options = argparse.Namespace(run=tmp_path, launches=1, budget=60.0, only="", json=tmp_path / "out.json")
    ((_, worker),) = device_mutants._ready(options, ["no such mutant"])
    assert device_mutants._result(worker, 60.0)["status"] == "not run"
    assert device_mutants._result(process("exit(3)"), 60.0) == {"status": "died", "text": "exit status 3: no word"}
    ready = """print('{"status": "ready"}', flush=True); input(); raise SystemExit("gone")"""
    assert device_mutants._result(process(ready), 60.0) == {"status": "died", "text": "exit status 1: gone"}
    assert device_mutants._result(process("input()"), 0.5)["status"] == "not run"  # never got ready
    assert device_mutants.supervise(options) == 0  # nothing to run


def test_the_event_of_an_unknown_barrier_has_no_generations() -> None:
    wait = Starved(None, 0, 8, 1, ((0, 0, 0),), Record(8, 1, (0, 0, 0), 0, 1).threads, ())
    assert (wait.name, wait.generations) == ("the mbarrier at byte 8 of shared memory", "odd")
