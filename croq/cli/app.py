"""The commands. Each says what it takes and hands over; nothing is decided here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from croq.cli.options import Argument, Option
from croq.cli.session import Session, command

File = Annotated[str, Argument(help="A path, `-`, or the bare name of a shipped kernel: v1, v2, v3, v4, v5.")]
FunctionName = Annotated[
    str | None, Option("--kernel", metavar="NAME", help="Which __co__ function, where a file has several.")
]
Seed = Annotated[int, Option(help="Seed of the inputs.", least=0)]
Batch = Annotated[int, Option(least=1)]
Heads = Annotated[int, Option(least=1)]
HeadDim = Annotated[int, Option(help="Elements of a head.", least=1)]
Warmup = Annotated[int, Option(help="Executions before timing.", least=0)]
Repeat = Annotated[int, Option(help="Executions a round.", least=1)]
Rounds = Annotated[int, Option(help="Rounds of timing.", least=1)]
Schedule = Annotated[
    str,
    Option(metavar="eager|lazy|random:SEED|hostile[:K]", help="When asynchronous operations complete (simulator)."),
]
Kind = Literal["ast", "tile-ir", "ir", "plan", "cuda", "ptx", "cubin", "sass", "sass-stats"]


@command
def compile(
    session: Session,
    file: File,
    emit: Annotated[Kind | None, Option(help="Print one stage instead of the summary.")] = None,
    after: Annotated[str | None, Option(metavar="PASS", help="Print the IR after this pass.")] = None,
    out: Annotated[
        str | None, Option("-o --out", metavar="PATH", help="Folder for all files; file for --emit.")
    ] = None,
    lineinfo: Annotated[bool, Option("--lineinfo", help="Keep line tables for profilers.")] = False,
    verify: Annotated[
        bool, Option("--verify --no-verify", help="Prove the lowered synchronisation before it is emitted.")
    ] = True,
    why: Annotated[
        bool, Option("--why", help="With --emit cuda: the rule beside each barrier, fence, wait and election.")
    ] = False,
    fail_on_spill: Annotated[
        bool, Option("--fail-on-spill", help="Spilled registers and arrays in local memory are errors.")
    ] = False,
    fail_on_serialized: Annotated[
        bool, Option("--fail-on-serialized", help="It is an error if ptxas serialises WGMMA or ignores `setreg`.")
    ] = False,
) -> int:
    """Compile to CUDA and cubin."""
    from croq.cli.compiling import SERIALISED, SPILLED, compile_and_show

    never = (*(SPILLED if fail_on_spill else ()), *(SERIALISED if fail_on_serialized else ()))
    return compile_and_show(session, file, emit, after, out, lineinfo=lineinfo, verify=verify, why=why, never=never)


@command
def opt(
    session: Session,
    file: Annotated[str, Argument(help="Printed IR: a path, or `-`.")],
    passes: Annotated[str, Option(metavar="A,B,..", help="The passes, in their order in the pipeline.")] = "",
    out: Annotated[str | None, Option("-o --out", metavar="PATH", help="Where the IR goes.")] = None,
) -> int:
    """Run passes on printed IR, and print it again."""
    from croq.cli.compiling import resume_and_show

    return resume_and_show(session, file, passes, out)


@command
def plan(session: Session, file: File, json: Annotated[bool, Option("--json", help="Print JSON.")] = False) -> int:
    """Show what was derived, and why: barriers, wait depths, layouts, tensor maps, registers."""
    from croq.cli.compiling import show_plan

    return show_plan(session, file, json)


@command
def check(
    session: Session,
    file: File,
    ptx: Annotated[
        bool, Option("--ptx", help="Also execute the PTX of the emitted CUDA, and compare (needs NVRTC).")
    ] = False,
) -> int:
    """Apply every static rule, then verify the synchronisation protocol. Needs no compiler and no GPU."""
    from croq.cli.compiling import check_and_show

    return check_and_show(session, file, ptx=ptx)


@command
def sim(
    session: Session,
    file: File,
    shape: Annotated[
        list[str] | None, Option("--shape", metavar="SYM=N", help="The value of a symbolic dimension.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        Option("--arg", metavar="NAME=VALUE", help="A parameter: a number, or a .npy file. Default: random."),
    ] = None,
    save: Annotated[
        list[str] | None,
        Option("--save", metavar="NAME=FILE", help="Write a parameter to a .npy file afterwards."),
    ] = None,
    schedule: Schedule = "eager",
    schedules: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Run N schedules (eager, lazy, hostile ones, random seeds) up to the first fault.",
            least=1,
        ),
    ] = None,
    races: Annotated[bool, Option("--races --no-races", help="Look for accesses that nothing orders.")] = True,
    jobs: Annotated[int | None, Option(metavar="N", help="Processes for --schedules. Default: 2.", least=1)] = None,
    tiles: Annotated[int | None, Option(metavar="N", help="Simulate N blocks, spread over the grid.", least=1)] = None,
    seed: Seed = 42,
    kernel: FunctionName = None,
    level: Annotated[
        Literal["ir", "ptx"], Option(help="What is executed: the lowered IR, or the PTX of the emitted CUDA.")
    ] = "ir",
    timeline: Annotated[
        list[str] | None,
        Option("--timeline", metavar="FILE", help="Write a block's timeline: a trace (.json), a picture (.svg)."),
    ] = None,
    timeline_block: Annotated[str | None, Option(metavar="X,Y,Z", help="Of which block. Default: 0,0,0.")] = None,
    timeline_steps: Annotated[int, Option(metavar="N", help="Iterations of inner loops to show.", least=1)] = 8,
) -> int:
    """Execute on the CPU, with the chip's asynchrony; reports races, deadlocks and lost phases."""
    from croq.cli.sim import SimRequest, simulate_and_show
    from croq.cli.timelines import TimelineRequest

    shown = TimelineRequest.of(timeline or [], timeline_block, timeline_steps)
    request = SimRequest(schedule, schedules, races, jobs, tiles, seed, shown, level)
    return simulate_and_show(session, file, kernel, shape or [], arg or [], save or [], request)


@command
def run(
    session: Session,
    file: File = "v4",
    seq: Annotated[int, Option(help="Length of the sequence.", least=1)] = 8192,
    batch: Batch = 4,
    heads: Heads = 32,
    dim: HeadDim = 128,
    causal: Annotated[bool, Option("--causal --no-mask", help="What the kernel computes.")] = True,
    warmup: Warmup = 50,
    repeat: Repeat = 200,
    rounds: Rounds = 3,
    device: Annotated[
        Literal["auto", "gpu", "sim"], Option(help="auto: the simulator where there is no GPU.")
    ] = "auto",
    tiles: Annotated[int | None, Option(metavar="N", help="Simulate N query tiles.", least=1)] = None,
    schedule: Schedule = "eager",
    seed: Seed = 42,
    kernel: FunctionName = None,
    watchdog: Annotated[
        float | None, Option(metavar="SECONDS", help="End a wait that lasts longer, and report it; no timing.")
    ] = None,
    races: Annotated[bool, Option("--races", help="Simulator: look for accesses that nothing orders.")] = False,
) -> int:
    """Run attention: build inputs, execute, check against a reference, report time and throughput."""
    from croq.cli.run import Request, run_and_show

    request = Request(
        seq, batch, heads, dim, causal, warmup, repeat, rounds, device, tiles, schedule, seed, kernel, watchdog, races
    )
    return run_and_show(session, file, request)


@command
def bench(
    session: Session,
    kernel: Annotated[list[str] | None, Option(metavar="FILE", help="A kernel; default: all shipped.")] = None,
    seq: Annotated[list[int] | None, Option(help="A sequence length; default: 4096, 8192, 16384.", least=1)] = None,
    batch: Batch = 4,
    heads: Heads = 32,
    dim: HeadDim = 128,
    warmup: Warmup = 50,
    repeat: Repeat = 200,
    rounds: Rounds = 3,
    out: Annotated[Path, Option("-o --out", help="Where results go, in a folder named by the time.")] = Path("results"),
    peers: Annotated[bool, Option("--peers --no-peers", help="Measure installed peers too.")] = True,
) -> int:
    """Measure kernels and installed peers at several sizes, in interleaved rounds. Needs a Hopper GPU."""
    from croq.cli.bench import BenchRequest, bench_and_show

    sizes = tuple(seq or (4096, 8192, 16384))
    request = BenchRequest(tuple(kernel or ()), sizes, batch, heads, dim, warmup, repeat, rounds, out, peers)
    return bench_and_show(session, request)


@command
def explain(
    session: Session,
    code: Annotated[str | None, Argument(help="A code, such as E-310, or a rule, such as events.B2.")] = None,
) -> int:
    """Explain a diagnostic, or a rule by which a pass decides (`croq plan` names it); without CODE: list all codes."""
    if code is not None and "." in code:
        from croq.cli.explain_rule import explain_rule

        return explain_rule(session, code.strip())
    from croq.cli.explain import explain_code, list_codes

    return list_codes(session) if code is None else explain_code(session, code)
