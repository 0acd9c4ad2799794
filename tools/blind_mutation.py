"""A blind sample of faults of emission: drawn, compiled, executed as PTX, and held against the lowered program."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import croq
from croq.driver.nvrtc import compile_ptx, prelude
from tools.blind_mutants import MAKERS, RUNTIME, Change, draw
from tools.blind_subjects import Subject, names, subjects

SCHEDULES = ("eager", "lazy", *(f"random:{seed}" for seed in range(6)))
EACH = 6  # mutants of one subject in a row, so that what is known of it serves several
TRIES = 40  # changes that are drawn for one that compiles
ENOUGH = (
    10,
    20_000,
)  # a mutant counts as endless after so many times the steps of the program as it is, and so many more


@dataclass(frozen=True)
class Outcome:
    """`result`: caught, survived, crashed, or `same` where PTX is that of the program as it is; `found`, `where`."""

    subject: str
    change: Change
    text: str
    result: str
    where: str = ""
    found: str = ""

    def to_json(self) -> str:
        line = {"subject": self.subject, "kind": self.change.kind, "place": self.change.place, "result": self.result}
        at = [self.change.start, self.change.end, self.change.new]
        return json.dumps({**line, "where": self.where, "found": self.found, "change": self.text, "at": at})


def compiled(subject: Subject, change: Change) -> str | None:
    """The PTX of a mutant; None where NVRTC refuses it."""
    headers = dict(prelude())
    (header,) = headers
    cuda = subject.cuda
    if change.place == RUNTIME:
        headers[header] = change.apply(headers[header])
    else:
        cuda = change.apply(cuda)
    try:
        return compile_ptx(cuda, headers=headers)
    except croq.CompileError:
        return None


def renamed(ptx: str) -> str:
    """PTX with its registers and labels numbered as they come: equal for programs that differ in names alone."""
    numbers: dict[str, str] = {}
    return re.sub(r"%[a-z]+\d+\b|\$L\w+", lambda m: numbers.setdefault(m.group(), f"%{len(numbers)}"), ptx)


def judge(subject: Subject, ptx: str) -> tuple[str, str]:
    """The schedule and input under which PTX goes wrong, and what is found; two times nothing when it never does.

    Synchronisation does not depend on the numbers: random ones are tried under the first schedule alone.
    """
    for schedule in SCHEDULES:
        for number, given in enumerate(subject.given):
            if schedule != SCHEDULES[0] and not given.integers:
                continue
            usual = subject.steps.get((schedule, number), 10**6)
            found = subject.execute(ptx, schedule, number, ENOUGH[0] * usual + ENOUGH[1])
            if found:
                return f"{schedule}, input {number}", found
    return "", ""


def usual(subject: Subject) -> str:
    """What a program as it is does wrong: nothing. Measures its steps."""
    return judge(subject, compile_ptx(subject.cuda))[1]


def sample(subject: Subject, rng: random.Random, count: int) -> Iterator[Outcome]:
    """So many mutants of one program that NVRTC takes, each judged."""
    runtime = next(iter(prelude().values()))
    entries = {device.entry_name for device in subject.kernel.devices}
    plain, seen = renamed(compile_ptx(subject.cuda)), set[Change]()
    for _ in range(count * TRIES):
        if count == 0:
            return
        try:
            change = draw(subject.cuda, entries, runtime, rng)
        except LookupError:
            continue
        ptx = compiled(subject, change) if change not in seen else None
        seen.add(change)
        if ptx is None:
            continue
        count -= 1
        text = change.describe(runtime if change.place == RUNTIME else subject.cuda)
        if renamed(ptx) == plain:
            yield Outcome(subject.name, change, text, "same")
            continue
        where, found = judge(subject, ptx)
        yield Outcome(subject.name, change, text, _result(found), where, found)


def again(record: Path) -> int:
    """Judge once more the survivors of a record. The number that survive."""
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    chosen = [line for line in lines if line["result"] in ("survived", "crashed")]
    left = 0
    for name in dict.fromkeys(line["subject"].partition(":")[0] for line in chosen):
        for subject in subjects(name):
            print(f"{usual(subject) or 'agrees'}  {subject.name} as it is", flush=True)
            for line in (line for line in chosen if line["subject"] == subject.name):
                change = Change(line["kind"], line["place"], *line["at"])
                where, found = judge(subject, compiled(subject, change) or "")
                left += _result(found) != "caught"
                print(f"{_result(found):9s} {subject.name}  {line['change']}  {where}: {found[:120]}", flush=True)
    print(f"{left} of {len(chosen)} survive")
    return left


def _result(found: str) -> str:
    if found.startswith("CRASH"):
        return "crashed"
    return "caught" if found else "survived"


def blind(count: int, seed: int, only: str, record: Path) -> int:
    """Draw programs, then changes of them, until `count` mutants were executed. How many were not caught.

    Every outcome is a line of JSON in the file `record`.
    """
    rng = random.Random(seed)
    chosen = [name for name in names() if only in name]
    rng.shuffle(chosen)
    results: Counter[tuple[str, str]] = Counter()
    with record.open("a", encoding="utf-8") as log:
        for name in cycle(chosen):
            for outcome in (o for subject in subjects(name) for o in _mutants(subject, rng)):
                results[outcome.change.kind, outcome.result] += 1
                print(outcome.to_json(), file=log, flush=True)
                print(f"{outcome.result:9s} {outcome.subject}  {outcome.change.kind}  {_short(outcome)}", flush=True)
            if sum(n for (_, result), n in results.items() if result != "same") >= count:
                break
    _table(results)
    return sum(n for (_, result), n in results.items() if result in ("survived", "crashed"))


def _mutants(subject: Subject, rng: random.Random) -> Iterator[Outcome]:
    wrong = usual(subject)
    if not wrong:
        return sample(subject, rng, EACH)
    print(f"DISAGREES {subject.name} as it is: {wrong}", flush=True)
    return iter(())


def _table(results: Counter[tuple[str, str]]) -> None:
    columns = ("caught", "same", "survived", "crashed")
    print(f"{'':26s}" + "".join(f"{c:>10s}" for c in columns))
    for kind in [*sorted(MAKERS), ""]:
        row = [sum(n for (k, r), n in results.items() if r == c and (not kind or k == kind)) for c in columns]
        print(f"{kind or 'all':26s}" + "".join(f"{n:10d}" for n in row))


def _short(outcome: Outcome) -> str:
    return outcome.text if outcome.result == "survived" else f"{outcome.where}: {outcome.found[:90]}"
