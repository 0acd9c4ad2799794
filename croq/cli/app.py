"""The commands. Each says what it takes and hands over; nothing is decided here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from croq.cli.session import Session, command

app = typer.Typer(
    name="croq",
    help="Compiles the .co tile language to Hopper kernels; runs them, or simulates them where there is no GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[str, typer.Argument(help="A path, `-`, or the bare name of a shipped kernel: v1, v2, v3, v4.")]
FunctionName = Annotated[
    str | None, typer.Option("--kernel", metavar="NAME", help="Which __co__ function, where a file has several.")
]
Seed = Annotated[int, typer.Option(help="Seed of the inputs.", min=0)]
Batch = Annotated[int, typer.Option(min=1)]
Heads = Annotated[int, typer.Option(min=1)]
HeadDim = Annotated[int, typer.Option(help="Elements of a head.", min=1)]
Warmup = Annotated[int, typer.Option(help="Executions before timing.", min=0)]
Repeat = Annotated[int, typer.Option(help="Executions a round.", min=1)]
Rounds = Annotated[int, typer.Option(help="Rounds of timing.", min=1)]
Schedule = Annotated[
    str,
    typer.Option(
        metavar="eager|lazy|random:SEED|hostile[:K]", help="When asynchronous operations complete (simulator)."
    ),
]
Kind = Literal["ast", "tile-ir", "ir", "plan", "cuda", "ptx", "cubin", "sass"]


def _version(shown: bool) -> None:
    if shown:
        import croq

        typer.echo(f"croq {croq.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("compile")
@command
def compile_command(
    session: Session,
    file: File,
    emit: Annotated[Kind | None, typer.Option(help="Print one stage instead of the summary.")] = None,
    after: Annotated[str | None, typer.Option(metavar="PASS", help="Print the IR after this pass.")] = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", metavar="PATH", help="Folder for all files; file for --emit.")
    ] = None,
    lineinfo: Annotated[bool, typer.Option("--lineinfo", help="Keep line tables for profilers.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Prove the lowered synchronisation before it is emitted.")
    ] = True,
    why: Annotated[
        bool, typer.Option("--why", help="With --emit cuda: the rule beside each barrier, fence, wait and election.")
    ] = False,
) -> int:
    """Compile to CUDA and cubin."""
    from croq.cli.compiling import compile_and_show

    return compile_and_show(session, file, emit, after, out, lineinfo=lineinfo, verify=verify, why=why)


@app.command()
@command
def opt(
    session: Session,
    file: Annotated[str, typer.Argument(help="Printed IR: a path, or `-`.")],
    passes: Annotated[str, typer.Option(metavar="A,B,..", help="The passes, in their order in the pipeline.")] = "",
    out: Annotated[str | None, typer.Option("-o", "--out", metavar="PATH", help="Where the IR goes.")] = None,
) -> int:
    """Run passes on printed IR, and print it again."""
    from croq.cli.compiling import resume_and_show

    return resume_and_show(session, file, passes, out)


@app.command()
@command
def plan(
    session: Session, file: File, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> int:
    """Show what was derived, and why: barriers, wait depths, layouts, tensor maps, registers."""
    from croq.cli.compiling import show_plan

    return show_plan(session, file, json)


@app.command()
@command
def check(
    session: Session,
    file: File,
    ptx: Annotated[
        bool, typer.Option("--ptx", help="Also execute the PTX of the emitted CUDA, and compare (needs NVRTC).")
    ] = False,
) -> int:
    """Apply every static rule, then verify the synchronisation protocol. Needs no compiler and no GPU."""
    from croq.cli.compiling import check_and_show

    return check_and_show(session, file, ptx=ptx)


@app.command()
@command
def sim(
    session: Session,
    file: File,
    shape: Annotated[
        list[str] | None, typer.Option("--shape", metavar="SYM=N", help="The value of a symbolic dimension.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="A parameter: a number, or a .npy file. Default: random."),
    ] = None,
    save: Annotated[
        list[str] | None,
        typer.Option("--save", metavar="NAME=FILE", help="Write a parameter to a .npy file afterwards."),
    ] = None,
    schedule: Schedule = "eager",
    schedules: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Run N schedules (eager, lazy, hostile ones, random seeds) up to the first fault.", min=1
        ),
    ] = None,
    races: Annotated[bool, typer.Option("--races/--no-races", help="Look for accesses that nothing orders.")] = True,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Processes for --schedules. Default: 2.", min=1)] = None,
    tiles: Annotated[
        int | None, typer.Option(metavar="N", help="Simulate N blocks, spread over the grid.", min=1)
    ] = None,
    seed: Seed = 42,
    kernel: FunctionName = None,
    level: Annotated[
        Literal["ir", "ptx"], typer.Option(help="What is executed: the lowered IR, or the PTX of the emitted CUDA.")
    ] = "ir",
    timeline: Annotated[
        list[str] | None,
        typer.Option("--timeline", metavar="FILE", help="Write a block's timeline: a trace (.json), a picture (.svg)."),
    ] = None,
    timeline_block: Annotated[str | None, typer.Option(metavar="X,Y,Z", help="Of which block. Default: 0,0,0.")] = None,
    timeline_steps: Annotated[int, typer.Option(metavar="N", help="Iterations of inner loops to show.", min=1)] = 8,
) -> int:
    """Execute on the CPU, with the chip's asynchrony; reports races, deadlocks and lost phases."""
    from croq.cli.sim import SimRequest, simulate_and_show
    from croq.cli.timelines import TimelineRequest

    shown = TimelineRequest.of(timeline or [], timeline_block, timeline_steps)
    request = SimRequest(schedule, schedules, races, jobs, tiles, seed, shown, level)
    return simulate_and_show(session, file, kernel, shape or [], arg or [], save or [], request)


@app.command()
@command
def run(
    session: Session,
    file: File = "v4",
    seq: Annotated[int, typer.Option(help="Length of the sequence.", min=1)] = 8192,
    batch: Batch = 4,
    heads: Heads = 32,
    dim: HeadDim = 128,
    causal: Annotated[bool, typer.Option("--causal/--no-mask", help="What the kernel computes.")] = True,
    warmup: Warmup = 50,
    repeat: Repeat = 200,
    rounds: Rounds = 3,
    device: Annotated[
        Literal["auto", "gpu", "sim"], typer.Option(help="auto: the simulator where there is no GPU.")
    ] = "auto",
    tiles: Annotated[int | None, typer.Option(metavar="N", help="Simulate N query tiles.", min=1)] = None,
    schedule: Schedule = "eager",
    seed: Seed = 42,
    kernel: FunctionName = None,
    watchdog: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End a wait that lasts longer, and report it; no timing.")
    ] = None,
    races: Annotated[bool, typer.Option("--races", help="Simulator: look for accesses that nothing orders.")] = False,
) -> int:
    """Run attention: build inputs, execute, check against a reference, report time and throughput."""
    from croq.cli.run import Request, run_and_show

    request = Request(
        seq, batch, heads, dim, causal, warmup, repeat, rounds, device, tiles, schedule, seed, kernel, watchdog, races
    )
    return run_and_show(session, file, request)


@app.command()
@command
def bench(
    session: Session,
    kernel: Annotated[list[str] | None, typer.Option(metavar="FILE", help="A kernel; default: all shipped.")] = None,
    seq: Annotated[list[int] | None, typer.Option(help="A sequence length; default: 4096, 8192, 16384.", min=1)] = None,
    batch: Batch = 4,
    heads: Heads = 32,
    dim: HeadDim = 128,
    warmup: Warmup = 50,
    repeat: Repeat = 200,
    rounds: Rounds = 3,
    out: Annotated[Path, typer.Option("-o", "--out", help="Where results go, in a folder named by the time.")] = Path(
        "results"
    ),
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Measure installed peers too.")] = True,
) -> int:
    """Measure kernels and installed peers at several sizes, in interleaved rounds. Needs a Hopper GPU."""
    from croq.cli.bench import BenchRequest, bench_and_show

    sizes = tuple(seq or (4096, 8192, 16384))
    request = BenchRequest(tuple(kernel or ()), sizes, batch, heads, dim, warmup, repeat, rounds, out, peers)
    return bench_and_show(session, request)


@app.command()
@command
def explain(
    session: Session,
    code: Annotated[str | None, typer.Argument(help="A code, such as E-310, or a rule, such as events.B2.")] = None,
) -> int:
    """Explain a diagnostic, or a rule by which a pass decides (`croq plan` names it); without CODE: list all codes."""
    if code is not None and "." in code:
        from croq.cli.explain_rule import explain_rule

        return explain_rule(session, code.strip())
    from croq.cli.explain import explain_code, list_codes

    return list_codes(session) if code is None else explain_code(session, code)
