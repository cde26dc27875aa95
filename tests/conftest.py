"""What tests of several rooms need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: Results are compared bit for bit with the CPU's, and a GPU is played: `CUDA_VISIBLE_DEVICES=0` tests with a real one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What tfwatch can make again, an image set above all, is kept in a folder of the test's own."""
    from tfwatch.workloads import images, readable

    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(images, "cache_dir", lambda: cache)
    monkeypatch.setattr(readable, "cache_dir", lambda: cache)
    return cache
