"""What `croq compile` prints and writes: one stage, or the files of a whole compilation and their summary."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from croq.cli.console import Console
from croq.cli.options import refused
from croq.diagnostics import EnvironmentFault, make
from croq.stages import Stages
from croq.texts import stem

SUFFIXES = {
    "ast": ".ast", "tile-ir": ".tile-ir", "ir": ".ir", "plan": ".plan.json", "cuda": ".cu", "ptx": ".ptx",
    "cubin": ".cubin", "sass": ".sass",
}  # fmt: skip


def stage(made: Stages, kind: str) -> str | bytes:
    """One stage of a compilation: text, and bytes for `cubin`."""
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
    }
    return stages[kind]()


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
                "seconds": stages,
                "files": [str(path) for path in paths],
            }
        )
        return
    total = sum(made.seconds.values())
    console.summary(f"compiled {made.file.name} for {made.settings.arch} in {total:.2f} s")
    for fact in facts:
        spills = f"{fact['spill_stores'] + fact['spill_loads']} bytes of spills" if _spills(fact) else "no spills"
        console.summary(
            f"  {fact['kernel']}: {fact['threads']} threads, {fact['shared_bytes']:,} bytes of shared memory, "
            f"{fact['registers']} registers, {spills}"
        )
    console.summary("  " + ", ".join(f"{name} {value:.3f} s" for name, value in made.seconds.items()))
    for path in paths:
        console.summary(f"  wrote {path}")


def _spills(fact: dict[str, Any]) -> bool:
    return bool(fact["spill_stores"] or fact["spill_loads"])


def _facts(made: Stages, kernel: dict[str, Any]) -> dict[str, Any]:
    usage = {item.name: item for item in made.image.usage}.get(made.lowered.entries[kernel["kernel"]])
    return {
        "kernel": kernel["kernel"],
        "threads": kernel["threads"],
        "shared_bytes": kernel["shared_bytes"],
        "registers": usage.registers if usage else None,
        "spill_stores": usage.spill_stores if usage else 0,
        "spill_loads": usage.spill_loads if usage else 0,
        "stack_bytes": usage.stack_bytes if usage else 0,
    }
