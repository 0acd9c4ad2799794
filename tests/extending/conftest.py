"""A scratch copy of the checkout for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extending.scratch import Scratch


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)
