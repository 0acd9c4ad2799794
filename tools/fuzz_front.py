"""Mutates programs and says which of them croq does not answer in words.

Whatever the text: no traceback, no fault of croq (E-9001), no hang, and no message of the CUDA compiler without a place
in the `.co` file. Subjects are the shipped kernels, the programs of the tests, and the reported inputs.

    python -m tools.fuzz_front --trials 2000 --seed 7 [--nvrtc 20] [--jobs 2] [--save FOLDER]

`--nvrtc N` hands every Nth program that compiles to NVRTC. Exit status 1 when something was found.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from croq.compiler import compile_file
from croq.diagnostics import CroqError, Diagnostic
from croq.kernel import check_file
from croq.settings import Settings
from croq.syntax import source_text

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("kernels", "tests/programs", "tests/cases", "tests/reported/programs")
LIMIT = 20  # seconds that one program may take
TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|//[^\n]*|[A-Za-z_]\w*'
    r"|\d[\w.]*|\s+|::|=>|[<>=!]=|&&|\|\||<<|>>|\+\+|--|.",
    re.DOTALL,
)
_NUMBERS = """
    0 1 -1 2 3 7 31 32 33 64 127 128 129 255 256 257 1024 65536 2147483647 2147483648 4294967295 4294967296
    9223372036854775807 0.0f 1e38f 1e-46f 0x7f inf 1u 3ll
"""
NUMBERS = tuple(_NUMBERS.split())
_TYPES = """
    f32 f16 bf16 f64 tf32 f8_e4m3 f8_e5m2 s8 u8 s16 u16 s32 u32 s64 u64 bool int float f4_e2m1
"""
TYPES = tuple(_TYPES.split())
_WORDS = """
    wait trigger after foreach in parallel by block thread group-4 shared frag event ready mutable if else
    while break continue return call mma tma dma => # _ inthreads .async .at .span cdiv __max __to<f32> max x
    p t ; , { }
"""
WORDS = tuple(_WORDS.split())

Change = Callable[[list[str], random.Random], None]


class TooLong(Exception):
    """A program took longer than `LIMIT`."""


@dataclass(frozen=True)
class Finding:
    """What went wrong, and the text that shows it."""

    kind: str
    detail: str
    text: str


def subjects() -> list[str]:
    return [path.read_text(encoding="utf-8") for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.co"))]


# ------------------------------------------------------------------------------------------------------------- changes
def _solid(tokens: Sequence[str]) -> list[int]:
    return [i for i, token in enumerate(tokens) if not token.isspace() and not token.startswith("//")]


def delete(tokens: list[str], rng: random.Random) -> None:
    del tokens[rng.choice(_solid(tokens))]


def double(tokens: list[str], rng: random.Random) -> None:
    at = rng.choice(_solid(tokens))
    tokens.insert(at, tokens[at])


def swap(tokens: list[str], rng: random.Random) -> None:
    a, b = rng.choice(_solid(tokens)), rng.choice(_solid(tokens))
    tokens[a], tokens[b] = tokens[b], tokens[a]


def insert(tokens: list[str], rng: random.Random) -> None:
    tokens.insert(rng.choice(_solid(tokens)), f" {rng.choice(WORDS + NUMBERS + TYPES)} ")


def number(tokens: list[str], rng: random.Random) -> None:
    places = [i for i, token in enumerate(tokens) if token[0].isdigit()]
    if places:
        tokens[rng.choice(places)] = rng.choice(NUMBERS)


def type_(tokens: list[str], rng: random.Random) -> None:
    places = [i for i, token in enumerate(tokens) if token in TYPES]
    if places:
        tokens[rng.choice(places)] = rng.choice(TYPES)


def name(tokens: list[str], rng: random.Random) -> None:
    """One name for another of the program: the most fruitful change, because the result parses."""
    places = [i for i, token in enumerate(tokens) if token[0].isalpha() and token not in WORDS + TYPES]
    if places:
        tokens[rng.choice(places)] = tokens[rng.choice(places)]


def operator(tokens: list[str], rng: random.Random) -> None:
    signs = ("+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "^", "#", "<<", ">>")
    places = [i for i, token in enumerate(tokens) if token in signs]
    if places:
        tokens[rng.choice(places)] = rng.choice(signs)


def statement(tokens: list[str], rng: random.Random) -> None:
    """A statement goes elsewhere, twice or away."""
    ends = [i for i, token in enumerate(tokens) if token in (";", "{", "}")]
    if len(ends) < 3:
        return
    at = rng.randrange(len(ends) - 1)
    piece = tokens[ends[at] + 1 : ends[at + 1] + 1]
    if rng.random() < 0.7:
        del tokens[ends[at] + 1 : ends[at + 1] + 1]
    if rng.random() < 0.7:
        target = rng.randrange(len(ends))
        place = min(ends[target] + 1, len(tokens))
        tokens[place:place] = piece


CHANGES: tuple[Change, ...] = (delete, double, swap, insert, number, number, type_, type_, name, name, name, operator,
                               statement, statement)  # fmt: skip


def mutated(text: str, rng: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(CHANGES)(tokens, rng)
    return "".join(tokens)


# ------------------------------------------------------------------------------------------------------------- verdicts
def findings(text: str, *, nvrtc: bool = False, check: bool = True, limit: int = LIMIT) -> list[Finding]:
    """What croq does with a text that it should not."""

    def stop(*_: Any) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    try:
        return list(_tried(text, nvrtc, check))
    except TooLong:
        return [Finding("hang", f"longer than {limit} s", text)]
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
        return [Finding("traceback", f"{type(error).__name__}: {error} at {where}", text)]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _tried(text: str, nvrtc: bool, check: bool) -> Iterator[Finding]:
    file = source_text("fuzz.co", text)
    settings = Settings.of({})
    diagnostics: Sequence[Diagnostic] = ()
    try:
        made = compile_file(file, settings, lambda *_: None)  # an observer: nothing comes from the cache
        if nvrtc and made.cuda:
            _ = made.image
        if check:
            diagnostics = check_file(file, settings)
    except CroqError as error:
        diagnostics = error.diagnostics
    for found in diagnostics:
        found.render()
        if found.code in ("E-9001", "E-5099", "E-2190"):
            yield Finding(found.code, found.message, text)
        elif found.code == "E-3010" and found.span is None:
            yield Finding("E-3010 without a place", " ".join((found.message, *found.notes)), text)


def trials(seed: int, count: int, nvrtc: int, *, check: bool = True, limit: int = LIMIT) -> Iterator[Finding]:
    rng = random.Random(seed)
    texts = subjects()
    for number in range(count):
        text = mutated(rng.choice(texts), rng)
        yield from findings(text, nvrtc=nvrtc > 0 and number % nvrtc == 0, check=check, limit=limit)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nvrtc", type=int, default=10)
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args(arguments)
    kinds: Counter[str] = Counter()
    for found in trials(asked.seed, asked.trials, asked.nvrtc, check=not asked.no_check):
        key = f"{found.kind}: {found.detail[:160]}"
        kinds[key] += 1
        if kinds[key] == 1:
            print(key, flush=True)
            if asked.save is not None:
                asked.save.mkdir(parents=True, exist_ok=True)
                (asked.save / f"{asked.seed}_{len(kinds)}.co").write_text(f"// {key}\n{found.text}", encoding="utf-8")
    for key, times in kinds.most_common():
        print(f"{times:5d}  {key}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
