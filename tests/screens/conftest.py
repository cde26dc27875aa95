"""Fixtures of the panes' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screens.runs import CannedRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> CannedRun:
    return CannedRun(tmp_path)
