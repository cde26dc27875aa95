"""The live screen over canned runs, held row by row at four widths.

    TFWATCH_SNAPSHOTS=write pytest tests/screens/test_snapshots.py

rewrites the files in `snapshots/`: read their difference before you commit it.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.judge.profiles import PROFILE
from tests.screens import hardware, states
from tests.screens.canned import COMPUTE_BOUND, N_A, PREFETCHED, STAGES, STARVING, Canned, usual
from tests.screens.showing import Shown, shown
from tfwatch.core import events as facts
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import Phase

SIZES = ((60, 18), (80, 24), (120, 40), (200, 60))
_FOLDER = Path(__file__).parent / "snapshots"
_IS_WRITTEN = os.environ.get("TFWATCH_SNAPSHOTS") == "write"


@dataclass(frozen=True)
class Scenario:
    """A run in one state, and how it is looked at."""

    make: Callable[[Path | None], Canned]
    sizes: tuple[tuple[int, int], ...] = SIZES
    keys: tuple[str, ...] = ()
    live: bool = True
    #: Of the app: its theme, colours and characters.
    options: tuple[tuple[str, Any], ...] = ()


def _staged(folder: Path | None) -> Canned:
    return usual(folder).staged(*STAGES, PREFETCHED)


def _profiled(folder: Path | None) -> Canned:
    known = {name: getattr(PROFILE, name) for name in PROFILE.__struct_fields__ if name != "at_ns"}
    return _staged(folder).event(facts.StepProfiled, **known)


def _behind(folder: Path | None) -> Canned:
    """Make a run whose prefetch buffer runs empty: a stage is the bottleneck."""
    run = usual(folder, device="GPU:0 Apple M2 Pro", accelerated=True)
    return run.staged(*STAGES, ("prefetch", "Prefetch", 1.8, N_A, 1.0, 4.0))


def _silent(folder: Path | None) -> Canned:
    """Make a run in a stall whose stage and line are known."""
    run = states.stalled(folder)
    silent = [
        (*stage[:2], N_A, stage[3], 0 * stage[5], stage[5]) for stage in (*STAGES, PREFETCHED)
    ]
    since_ns = round((run.at_s - 20.0) * 1e9)
    place = {"place": "feed.py:41 in rows", "thread": "generator"}
    run.event(facts.StallLocated, step=run.step + 1, stage="map(read)", since_ns=since_ns, **place)
    return run.staged(*silent)


def _first_batch(folder: Path | None) -> Canned:
    run = Canned(folder).begin_epoch()
    run.at_s = 3.0
    return run.doing(Phase.WAIT, 3.0)


def _host_bound(folder: Path | None) -> Canned:
    return Canned(folder).started().steps(150, (0.2, 13.0, 7.1)).doing(Phase.COMPUTE, 0.0)


def _own_loop(folder: Path | None) -> Canned:
    no_knobs: dict[str, Any] = {"knobs": {}, "switchable": []}
    run = Canned(folder, **no_knobs, epochs=None, steps_per_epoch=None)
    run.event(facts.EpochStarted, epoch=0, epochs=0, steps=None).steps(200, (9.6, 13.0, 0.0))
    run.writer.progress.append((200 * 32, 200, 0, 200, None))
    return run.doing(Phase.COMPUTE, 0.0)


def _requested(folder: Path | None) -> Canned:
    run = states.starving(folder)
    return run.event(
        facts.SwitchAsked, knob="prefetch", old="off", new="4", step=run.step, by="key"
    )


def _diverged(folder: Path | None) -> Canned:
    run = usual(folder)
    return run.event(facts.LossDiverged, step=451, loss="NaN", finite_step=450).steps(50, STARVING)


def _experimented(folder: Path | None, *, is_answered: bool) -> Canned:
    """Make a run with an A/B test."""
    run = states.starving(folder)
    test: dict[str, Any] = {"knob": "prefetch", "values": ("off", "4")}
    run.event(facts.ExperimentBegan, **test, step=150, budget=600)
    if not is_answered:
        return run.switched("prefetch", "off", "4", "experiment").steps(20, COMPUTE_BOUND)
    for old, new in (("off", "4"), ("4", "off"), ("off", "4")):
        run.switched("prefetch", old, new, "experiment").steps(20, COMPUTE_BOUND)
    answer: dict[str, Any] = {"answer": "faster", "ratio": 1.68}
    counts: dict[str, Any] = {"rounds": 6, "steps": 412, "kept": "4"}
    steps_ms: dict[str, Any] = {"step_ms": {"off": 23.4, "4": 13.9}, "low": 1.61, "high": 1.74}
    times: dict[str, Any] = {"began": 150, "step": 210, "cause": "clear"}
    run.event(facts.ExperimentEnded, **test, **answer, **counts, **steps_ms, **times)
    return run.steps(30, COMPUTE_BOUND)


def _autopilot(folder: Path | None) -> Canned:
    """Make a run with one move of the autopilot, which is kept."""
    run = states.starving(folder).event(facts.AutopilotBegan, step=1)
    move: dict[str, Any] = {"knob": "prefetch", "old": "off", "new": "4"}
    changes = (KnobChange(**move),)
    times: dict[str, Any] = {"before_ms": 23.4, "after_ms": 13.9}
    run.event(facts.MoveMade, step=run.step, changes=changes, forecast_ms=13.8)
    run.switched(**move, by="autopilot").steps(80, COMPUTE_BOUND)
    judged = {"steps": 40, "kept": True}
    run.event(facts.MoveJudged, step=run.step, changes=changes, **times, **judged)
    gain: dict[str, Any] = {"steps": 80, "ratio": 1.68, "low": 1.61, "high": 1.74}
    why: dict[str, Any] = {"cause": "not_starving", "reason": "data wait is only 1 % of a step"}
    gain["knobs"] = {"prefetch": "4"}
    return run.event(facts.AutopilotEnded, step=run.step, **why, **times, **gain)


def _switched_thrice(folder: Path | None) -> Canned:
    run = states.starving(folder)
    for knob, old, new in (
        ("prefetch", "off", "4"),
        ("workers", "off", "auto"),
        ("prefetch", "4", "8"),
    ):
        run.switched(knob, old, new).steps(71, COMPUTE_BOUND)
    return run


def _missed(folder: Path | None) -> Canned:
    """Make a finished run with a switch that is too young to judge, and one that came too late."""
    run = _behind(folder).switched("workers", "off", "4").steps(30, STARVING)
    return run.event(
        facts.SwitchFailed,
        knob="prefetch",
        reason="the run ended before it was in effect",
        old="4",
        new="8",
        step=900,
        now="4",
    ).ended()


def _logged(folder: Path | None) -> Canned:
    run = _staged(folder)
    assert folder
    run.log.write_text("a line of the log\n")
    return run


_ASCII = (("unicode", False), ("colour", False))
_WIDE = ((120, 40),)
SCENARIOS = {
    "starting": Scenario(states.starting),
    "first_batch": Scenario(_first_batch),
    "starving": Scenario(states.starving),
    "requested": Scenario(_requested, SIZES[1:3]),
    "switched_thrice": Scenario(_switched_thrice, _WIDE),
    "ab_test_running": Scenario(partial(_experimented, is_answered=False), _WIDE),
    "ab_test_answered": Scenario(partial(_experimented, is_answered=True), _WIDE),
    "autopilot_ended": Scenario(_autopilot, SIZES[1:3]),
    "settling": Scenario(states.settling, _WIDE),
    "compute_bound": Scenario(_staged),
    "profiled": Scenario(_profiled, keys=("e",)),
    "compute_bound_ascii": Scenario(_staged, options=_ASCII),
    "behind": Scenario(_behind, _WIDE),
    "behind_ascii": Scenario(_behind, _WIDE, options=_ASCII),
    "host_bound": Scenario(_host_bound, SIZES[:2]),
    "stalled": Scenario(states.stalled),
    "stalled_silent": Scenario(_silent, SIZES[1:3]),
    "slow_callback": Scenario(states.slow_callback, _WIDE),
    "validating": Scenario(states.validating, _WIDE),
    "diverged": Scenario(_diverged, SIZES[:3]),
    "failed": Scenario(states.failed),
    "finished": Scenario(states.finished, live=False),
    "finished_missed": Scenario(_missed, _WIDE, live=False),
    "own_loop": Scenario(_own_loop, SIZES[2:]),
    **{
        f"pane_{key}": Scenario(_logged, SIZES[:2], keys=(key,))
        for key in ("1", "2", "3", "4", "6")
    },
    "pane_5": Scenario(_logged, (*SIZES[:2], SIZES[3]), keys=("5",)),
    "two_gpus": Scenario(hardware.two_gpus, (*SIZES, (179, 60))),
    **{f"on_{make.__name__}": Scenario(make, SIZES[1:3]) for make in hardware.ALL},
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the screen's clock show the same time on every machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_screen_is_that_of_its_snapshot(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    async with shown(
        scenario.make(tmp_path / "run"), live=scenario.live, **dict(scenario.options)
    ) as show:
        screens = [await _screen(show, scenario, size) for size in scenario.sizes]
    text, file = "\n".join(screens), _FOLDER / f"{name}.txt"
    if _IS_WRITTEN:
        file.write_text(text, encoding="utf-8")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()


async def _screen(show: Shown, scenario: Scenario, size: tuple[int, int]) -> str:
    """Return the screen below a line with its size and the banner's tone."""
    _wait_for_findings()
    await show.resize(size)
    for key in scenario.keys:
        await show.press(key)
    assert {len(row) for row in show.rows} == {size[0]}
    tone = show.live.banner.banner.tone.value
    rows = "\n".join(row.rstrip() for row in show.rows)
    return f"{size[0]}x{size[1]}, {tone}\n{rows}\n"


def _wait_for_findings() -> None:
    """Wait until a run that is over is judged: its thread takes longer on a busy machine."""
    for thread in threading.enumerate():
        if thread.name == "tfwatch-ending":
            thread.join()


def test_every_snapshot_has_its_scenario() -> None:
    assert {file.stem for file in _FOLDER.iterdir()} == set(SCENARIOS)
