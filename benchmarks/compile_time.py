"""How long croq takes as a command, and where a compilation spends its time; reported, not asserted.

    python benchmarks/compile_time.py [KERNEL ...] [--repeat N] [--json]

Every sample is a fresh Python process. Measured, in seconds on the clock and, of commands, of the processors:

    import           `import croq`
    compile, cold    `croq compile KERNEL` with an empty cache
    compile, tables  the same where the parser's tables are kept from an earlier run, the kernel is not
    compile, again   the same where the kernel is kept, too
    check            `croq check KERNEL`

and, in milliseconds, the stages of a cold compilation, as the command gives them. Medians; the first run of all, which
may have Python compile croq itself, does not count. Times on a loaded machine say little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

CROQ = (sys.executable, "-m", "croq")
IMPORT = "import time; t = time.perf_counter(); import croq; print(time.perf_counter() - t)"
TARGETS = {
    ("v4", "compile, cold"): 1.5,
    ("v4", "compile, again"): 0.15,
    ("v4", "check"): 1.0,
    ("v3", "check"): 4.0,
}  # seconds on two idle processors
Sample = tuple[float, float, str]  # on the clock, of the processors, standard output


def run(cache: str, *command: str) -> Sample:
    """One process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env={**os.environ, "CROQ_CACHE_DIR": cache}, capture_output=True, text=True)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def samples(kernel: str) -> dict[str, Sample]:
    """Each measure once."""
    compiling = (*CROQ, "compile", kernel, "--format", "json")
    with tempfile.TemporaryDirectory() as cache:
        found = {"compile, cold": run(cache, *compiling)}
        for path in Path(cache).iterdir():
            if not path.name.startswith("grammar-"):
                path.unlink()
        found["compile, tables"] = run(cache, *compiling)
        found["compile, again"] = run(cache, *compiling)
        found["check"] = run(cache, *CROQ, "check", kernel)
    return found


def measure(kernel: str, repeat: int) -> dict[str, dict[str, float]]:
    runs = [samples(kernel) for _ in range(repeat)]
    stages = [json.loads(one["compile, cold"][2])["seconds"] for one in runs]
    return {
        "clock": {name: median(one[name][0] for one in runs) for name in runs[0]},
        "processors": {name: median(one[name][1] for one in runs) for name in runs[0]},
        "stages": {name: median(one[name] for one in stages) for name in stages[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="time of commands, and of the stages of the compiler")
    parser.add_argument("kernels", nargs="*", default=["v4", "v3"], help="paths, or names of shipped kernels")
    parser.add_argument("--repeat", type=int, default=5, help="samples, each a fresh process")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    samples(arguments.kernels[0])
    imports = [float(run("", sys.executable, "-c", IMPORT)[2]) for _ in range(arguments.repeat)]
    found = {kernel: measure(kernel, arguments.repeat) for kernel in arguments.kernels}
    if arguments.json:
        print(json.dumps({"import": median(imports), "kernels": found}, indent=2))
        return
    print(f"medians of {arguments.repeat} fresh processes; import croq: {1e3 * median(imports):.0f} ms")
    for kernel, measured in found.items():
        print(f"{kernel:<20}{'s':>8}{'cpu s':>8}")
        for name, clock in measured["clock"].items():
            target = TARGETS.get((kernel, name))
            more = f"  target {target} s" if target is not None else ""
            print(f"  {name:<18}{clock:>8.2f}{measured['processors'][name]:>8.2f}{more}")
        for name, seconds in measured["stages"].items():
            print(f"    {name:<16}{1e3 * seconds:>8.0f} ms")


if __name__ == "__main__":
    main()
