"""What tests of several rooms need."""

from __future__ import annotations

import asyncio
import gc
import math
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Results are compared bit for bit with the CPU's, and a GPU is played: `CUDA_VISIBLE_DEVICES=0` tests with a real one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

#: A screen is painted this soon after it changes, in place of 60 times a second.
PAINTED_S = 0.001

#: A window's new size is obeyed 1/120 s later: a screen is not settled while a timer is due within this time, unless
#: it has rung these many times. That of a screen beneath another one does until it is on top again.
SOON_S, ROUNDS = 0.02, 30


_freeze = gc.freeze


def pytest_collection_finish() -> None:
    """Spare collections the objects of TensorFlow and of the tests: Keras asks for one after each of many tests."""
    gc.collect()
    _freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_models_are_frozen() -> Iterator[None]:
    """A `Trainer` freezes what there is: here, it would keep the models of the tests before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "freeze", lambda: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _caches_are_frozen(request: pytest.FixtureRequest) -> Iterator[None]:
    """TensorFlow's caches grow with every trace: those of the modules before are not walked again."""
    yield
    if request.node.get_closest_marker("tensorflow"):
        gc.collect()
        _freeze()


@pytest.fixture(scope="session", autouse=True)
def _screens_settle_at_once() -> Iterator[None]:
    """A test goes on once the screen has nothing left to do, in place of 60 ms and more after each key."""
    import textual.app
    import textual.pilot
    import textual.screen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textual.screen, "UPDATE_PERIOD", PAINTED_S)
        patch.setattr(textual.app, "wait_for_idle", settled)
        patch.setattr(textual.pilot, "wait_for_idle", settled)
        yield


async def settled(_min_s: float = 0.0, _max_s: float = 1.0) -> None:
    """Wait until nothing is left to do, nor due within `SOON_S`; `ROUNDS` times where a timer never rests."""
    loop = asyncio.get_running_loop()
    for _ in range(ROUNDS):
        await asyncio.sleep(PAINTED_S)
        due_s = (timer.when() for timer in vars(loop)["_scheduled"] if not timer.cancelled())
        if not vars(loop)["_ready"] and min(due_s, default=math.inf) > loop.time() + SOON_S:
            return


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What tfwatch can make again, an image set above all, is kept in a folder of the test's own."""
    from tfwatch.workloads import images, readable

    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(images, "cache_dir", lambda: cache)
    monkeypatch.setattr(readable, "cache_dir", lambda: cache)
    return cache
