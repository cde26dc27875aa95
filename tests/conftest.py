"""What tests of several rooms need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What tfwatch can make again, an image set above all, is kept in a folder of the test's own."""
    from tfwatch.workloads import images, readable

    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(images, "cache_dir", lambda: cache)
    monkeypatch.setattr(readable, "cache_dir", lambda: cache)
    return cache
