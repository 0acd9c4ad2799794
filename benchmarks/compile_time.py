"""How long croq takes, from an import to a cubin; reported, not asserted.

    python benchmarks/compile_time.py [KERNEL ...] [--repeat N] [--json]

Every sample is a fresh Python process with its own empty cubin cache. Measured, in milliseconds:

    import       `import croq`
    parse ... emit   the stages of the pipeline, without checks between passes, and their sum `to cuda`
    nvrtc        CUDA to cubin
    cached       the same text to a cubin in a second process that finds it in the cache, all stages included
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from statistics import median

SAMPLE = """
import json, sys, time
began = time.perf_counter()
import croq
imported = time.perf_counter()
from croq.compiler import compile_file
from croq.settings import Settings
from croq.texts import load
made = compile_file(load(sys.argv[1]), Settings.of(verify=False))
front = dict(made.seconds)
to_cuda = time.perf_counter()
made.cubin
ended = time.perf_counter()
print(json.dumps({"import": imported - began, **front, "to cuda": to_cuda - imported, "nvrtc": ended - to_cuda,
                  "total": ended - began}))
"""


def sample(kernel: str, cache: str) -> dict[str, float]:
    """Seconds of each stage in one fresh process."""
    environment = {**os.environ, "CROQ_CACHE_DIR": cache}
    run = subprocess.run(
        [sys.executable, "-c", SAMPLE, kernel], env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(f"{kernel} does not compile:\n{run.stderr}")
    seconds: dict[str, float] = json.loads(run.stdout)
    return seconds


def measure(kernel: str, repeat: int) -> dict[str, float]:
    """Median milliseconds of each stage over `repeat` cold samples, and of the whole with a warm cache."""
    cold, warm = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(sample(kernel, cache))
            warm.append(sample(kernel, cache))
    stages = {stage: 1e3 * median(run[stage] for run in cold) for stage in cold[0]}
    return stages | {"cached": 1e3 * median(run["total"] for run in warm)}


def main() -> None:
    parser = argparse.ArgumentParser(description="time of each stage of the compiler")
    parser.add_argument("kernels", nargs="*", default=["v4"], help="paths, or names of shipped kernels")
    parser.add_argument("--repeat", type=int, default=5, help="samples, each a fresh process")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    found = {kernel: measure(kernel, arguments.repeat) for kernel in arguments.kernels}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for kernel, stages in found.items():
        print(f"{kernel}: median milliseconds of {arguments.repeat} fresh processes")
        for stage, milliseconds in stages.items():
            print(f"  {stage:<10}{milliseconds:>10.1f}")


if __name__ == "__main__":
    main()
