"""What `croq compile` prints and writes: one stage, or the files of a whole compilation and their summary."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Any

from croq.cli.console import Console
from croq.cli.options import refused
from croq.diagnostics import EnvironmentFault, make
from croq.stages import Stages
from croq.texts import stem

SUFFIXES = {
    "ast": ".ast", "tile-ir": ".tile-ir", "ir": ".ir", "plan": ".plan.json", "cuda": ".cu", "ptx": ".ptx",
    "cubin": ".cubin", "sass": ".sass", "sass-stats": ".sass-stats",
}  # fmt: skip


def stage(made: Stages, kind: str, json: bool = False) -> str | bytes:
    """One stage of a compilation: text, and bytes for `cubin`. `json`: where the text comes in two forms."""
    from croq.plan import to_json

    stages: dict[str, Callable[[], str | bytes]] = {
        "ast": lambda: made.ast,
        "tile-ir": lambda: made.tile_ir,
        "ir": lambda: made.ir,
        "plan": lambda: to_json(made.plan),
        "cuda": lambda: made.cuda,
        "ptx": lambda: made.ptx,
        "cubin": lambda: made.cubin,
        "sass": lambda: made.sass,
        "sass-stats": lambda: _statistics(made, json),
    }
    return stages[kind]()


def _statistics(made: Stages, json: bool) -> str:
    from croq.driver.sass_stats import render, statistics

    found = statistics(made.sass)
    return dumps([function.to_json() for function in found], indent=2) + "\n" if json else render(found)


def emit(console: Console, made: Stages, kind: str, content: str | bytes, out: str | None) -> None:
    """Print a stage, or write it to `out`: a file, or a folder that gets NAME with the stage's suffix."""
    if out is None:
        if isinstance(content, bytes):
            raise refused("--emit cubin", "a cubin is no text: say where it goes with -o")
        console.result(content)
        return
    path = Path(out)
    if path.is_dir() or out.endswith(os.sep):
        path = path / f"{stem(made.file)}{SUFFIXES[kind]}"
    write(path, content)
    console.note(f"wrote {path}")


def write_all(made: Stages, folder: Path) -> list[Path]:
    """Write NAME.cu, NAME.cubin and NAME.plan.json into a folder, which is made if need be."""
    paths = []
    for kind in ("cuda", "cubin", "plan"):
        path = folder / f"{stem(made.file)}{SUFFIXES[kind]}"
        write(path, stage(made, kind))
        paths.append(path)
    return paths


def write(path: Path, content: str | bytes) -> None:
    """Replace a file at once: readers see the old content or the new, never half. Raises EnvironmentFault E-3120."""
    data = content.encode() if isinstance(content, str) else content
    draft: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except OSError as error:
        if draft is not None:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            reason, hint = "a file stands where its folder would be", "name a folder, or a file in one"
        else:
            reason, hint = error.strerror or str(error), "choose a place that can be written"
        raise EnvironmentFault([make("E-3120", None, f"`{path}` cannot be written: {reason}", hint=hint)]) from error


def summary(console: Console, made: Stages, paths: list[Path]) -> None:
    """Threads, shared memory, registers and spills of each kernel; time of each stage; what was written."""
    facts = [_facts(made, kernel) for kernel in made.plan]
    if console.json:
        stages = {name: round(value, 6) for name, value in made.seconds.items()}
        console.data(
            {
                "file": made.file.name,
                "arch": made.settings.arch,
                "kernels": facts,
                "remarks": [remark.code for remark in made.remarks],
                "seconds": stages,
                "files": [str(path) for path in paths],
            }
        )
        return
    total = sum(made.seconds.values())
    console.summary(f"compiled {made.file.name} for {made.settings.arch} in {total:.2f} s")
    for fact in facts:
        console.summary(
            f"  {fact['kernel']}: {fact['threads']} threads, {fact['shared_bytes']:,} bytes of shared memory, "
            f"{_registers(fact)}, {_spills(fact)}{_resident(fact['occupancy'])}"
        )
    console.summary("  " + ", ".join(f"{name} {value:.3f} s" for name, value in made.seconds.items()))
    for path in paths:
        console.summary(f"  wrote {path}")


def _registers(fact: dict[str, Any]) -> str:
    """What ptxas names is what a thread has at launch; roles that ask for more or less stand behind it."""
    roles = "/".join(str(role["setreg"]) for role in fact["roles"])
    return f"{fact['registers']} registers" + (f" ({roles} by role)" if roles else "")


def _spills(fact: dict[str, Any]) -> str:
    stack = f", {fact['stack_bytes']} bytes of stack" if fact["stack_bytes"] else ""
    if not fact["spill_stores"] and not fact["spill_loads"]:
        return f"no spills{stack}"
    return f"{fact['spill_stores']} bytes of spill stores, {fact['spill_loads']} of spill loads{stack}"


def _resident(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    ctas = "1 CTA" if found["ctas"] == 1 else f"{found['ctas']} CTAs"
    return f", {ctas} an SM (limited by {' and '.join(found['limits'])})"


def _occupancy(made: Stages, threads: int, registers: int | None, shared_bytes: int) -> dict[str, Any] | None:
    """None where the number of registers is not known."""
    from croq.target import TARGETS
    from croq.target.occupancy import occupancy

    if registers is None:
        return None
    found = occupancy(TARGETS[made.settings.arch], threads, registers, shared_bytes)
    return {"ctas": found.ctas, "warps": found.warps, "limits": list(found.limits)}


def _facts(made: Stages, kernel: dict[str, Any]) -> dict[str, Any]:
    usage = {item.name: item for item in made.image.usage}.get(made.lowered.entries[kernel["kernel"]])
    registers = usage.registers if usage else None
    static = usage.static_shared if usage else 0
    shared = kernel["shared_bytes"] + static
    return {
        "kernel": kernel["kernel"],
        "threads": kernel["threads"],
        "shared_bytes": shared,
        "shared_static": static,
        "shared_dynamic": kernel["shared_bytes"],
        "registers": registers,
        "roles": kernel["registers"],
        "occupancy": _occupancy(made, kernel["threads"], registers, shared),
        "spill_stores": usage.spill_stores if usage else 0,
        "spill_loads": usage.spill_loads if usage else 0,
        "stack_bytes": usage.stack_bytes if usage else 0,
        "barriers": usage.barriers if usage else 0,
    }
