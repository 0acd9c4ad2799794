"""Makes every single-edit mutant of the kernels' synchronisation, and says what catches it.

    python -m tools.mutate                              all kernels of kernels/ and tests/cases
    python -m tools.mutate --kernel v4 --only lowered   mutants of the IR after all passes, of one kernel
    python -m tools.mutate --sample 50 --every          50 of them; every tool is asked, not only up to the first

A mutant goes to the static rules, then to the protocol verifier, then to the simulator, under several schedules and on
sizes with several trip counts; its results are compared with those of the kernel as it is. What survives all of them
must be listed in docs/mutants.md with the argument why it is no fault. Exit status 1 when one is not, when a tool dies,
or when the kernel itself is refused.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.mutants import report
from tools.mutants.baseline import baseline_of
from tools.mutants.model import Kind, Outcome
from tools.mutants.subjects import subjects
from tools.mutants.sweep import KINDS, plan, sweep

ROOT = Path(__file__).resolve().parent.parent

DOCUMENT = ROOT / "docs" / "mutants.md"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    names = [s.name for s in subjects(options.programs)]
    wanted = [n for n in names if not options.kernel or n in options.kernel]
    if unknown := set(options.kernel) - set(names):
        print(f"no kernel is called {', '.join(sorted(unknown))}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    kinds: tuple[Kind, ...] = (options.only,) if options.only else KINDS
    mutants = plan(wanted, kinds, options.sample)
    refused = False
    for name in dict.fromkeys(m.kernel for m in mutants):
        for refusal in baseline_of(name).refusals:
            refused = True
            print(f"{name} is refused as it is by {refusal}")
    known = report.listed(DOCUMENT)
    started = time.perf_counter()

    def show(outcome: Outcome) -> None:
        if not options.quiet:
            print(report.row(outcome, known), flush=True)

    outcomes = sweep(mutants, options.processes, options.every, show)
    return _conclude(outcomes, known, refused, options.json, time.perf_counter() - started)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--only", choices=KINDS, help="only mutants of the text, or of the lowered IR")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, the same ones every time")
    parser.add_argument("--every", action="store_true", help="ask every tool, not only up to the first that objects")
    parser.add_argument("--programs", action="store_true", help="the programs of tests/programs too")
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there")
    parser.add_argument("--quiet", action="store_true", help="no line for each mutant")
    return parser.parse_args(arguments)


def _conclude(outcomes: list[Outcome], known: set[str], refused: bool, json: Path | None, seconds: float) -> int:
    if json is not None:
        report.write_json(outcomes, json)
    print(f"\n{report.summary(outcomes)}\n{seconds:.0f} s")
    for name in report.stale(outcomes, known):
        print(f"{name} is listed in docs/mutants.md and is no survivor")
    bad = report.unaccounted(outcomes, known)
    for outcome in bad:
        print(f"{report.verdict(outcome, known)}: {outcome.mutant.id}: {outcome.mutant.description}")
        if outcome.message:
            print(f"    {outcome.message}")
    if not bad and not refused:
        print("every mutant is caught or accounted for")
    return 1 if bad or refused else 0


if __name__ == "__main__":
    sys.exit(main())
