"""Host time of a launch with PyTorch tensors on a GPU, warm and prepared, and whether a graph captures the first call.

python benchmarks/launch_time.py [launches]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch

import croq

ROUNDS = 5


def microseconds(launch: Callable[[], object], count: int) -> float:
    """The median over rounds of the host time of one call. A full queue of the GPU would block: it is kept short."""
    rounds = []
    for _ in range(ROUNDS):
        spent = 0.0
        for _ in range(count // 100):
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(100):
                launch()
            spent += time.perf_counter() - started
        rounds.append(spent / (count // 100 * 100) * 1e6)
    return statistics.median(rounds)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    kernel = croq.compile("v4")
    shape = (1, 128, 1, 128)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o = torch.zeros_like(q)
    stream = torch.cuda.Stream()
    if not hasattr(kernel, "prepare"):
        print(f"warm: {microseconds(lambda: kernel(q, k, v, o, stream=stream), count):.2f} us")
        return
    prepared = kernel.prepare(q, k, v, o)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kernel(q, k, v, o, stream=stream)  # the first launch of all
    graph.replay()
    torch.cuda.synchronize()
    replayed = o.clone()
    o.zero_()
    torch.cuda.synchronize()
    kernel(q, k, v, o, stream=stream)
    torch.cuda.synchronize()
    assert replayed.abs().sum() > 0 and torch.equal(replayed, o), "the captured launch computed something else"
    print("a graph captured the first launch: yes")
    allocated = torch.cuda.memory_stats()["allocation.all.allocated"]
    print(f"warm:     {microseconds(lambda: kernel(q, k, v, o, stream=stream), count):.2f} us (target 10)")
    print(f"prepared: {microseconds(lambda: prepared(stream), count):.2f} us (target 5)")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == allocated, "a launch allocated"


if __name__ == "__main__":
    main()
