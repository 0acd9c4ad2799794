"""Kernels that are wrong on purpose, for tools/device_mutants.py: which ones, their cubins, and what croq says of them.

All of this runs without a GPU. `build` writes a folder: a cubin of each mutant and of each kernel as it is, and
`mutants.json`, which describes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from croq.compiler import compile_file
from croq.diagnostics import Diagnostic, Sink
from croq.driver.cache import compile_cached
from croq.emit import emit_cuda, signature
from croq.ir.build import build as build_ir
from croq.ir.objects import Kernel
from croq.passes import pipeline
from croq.sema import analyse
from croq.settings import Settings
from croq.simulate import SimulationFault
from croq.simulate import run as simulate
from croq.source import SourceFile
from croq.syntax import parse_program
from croq.texts import load
from croq.verify import verify_protocol
from tools.mutants.lowered import LoweredMutant, lowered_mutants, make
from tools.mutants.model import apply_edits
from tools.mutants.source import SourceMutant, source_mutants
from tools.mutants.subjects import subjects

ROOT = Path(__file__).resolve().parent.parent
WATCHDOG = 0.5  # seconds; a launch takes a thousandth of it
SAME, WRONG = "the same numbers", "wrong numbers"  # what is predicted, beside hangs and what is not guaranteed


@dataclass(frozen=True)
class Choice:
    """One of the mutants that tools/mutants makes: of those whose id (without the kernel) and description fit, the
    first behind `skip` others."""

    kernel: str
    what: str
    text: str = ""
    skip: int = 0


CHOICES = (
    Choice("v4", "trigger-early", "`trigger ke.at(k_pipe_order++)` moved before `wait qk`"),
    Choice("v4", "trigger-early", "`trigger ve.at(v_pipe_order++)` moved before `wait pv`"),
    Choice("v4", "wait-removed", "`wait ke.at(k_pipe_order)` removed"),
    Choice("v4", "mbarrier.wait(qf):removed"),
    Choice("v4", "mbarrier.wait(vf):removed"),
    Choice("v4", "mbarrier.init(ke):count-1"),
    Choice("v4", "mbarrier.expect_tx(kf):bytes+16"),
    Choice("v4", "mbarrier.arrive(ve):removed"),
    Choice("v4", "wgmma.wait:depth+1", "1 MMA groups may be pending, not 0", skip=1),
    Choice("v4", "fence.proxy_async:removed"),
    Choice("v2", "not-ready:ke"),
    Choice("v2", "named_barrier.sync:removed"),
    Choice("v2", "bulk.wait:removed"),
    Choice("v2", "wgmma.issue:b-slot+1", "`k_buf` one slot further"),
    Choice("gemm_ring", "trigger-early", "`trigger empty.at(order++)` moved before `wait step`"),
    Choice("gemm_ring", "order+1", "`full.at(order)` one generation later"),
    Choice("gemm_ring", "mbarrier.wait(full):removed"),
    Choice("gemm_ring", "mbarrier.arrive(empty):slot+1"),
)
KERNELS = tuple(dict.fromkeys(choice.kernel for choice in CHOICES))


@dataclass(frozen=True)
class Entry:
    """A mutant in DIR, and what croq says of it. `certain`: all schedules that were tried end as `predicted` says."""

    id: str
    kernel: str
    description: str
    refused: str  # by the static rules
    verdict: str  # of the protocol verifier
    predicted: str
    events: tuple[str, ...] = ()  # at which it hangs, or may
    certain: bool = False
    cubin: str = ""  # none for a mutant that could not be built, and `predicted` says why
    remarks: tuple[str, ...] = ()  # of the CUDA compiler, which may have put synchronisation in


def build(folder: Path, only: str) -> int:
    """Build and describe the mutants whose ids contain `only`; 1 when one could not be built."""
    folder.mkdir(parents=True, exist_ok=True)
    bases = {kernel: Base(kernel) for kernel in KERNELS}
    kernels: dict[str, Any] = {}
    for name, base in bases.items():
        write(folder / f"{name}.cubin", base.compilation.image.cubin)
        path = base.subject.path.relative_to(ROOT).as_posix()
        about = {"path": path, "function": base.subject.kernel, "defines": dict(base.subject.defines)}
        kernels[name] = about | {"digest": digest(base.compilation.cuda), "cubin": f"{name}.cubin"}
    entries = []
    for choice in CHOICES:
        started = time.perf_counter()
        entry = _entry(bases[choice.kernel], choice, folder)
        if only in entry.id:
            entries.append(entry)
            state = "built" if entry.cubin else "FAIL "
            said = "; ".join((entry.predicted, *entry.remarks))
            print(f"{state} {time.perf_counter() - started:5.1f} s  {entry.id:42s} {said}", flush=True)
    manifest = {"watchdog": WATCHDOG, "kernels": kernels, "mutants": [asdict(entry) for entry in entries]}
    write(folder / "mutants.json", (json.dumps(manifest, indent=1) + "\n").encode())
    return 0 if all(entry.cubin for entry in entries) else 1


class Base:
    """A kernel as it is, and its mutants."""

    def __init__(self, name: str) -> None:
        self.subject = next(subject for subject in subjects() if subject.name == name)
        self.settings = Settings.of(self.subject.defines, watchdog=WATCHDOG)
        self.compilation = compile_file(load(self.subject.path), self.settings)
        (self.kernel,) = self.compilation.functions[self.subject.kernel]
        source = source_mutants(self.compilation.program, self.subject.kernel, name)
        self.mutants: list[SourceMutant | LoweredMutant] = [*source, *lowered_mutants(self.kernel, name)]

    def find(self, choice: Choice) -> SourceMutant | LoweredMutant:
        """The mutant. Raises LookupError."""
        wanted = re.compile(rf"[^:]+:[SL]:{re.escape(choice.what)}(:[^#]*)?(#\d+)?\Z")
        found = [m for m in self.mutants if wanted.match(m.mutant.id) and choice.text in m.mutant.description]
        if len(found) <= choice.skip:
            raise LookupError(f"{choice.kernel} has no mutant `{choice.what}` {choice.text}".rstrip())
        return found[choice.skip]

    def make(self, wanted: SourceMutant | LoweredMutant) -> tuple[Kernel, str]:
        """The mutant's kernel, and the code of the static rule that refuses it, whose refusal is passed over."""
        if isinstance(wanted, LoweredMutant):
            return make(self.kernel, wanted), ""
        file = SourceFile(self.compilation.file.name, apply_edits(self.compilation.file.text, wanted.edits))
        kernels, refused = lower_all_the_same(file, dict(self.settings.defines))
        return next(kernel for kernel in kernels if kernel.name == self.kernel.name), refused


def lower_all_the_same(file: SourceFile, defines: Mapping[str, str]) -> tuple[list[Kernel], str]:
    """The kernels of a text through all stages, whatever the rules say, and the code of the first that refuses it."""
    refusals: list[str] = []

    class Deaf(Sink):
        """Hears errors, and lets the stages go on."""

        def add(self, diagnostic: Diagnostic) -> None:
            if diagnostic.severity == "error":
                refusals.append(diagnostic.code)

    sink = Deaf()
    module = build_ir(analyse(parse_program(file, dict(defines), sink), sink), sink)
    pipeline.run(module, sink)
    return module.kernels, refusals[0] if refusals else ""


def _entry(base: Base, choice: Choice, folder: Path) -> Entry:
    """Builds the mutant; whatever is in the way is said in the entry, and keeps no other from being built."""
    name, about = f"{choice.kernel}:{choice.what}", ""
    try:
        wanted = base.find(choice)
        name, about = wanted.mutant.id, wanted.mutant.description
        kernel, refused = base.make(wanted)
        if _frame(kernel) != _frame(base.kernel):
            raise ValueError("it has other parameters or another layout than the kernel as it is")
        compiled = compile_cached(emit_cuda([kernel]), options=base.settings.options)
        file = re.sub(r"\W+", "-", name) + ".cubin"
        verdict, predicted, events, certain = predict(base, kernel)
        write(folder / file, compiled.cubin)
    except Exception as error:
        return Entry(name, choice.kernel, about, "", "", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    remarks = tuple(warning.message for warning in compiled.warnings)
    return Entry(name, choice.kernel, about, refused, verdict, predicted, events, certain, file, remarks)


def _frame(kernel: Kernel) -> tuple[Any, ...]:
    """What the host must know: with it, the kernel as it is stands for the mutant at the launch and in reports."""
    arguments = [(a.kind, a.type, a.map and (a.map.param.name, a.map.box, a.map.swizzle)) for a in signature(kernel)]
    events = [(e.name, e.slots, e.offset, e.lowering) for e in kernel.events]
    return kernel.threads, kernel.shared_bytes, [str(dim) for dim in kernel.grid], arguments, events


def predict(base: Base, kernel: Kernel) -> tuple[str, str, tuple[str, ...], bool]:
    """The verifier's verdict, and what that and the simulator let expect: text, events of a hang, whether certain."""
    verdict = verify_protocol(kernel)
    label = verdict.found[0].code if verdict.outcome == "fault" else verdict.outcome
    ends = [_simulated(base, kernel, schedule) for schedule in ("eager", "lazy")]
    events = tuple(dict.fromkeys(event for end in ends if isinstance(end, tuple) for event in end))
    names = ", ".join(f"`{event}`" for event in events)
    if all(isinstance(end, tuple) for end in ends):
        return label, f"hangs at {names}", events, True
    if all(end == "wrong" for end in ends):
        return label, WRONG, (), False
    if verdict.proved:
        return label, SAME, (), False
    may = f"; may hang at {names}" if events else "; may hang" if label in ("E-6006", "E-6008") else ""
    return label, f"nothing is guaranteed{may}", events, False


def _simulated(base: Base, kernel: Kernel, schedule: str) -> str | tuple[str, ...]:
    """How the simulator ends: events at which the kernel hangs, or `wrong`, `same`, or the code of another fault."""
    run = base.subject.runs[-1] if base.subject.name == "gemm_ring" else base.subject.runs[0]
    want, scalars = run.make()
    got, _ = run.make()
    simulate(base.kernel, want, scalars)
    try:
        simulate(kernel, got, scalars, schedule=schedule)
    except SimulationFault as fault:
        found = fault.diagnostics[0]
        if found.code != "E-5010":
            return found.code
        text = "\n".join([*(label.message for label in found.labels), *found.notes])
        return tuple(dict.fromkeys(re.findall(r"waits? for `(\w+)(?:\[\d+\])?` to complete", text)))
    return "same" if all(got[name].tobytes() == want[name].tobytes() for name in want) else "wrong"


# -------------------------------------------------------------------------------------------------------------- files
def read_manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "mutants.json").read_text(encoding="utf-8"))
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    draft.replace(path)
