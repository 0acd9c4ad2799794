"""cubin to SASS by NVIDIA's disassembler, from PATH or from its pip wheel."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from croq.diagnostics import EnvironmentFault, make

TOOLS = {"nvdisasm": ["--print-code"], "cuobjdump": ["--dump-sass"]}
LINEINFO = "--print-line-info-inline"  # of nvdisasm
INSTALL = "pip install nvidia-cuda-nvdisasm"
TIMEOUT = 120  # seconds


def sass(cubin: bytes, *, lineinfo: bool = False) -> str:
    """The machine code as text. `lineinfo` adds source lines where the cubin has them and nvdisasm is there.

    Raises EnvironmentFault E-3004 when there is no disassembler or it fails.
    """
    name, tool = _find_tool()
    options = [*TOOLS[name], *([LINEINFO] if lineinfo and name == "nvdisasm" else [])]
    with tempfile.TemporaryDirectory(prefix="croq-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [str(tool), *options, str(path)], capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _fault(f"`{tool}` could not be run", str(error)) from error
    if done.returncode != 0:
        raise _fault(f"`{name}` failed", (done.stderr or done.stdout).strip()[:400])
    return done.stdout


def _find_tool() -> tuple[str, Path]:
    for name in TOOLS:
        on_path = shutil.which(name)
        if on_path is not None:
            return name, Path(on_path)
    site = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    for name in TOOLS:
        for found in sorted(site.glob(f"*/bin/{name}")):
            return name, found
    raise _fault("no disassembler was found: neither `nvdisasm` nor `cuobjdump`", None)


def _fault(message: str, note: str | None) -> EnvironmentFault:
    return EnvironmentFault([make("E-3004", None, message, notes=[note] if note else [], hint=INSTALL)])
