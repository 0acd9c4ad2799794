"""Damaged programs give diagnostics, never an exception of Python or broken IR."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from croq.diagnostics import CompileError, Sink
from croq.ir.build import build
from croq.ir.verify import verify
from croq.sema import analyse
from croq.source import SourceFile
from croq.syntax import parse_program

ROOT = Path(__file__).parents[2]
PROGRAMS = [path.read_text() for path in sorted([*ROOT.glob("kernels/*.co"), *ROOT.glob("tests/cases/*.co")])]
TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
WORDS = sorted({token for text in PROGRAMS for token in TOKEN.findall(text) if not token.isspace()})


def damaged(rng: random.Random) -> str:
    tokens = TOKEN.findall(rng.choice(PROGRAMS))
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(tokens))
        kind = rng.randrange(3)
        if kind == 0:
            tokens[place] = rng.choice(WORDS)
        elif kind == 1:
            del tokens[place]
        else:  # a statement is lost
            end = next((k for k in range(place, len(tokens)) if tokens[k] == ";"), place)
            del tokens[place : end + 1]
    return "".join(tokens)


@pytest.mark.parametrize("seed", range(100))
def test_damaged_program(seed: int) -> None:
    sink = Sink()
    try:
        program = parse_program(SourceFile("damaged.co", damaged(random.Random(seed))), {}, sink)
        module = build(analyse(program, sink), sink)
    except CompileError as fault:
        assert any(d.severity == "error" for d in fault.diagnostics)
        return
    for kernel in module.kernels:
        verify(kernel, "tile")
