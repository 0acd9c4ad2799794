"""`generated/` holds, byte for byte, what the commands print for the shipped kernels."""

from __future__ import annotations

import pytest

from croq.texts import shipped_kernels
from tests.command_line import croq
from tests.conftest import ROOT


@pytest.mark.parametrize("name", shipped_kernels())
@pytest.mark.parametrize(
    ("arguments", "suffix"), [(("compile", "--emit", "cuda"), ".cu"), (("plan", "--json"), ".plan.json")]
)
def test_generated_files_are_what_the_commands_print(golden, monkeypatch, name, arguments, suffix):
    monkeypatch.chdir(ROOT)
    command, *options = arguments
    result = croq(command, f"kernels/{name}.co", *options)
    assert result.exit_code == 0, result.stderr
    golden(result.stdout, f"generated/{name}{suffix}")
