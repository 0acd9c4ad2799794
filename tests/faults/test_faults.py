"""Faults that compilers and kernels of this field have shipped: croq finds each, names both places, and says why.

docs/field-faults.md tells the stories. A program that is wrong by itself is `NAME.co`, right with `-D FIXED`, with
`// fault` at the line an error must point at and `// because` at the line it must name besides. Where croq derives the
part that was wrong elsewhere, the program is right, and the test damages what croq derived.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from croq.compiler import compile_file
from croq.diagnostics import Diagnostic, Sink
from croq.ir.build import build
from croq.ir.core import Op
from croq.ir.hw import MbarrierExpectTx, ProxyFence, WgmmaWait
from croq.ir.objects import Kernel
from croq.ir.rewrite import rewrite_blocks
from croq.ir.scalar import For
from croq.kernel import check_file
from croq.passes import pipeline
from croq.sema import analyse
from croq.settings import Settings
from croq.simulate import SimulationFault, run
from croq.source import SourceFile
from croq.syntax import parse_program
from croq.verify import blame, verify_protocol

FOLDER = Path(__file__).resolve().parent
SCHEDULES = ("eager", "lazy", "random:1", "random:2")


@dataclass(frozen=True)
class Shipped:
    """A program that is wrong: the code, and what the explanation must say (in the message, its notes or its hint)."""

    name: str
    code: str
    says: tuple[str, ...]


SHIPPED = [
    Shipped("one_iteration", "E-6008", ("deadlock", "(K = 64)", "completion 1 of full[1]", "waited for more often")),
    Shipped(
        "shared_by_two", "E-6002", ("overwrites `b_tile` while an MMA may still read it", "does not know", "schedule")
    ),
    Shipped(
        "operand_in_flight", "E-1120", ("`weights` is written while an MMA still reads it", "put `wait right;` before")
    ),
    Shipped(
        "one_operand_buffered", "E-6002", ("overwrites `b_buf[0]`", "completion 1 of b_full[0]", "a_buf[1]", "schedule")
    ),
    Shipped(
        "arrives_without_waiting", "E-6005", ("may arrive twice in one generation of `done`", "counts arrivals only")
    ),
]


def source(name: str) -> SourceFile:
    path = FOLDER / f"{name}.co"
    return SourceFile(path.name, path.read_text(encoding="utf-8"))


def blamed(name: str, kernel: Kernel, **defines: str) -> Diagnostic:
    """What is found in a lowered kernel that was damaged: croq's own fault, since the program itself is proved."""
    sink = Sink()
    module = build(analyse(parse_program(source(name), defines, sink), sink), sink)
    pipeline.run(module, sink, after="participants")
    sink.check()
    (found,) = blame(verify_protocol(kernel), verify_protocol(module.kernels[0], level="tile")).found
    assert any("This is a fault of croq" in note for note in found.notes), found.render()
    return found


def line_of(file: SourceFile, mark: str) -> int:
    (line,) = (n for n, text in enumerate(file.text.splitlines(), 1) if f"// {mark}" in text)
    return line


@cache
def lowered(name: str, **defines: str) -> Kernel:
    return to_damage(name, **defines)


def to_damage(name: str, **defines: str) -> Kernel:
    """A copy of its own."""
    (kernel,) = compile_file(source(name), Settings.of(defines)).module.kernels
    return kernel


def places(found: Diagnostic) -> set[int]:
    return {span.line for span in (found.span, *(label.span for label in found.labels)) if span is not None}


# ------------------------------------------------------------------------------------------- programs that are wrong
@pytest.mark.parametrize("case", SHIPPED, ids=lambda case: case.name)
def test_shipped_fault_is_found_and_explained(case: Shipped) -> None:
    file = source(case.name)
    errors = [d for d in check_file(file, Settings()) if d.severity == "error"]
    assert errors and errors[0].code == case.code, [d.render() for d in errors]
    found = errors[0]
    assert line_of(file, "fault") in places(found), found.render()
    if "// because" in file.text:
        assert line_of(file, "because") in places(found), found.render()
    text = found.render()
    assert [words for words in case.says if words not in text] == [], text
    assert found.hint


@pytest.mark.parametrize("case", SHIPPED, ids=lambda case: case.name)
def test_repaired_program_is_proved(case: Shipped) -> None:
    verdict = verify_protocol(lowered(case.name, FIXED="1"))
    assert verdict.proved, str(verdict)


def test_loop_of_one_iteration_hangs_in_the_simulator_too() -> None:
    for schedule in SCHEDULES:
        with pytest.raises(SimulationFault) as caught:
            run(lowered("one_iteration"), _gemm(64), schedule=schedule)
        assert caught.value.diagnostics[0].code == "E-5010"
        for trips in (1, 2, 3, 5):
            arrays = _gemm(64 * trips)
            run(lowered("one_iteration", FIXED="1"), arrays, schedule=schedule)
            want = arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32).T
            assert np.allclose(arrays["c"], want, atol=1e-3)


def _gemm(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-2, 3, (64, k)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return {"a": a, "b": b, "c": np.full((64, 64), np.nan, np.float32)}


def test_empty_task_hangs_in_the_simulator_too() -> None:
    rng = np.random.default_rng(0)
    tiles = np.array([2, 0, 0, 1, 3, 0], np.int32)
    first = np.concatenate([[0], np.cumsum(tiles)[:-1]]).astype(np.int32)
    x = rng.integers(-4, 5, (6, 64)).astype(np.float32)
    want = np.full((6, 64), np.nan, np.float32)
    for task, (at, count) in enumerate(zip(first, tiles, strict=True)):
        if count:
            want[task] = x[at : at + count].sum(axis=0)
    for schedule in SCHEDULES:
        arrays = {"x": x, "y": np.full((6, 64), np.nan, np.float32), "first": first, "tiles": tiles}
        with pytest.raises(SimulationFault) as caught:
            run(lowered("arrives_without_waiting"), arrays, schedule=schedule)
        assert caught.value.diagnostics[0].code == "E-5010"
        arrays["y"][:] = np.nan
        run(lowered("arrives_without_waiting", FIXED="1"), arrays, schedule=schedule)
        assert np.array_equal(arrays["y"], want, equal_nan=True)


RACES = [
    ("shared_by_two", {"a": (128, 64), "b": (192, 64), "c": (128, 192)}, {"E-5041", "E-5044"}),
    ("one_operand_buffered", {"a": (64, 256), "b": (64, 256), "c": (64, 64)}, {"E-5042"}),
]


@pytest.mark.parametrize(("name", "shapes", "codes"), RACES, ids=lambda item: item if isinstance(item, str) else "")
def test_one_run_is_enough_for_the_race_detector(
    name: str, shapes: dict[str, tuple[int, int]], codes: set[str]
) -> None:
    """Whatever the schedule, and whether or not the numbers come out right."""
    types = {"c": np.float32}
    for schedule in SCHEDULES:
        arrays = {a: np.ones(shape, types.get(a, ml_dtypes.bfloat16)) for a, shape in shapes.items()}
        with pytest.raises(SimulationFault) as caught:
            run(lowered(name), arrays, schedule=schedule, races=True)
        found = caught.value.diagnostics[0]
        assert found.code in codes, found.render()
        assert line_of(source(name), "fault") in places(found), found.render()
        run(lowered(name, FIXED="1"), arrays, schedule=schedule, races=True)


def test_copied_tile_gets_its_barriers_from_the_compiler() -> None:
    kernel = lowered("shared_copied")
    assert verify_protocol(kernel).proved
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-2, 3, (rows, 64)).astype(ml_dtypes.bfloat16) for rows in (128, 192))
    for schedule in SCHEDULES:
        arrays = {"a": a, "b": b, "c": np.full((128, 192), np.nan, np.float32)}
        run(kernel, arrays, schedule=schedule, races=True)
        assert np.array_equal(arrays["c"], a.astype(np.float32) @ b.astype(np.float32).T)


# ---------------------------------------------------------------------- what croq derives, and what if it did not
def without(kernel: Kernel, kind: type[Op], keep: Callable[[Op], bool]) -> int:
    """Take operations out of lowered IR; how many there were."""
    taken = 0

    def rule(op: Op) -> list[Op] | None:
        nonlocal taken
        if isinstance(op, kind) and not keep(op):
            taken += 1
            return []
        return None

    rewrite_blocks(kernel.body, rule)
    return taken


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("written for the tensor cores", "read by the tensor cores"),
        ("written for the copy engine", "read by the copy engine"),
    ],
)
def test_missing_proxy_fence_is_a_fault_of_the_lowering(written: str, read: str) -> None:
    file = source("ordinary_stores")
    assert verify_protocol(lowered("ordinary_stores")).proved
    kernel = to_damage("ordinary_stores")
    fence_line = line_of(file, read)
    assert without(kernel, ProxyFence, lambda op: op.span is None or op.span.line != fence_line) == 1
    found = blamed("ordinary_stores", kernel)
    assert found.code == "E-6004", found.render()
    assert found.span is not None and found.span.line == line_of(file, read)
    assert line_of(file, written) in {label.span.line for label in found.labels}
    assert "ordinary stores and the async proxy (TMA, WGMMA) see shared memory by different ways" in found.render()
    assert "fence behind the stores, before the barrier" in (found.hint or "")


def test_ordinary_stores_compute_what_they_should() -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-2, 3, (128, 64)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-1, 2, (64, 64)).astype(ml_dtypes.bfloat16)
    want = np.maximum(a.astype(np.float32), 0) @ b.astype(np.float32).T
    for schedule in SCHEDULES:
        arrays = {"a": a, "b": b, "c": np.full((128, 64), np.nan, ml_dtypes.bfloat16)}
        run(lowered("ordinary_stores"), arrays, schedule=schedule)
        assert np.array_equal(arrays["c"].astype(np.float32), want.astype(ml_dtypes.bfloat16).astype(np.float32))


def leave_one_in_flight(kernel: Kernel) -> None:
    """The wait at the end of the loop becomes one too lenient; behind the loop everything is waited for."""
    waits = [op for op in kernel.walk() if isinstance(op, WgmmaWait)]
    assert [op.depth for op in waits] == [1, 0]
    waits[1].depth = 1
    rewrite_blocks(kernel.body, lambda op: [op, replace(waits[1], depth=0)] if isinstance(op, For) else None)


def announced(kernel: Kernel) -> MbarrierExpectTx:
    (expect,) = (op for op in kernel.walk() if isinstance(op, MbarrierExpectTx))
    return expect


def test_wait_that_leaves_one_mma_too_many_in_flight_is_a_fault_of_the_lowering() -> None:
    """The wait behind two MMAs lets one go on, over the back edge, into the statement that rewrites its operand."""
    file = source("operand_in_flight")
    kernel = to_damage("operand_in_flight", FIXED="1")
    leave_one_in_flight(kernel)
    found = blamed("operand_in_flight", kernel, FIXED="1")
    assert found.code == "E-6003", found.render()
    assert places(found) == {line_of(file, "fault"), line_of(file, "because")}, found.render()
    assert "`weights` is touched while an MMA still reads it" in found.message


@pytest.mark.parametrize(("change", "word"), [(-4096, "more"), (+512, "never completes")])
def test_bytes_of_a_clipped_box_are_counted_whole(change: int, word: str) -> None:
    """With the bytes inside the tensor only, the phase completes early; with more than the box has, never."""
    file = source("clipped_box")
    kernel = to_damage("clipped_box")
    expect = announced(kernel)
    assert expect.bytes == 64 * 32 * 4
    assert verify_protocol(kernel).proved
    expect.bytes += change
    found = blamed("clipped_box", kernel)
    assert found.code == "E-6007", found.render()
    assert line_of(file, "the load") in places(found), found.render()
    assert f"expects {expect.bytes} bytes, and its loads bring 8192" in found.message
    assert word in found.render()


@pytest.mark.parametrize("shape", [(64, 32), (37, 32), (64, 8), (100, 44)])
def test_tiles_that_overhang_arrive_whole(shape: tuple[int, int]) -> None:
    rows, columns = (-(-n // tile) * tile for n, tile in zip(shape, (64, 32), strict=True))
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    want = np.zeros((rows, columns), np.float32)
    want[: shape[0], : shape[1]] = x
    for schedule in SCHEDULES:
        y = np.full((rows, columns), np.nan, np.float32)
        run(lowered("clipped_box"), {"x": x, "y": y}, schedule=schedule)
        assert np.array_equal(y, want)


def test_clipped_byte_count_is_caught_by_the_simulator() -> None:
    kernel = to_damage("clipped_box")
    announced(kernel).bytes = 37 * 32 * 4  # the part of the tile that lies inside
    arrays = {"x": np.ones((37, 32), np.float32), "y": np.zeros((64, 32), np.float32)}
    with pytest.raises(SimulationFault) as caught:
        run(kernel, arrays, schedule="lazy")
    assert caught.value.diagnostics[0].code == "E-5015", str(caught.value)


# ------------------------------------------------------------------------------------------------------- the document
def report(name: str) -> Diagnostic:
    """What docs/field-faults.md shows under a name."""
    if any(case.name == name for case in SHIPPED):
        return next(d for d in check_file(source(name), Settings()) if d.severity == "error")
    if name == "wait_depth":
        kernel = to_damage("operand_in_flight", FIXED="1")
        leave_one_in_flight(kernel)
        return blamed("operand_in_flight", kernel, FIXED="1")
    kernel = to_damage(name)
    if name == "ordinary_stores":
        without(kernel, ProxyFence, lambda op: False)
    else:
        announced(kernel).bytes = 37 * 32 * 4  # of a tensor with 37 rows
    return blamed(name, kernel)


def test_document_shows_what_is_printed(golden: Callable[[str, str], None]) -> None:
    text = (FOLDER.parent.parent / "docs" / "field-faults.md").read_text(encoding="utf-8")
    pattern = re.compile(r"(<!-- report: (\w+) -->\n```text\n).*?```", re.DOTALL)
    names = [match[2] for match in pattern.finditer(text)]
    assert {case.name for case in SHIPPED} <= set(names)
    golden(pattern.sub(lambda m: f"{m[1]}{report(m[2]).render()}\n```", text), "docs/field-faults.md")
