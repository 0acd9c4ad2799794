"""Random tile programs, each executed as lowered IR and as the PTX that NVRTC makes of it; needs NVRTC, no GPU.

    python -m tools.fuzz_ptx --count 200                  so many of each family
    python -m tools.fuzz_ptx --family mma --first 1000    one family, from a seed on

Prints each seed at which something is wrong, with its text, and the counts at the end. Exit status 1 when anything was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.random_tiles.tile_trials import FAMILIES, try_sample

SLOW = 20.0  # seconds of one program that are worth a line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append")
    parser.add_argument("--schedule", default="eager", help="as `croq sim` has it")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    for family in given.family or FAMILIES:
        for seed in range(given.first, given.first + given.count):
            started = time.perf_counter()
            trial = try_sample(family, seed, schedule=given.schedule)
            counts[f"{family}: {trial.refused or ('WRONG' if trial.wrong else 'ok')}"] += 1
            if trial.wrong:
                print(f"==== {family} {seed}: {trial.wrong}\n{trial.sample.text}", flush=True)
            if (spent := time.perf_counter() - started) > SLOW:
                print(f"{family} {seed} took {spent:.1f} s", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:6} {what}")
    return int(any("WRONG" in what for what in counts))


if __name__ == "__main__":
    sys.exit(main())
