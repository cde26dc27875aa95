"""The fixtures of these tests."""

from pathlib import Path
from typing import Any

import pytest

from tests.keras_fixtures import (
    all_runs_ended,
    always_deterministic,
    arrays,
    fingerprint,
    freed_in,
    made,
    make_model,
    op_determinism,
    small_model,
)
from tests.watch.watched import EPOCHS, known, watch_in
from tfwatch.core.errors import warn_once

__all__ = [
    "all_runs_ended",
    "always_deterministic",
    "arrays",
    "freed_in",
    "made",
    "make_model",
    "op_determinism",
]


@pytest.fixture(autouse=True)
def nothing_warned() -> None:
    """Let each test see what a process says once."""
    warn_once.cache_clear()


@pytest.fixture
def watch(tmp_path: Path) -> Any:
    """A Watch whose runs are in the test's folder."""
    return watch_in(tmp_path)


@pytest.fixture(scope="package")
def stock(op_determinism: None) -> Any:
    """The fingerprint of the small model after `EPOCHS` epochs of `known()` without Watch."""
    model = small_model()
    return fingerprint(model, model.fit(known(), epochs=EPOCHS, verbose=0))
