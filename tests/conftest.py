"""Fixtures for tests of several rooms."""

import asyncio
import gc
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

#: Results are compared bit for bit with the CPU's, GPUs are simulated: `CUDA_VISIBLE_DEVICES=0`
#: tests with a real one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

#: The user's own preferences are not those of the tests.
for name in ("TFWATCH_RUNS_DIR", "TFWATCH_THEME", "TFWATCH_NOTIFY_COMMAND"):
    os.environ.pop(name, None)

#: An example may take long on a machine that others use.
hypothesis.settings.register_profile(
    "tfwatch", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tfwatch")

#: Programs that tests start keep their bytecode: to compile tfwatch takes each of them 0.2 s. So do
#: the tests: their assertions are rewritten, which takes each worker 4 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: A screen repaints this soon after a change, in place of 60 times a second.
PAINTED_S = 0.001

#: A new window size takes effect after 1/120 s: a screen is not settled while a timer is due within
#: this time, unless the timer has fired this many times. The timer of a screen beneath another one
#: fires until that screen is on top.
SOON_S, ROUNDS = 0.02, 30


#: Traces and screens make many objects that live: Python's own 700, 10, 10 cost a sixth of
#: `screens/test_keys.py`.
gc.set_threshold(50_000, 20, 20)

_freeze = gc.freeze


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin each worker's share with modules that train or wait for a terminal.

    Workers take tests from the end of another's share once theirs are done: short ones there let
    all end together.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    of_module: dict[Path, list[pytest.Item]] = {}
    for item in items:
        of_module.setdefault(item.path, []).append(item)
    modules = {
        is_slow: [tests for tests in of_module.values() if _is_slow(tests) is is_slow]
        for is_slow in (True, False)
    }
    shares = (
        modules[is_slow][worker::workers] for worker in range(workers) for is_slow in (True, False)
    )
    items[:] = [item for share in shares for tests in share for item in tests]


def _is_slow(tests: list[pytest.Item]) -> bool:
    return any(
        test.get_closest_marker(name) for test in tests for name in ("tensorflow", "terminal")
    )


def pytest_collection_finish() -> None:
    """Keep the three million objects of TensorFlow and the tests out of collections: Keras collects
    after each."""
    gc.collect()
    _freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_models_are_frozen() -> Iterator[None]:
    """A `Trainer` freezes what there is: here, it would keep the models of the tests before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "freeze", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _slow_disks_are_awaited() -> Iterator[None]:
    """A run begins without its folder after 2 s: the disk of a busy test machine may take
    longer."""
    from tfwatch.runs import create, writer

    with pytest.MonkeyPatch.context() as patch:
        for module in (create, writer):
            patch.setattr(module, "BEGIN_S", 60.0)
        yield


@pytest.fixture(scope="module", autouse=True)
def _freeze_caches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Freeze TensorFlow, and after each module its caches, which grow with every trace: collections
    skip them then."""
    trains = request.node.get_closest_marker("tensorflow")
    if trains:
        import keras  # noqa: F401

        _freeze()
    yield
    if trains:
        gc.collect()
        _freeze()


@pytest.fixture(scope="session", autouse=True)
def _screens_settle_immediately() -> Iterator[None]:
    """Continue a test once the screen is idle, in place of 60 ms and more after each key."""
    import textual.app
    import textual.pilot
    import textual.screen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textual.screen, "UPDATE_PERIOD", PAINTED_S)
        patch.setattr(textual.app, "wait_for_idle", settled)
        patch.setattr(textual.pilot, "wait_for_idle", settled)
        yield


@pytest.fixture(scope="session", autouse=True)
def _styles_are_parsed_once() -> Iterator[None]:
    """Keep the parsed style rules for the next app: each app parses the same files, a fifth of its
    start."""
    from textual.css.stylesheet import Stylesheet

    parsed: dict[tuple[Any, ...], Any] = {}
    parse = Stylesheet._parse_rules

    def parse_once(sheet: Stylesheet, *args: Any, **options: Any) -> Any:
        key = (tuple(sorted(sheet._variables.items())), args, tuple(options.items()))
        if key not in parsed:
            parsed[key] = parse(sheet, *args, **options)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


async def settled(_min_s: float = 0.0, _max_s: float = 1.0) -> None:
    """Wait until nothing is ready or due within `SOON_S`; at most `ROUNDS` times, for a timer that
    never stops."""
    loop = asyncio.get_running_loop()
    for _ in range(ROUNDS):
        await asyncio.sleep(PAINTED_S)
        due_s = (timer.when() for timer in vars(loop)["_scheduled"] if not timer.cancelled())
        if not vars(loop)["_ready"] and min(due_s, default=math.inf) > loop.time() + SOON_S:
            return
