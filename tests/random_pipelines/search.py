"""Many more programs than the suite tries: `python -m tests.random_pipelines.search --programs 500 --all-faults`.

Prints each seed at which something is wrong with its text, and the counts at the end. Exit status 1 when anything was.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter

from croq.verify import Options
from tests.random_pipelines.pipeline_plans import draw
from tests.random_pipelines.pipeline_text import render
from tests.random_pipelines.pipeline_trials import broken_ways, caught_by, try_program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--all-faults", action="store_true", help="every fault of each program, not one")
    parser.add_argument("--no-faults", action="store_true")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    bad = 0
    for seed in range(given.first, given.first + given.programs):
        start = time.perf_counter()
        trial = try_program(seed, sizes=range(4), schedules=("eager", "lazy", f"random:{seed}"), options=Options())
        counts["undecided" if trial.undecided else "wrong" if trial.wrong else "proved"] += 1
        if trial.undecided:
            print(f"seed {seed} is not decided: {trial.undecided}", flush=True)
        for found in trial.wrong[:1]:
            bad += 1
            print(f"==== seed {seed}: {found}\n{trial.text}\n{trial.plan}", flush=True)
        spent = time.perf_counter() - start
        if spent > 10:
            print(f"seed {seed} took {spent:.1f} s", flush=True)
        if given.no_faults or trial.wrong:
            continue
        ways = broken_ways(seed)
        for way in ways if given.all_faults else random.Random(seed).sample(ways, 1):
            code = caught_by(seed, way)
            counts[f"{way.name.split(':')[0]} -> {code or 'NOT CAUGHT'}"] += 1
            if not code:
                bad += 1
                text = render(way.lines, draw(seed))
                print(f"==== seed {seed}, not caught: {way.name}\n{text}\n{draw(seed)}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:6} {what}")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
