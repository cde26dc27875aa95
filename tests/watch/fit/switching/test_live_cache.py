"""The cache and the shuffle buffer, switched while whole runs train."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.whole import events_of, hold_out_few, only, result, train, write_images
from tfwatch.core.events import (
    EpochEnded,
    Noted,
    PipelineSwitched,
    SwitchAsked,
    SwitchFailed,
    SwitchMissed,
)
from tfwatch.core.knobs import Knobs, Setting
from tfwatch.core.refusals import Refusal
from tfwatch.runs.control.requests import Control, Request, Scheduled
from tfwatch.runs.create import begin_run
from tfwatch.tfdata import cache as stores
from tfwatch.watch.fit.switching.deferred_switches import DeferredSwitches
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline
from tfwatch.watch.session import Session
from tfwatch.workloads.models import generator
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.reading.opened import Run

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("own_cache", "one_block")]

#: Examples of both workloads, and batches of an epoch, the last of them ragged.
EXAMPLES, STEPS = 162, 21
#: The pipeline that takes least to build, for tests of when a switch takes effect.
FAST = Knobs(fast_pipeline=True)


@pytest.fixture(autouse=True)
def _few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "_COUNT", EXAMPLES)
    hold_out_few(monkeypatch)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two classes of 90 images, 18 of them for validation."""
    folder = write_images(tmp_path_factory.mktemp("data"), 90, "disk", "dots")
    return Settings(batch_size=8, image_size=16, epochs=4, seed=7, data=folder, optimizer="sgd")


@pytest.fixture(scope="module")
def unswitched(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Run]:
    """Train a workload without a switch, once for all tests; both forms of a pipeline give the same result."""

    @functools.cache
    def run(name: str) -> Run:
        knobs = FAST if name == "generator" else Knobs()
        return train(name, settings, tmp_path_factory.mktemp("unswitched"), knobs=knobs)[0]

    return run


def switched(run: Run) -> list[tuple[str, str, str, int]]:
    return [
        (event.knob, event.old, event.new, event.step) for event in events_of(run, PipelineSwitched)
    ]


def requested(run: Run) -> list[tuple[str, str, int]]:
    return [(event.old, event.new, event.step) for event in events_of(run, SwitchAsked)]


def first_epoch(run: Run) -> Any:
    return events_of(run, EpochEnded)[0].metrics


@pytest.mark.parametrize("name", ["cnn", "generator"])
def test_random_switches_with_the_cache_among_them_change_no_bit(
    name: str, settings: Settings, unswitched: Callable[[str], Run], tmp_path: Path
) -> None:
    rng = random.Random(3)
    choices: list[tuple[str, Any]] = [
        *(("prefetch", value) for value in ("off", "default", 3)),
        *(("workers", value) for value in ("off", "default", 2)),
    ]
    switches = [Scheduled(rng.randrange(4 * STEPS), *rng.choice(choices)) for _ in range(8)]
    # On over the end of an epoch and through a whole one, off and on again.
    cache = [
        Scheduled(step, "cache", value)
        for step, value in ((4, True), (50, False), (54, True), (58, False))
    ]
    turned, outcome = train(
        name, settings, tmp_path, *switches, *cache, Scheduled(60, "cache", True)
    )
    assert outcome.cause == "finished"
    assert ("cache", "off", "on", 2 * STEPS + 1) in switched(turned)
    assert any(switch[:3] == ("cache", "on", "off") for switch in switched(turned))
    assert result(turned) == result(unswitched(name))


def test_both_forms_of_a_pipeline_are_cached_separately(settings: Settings, tmp_path: Path) -> None:
    """Otherwise an example of one form would be served to the other, which differs in the last bit."""
    forms = [
        Scheduled(30, "fast_pipeline", True),
        Scheduled(50, "fast_pipeline", False),
        Scheduled(70, "fast_pipeline", True),
    ]
    still, _ = train("generator", settings, tmp_path, *forms)
    cached, _ = train("generator", settings, tmp_path, *forms, knobs=Knobs(cache=True))
    assert result(cached) == result(still)
    for run in (still, cached):
        made = [
            (old, new, step) for knob, old, new, step in switched(run) if knob == "fast_pipeline"
        ]
        assert made == [("off", "on", 31), ("on", "off", 51), ("off", "on", 71)]


def test_a_cache_and_a_shuffle_take_effect_with_an_epoch(
    settings: Settings, unswitched: Callable[[str], Run], tmp_path: Path
) -> None:
    """A cache takes effect with the first epoch that it serves whole; it leaves a shuffle that is deferred."""
    shuffles = [Scheduled(5, "shuffle", 4), Scheduled(50, "shuffle", "auto")]
    cache = [Scheduled(9, "cache", True), Scheduled(70, "cache", False)]
    alone, _ = train("generator", settings, tmp_path, *shuffles, knobs=FAST)
    beside, _ = train("generator", settings, tmp_path, *shuffles, *cache, knobs=FAST)
    shuffled = [("shuffle", "auto", "4", STEPS + 1), ("shuffle", "4", "auto", 3 * STEPS + 1)]
    cached = [("cache", "off", "on", 2 * STEPS + 1), ("cache", "on", "off", 71)]
    assert requested(alone) == [("auto", "4", 5), ("4", "auto", 50)]
    assert switched(alone) == shuffled
    assert requested(beside) == [
        ("auto", "4", 5),
        ("off", "on", 9),
        ("4", "auto", 50),
        ("on", "off", 70),
    ]
    assert switched(beside) == [shuffled[0], cached[0], shuffled[1], cached[1]]
    assert first_epoch(alone) == first_epoch(unswitched("generator"))
    assert result(beside) == result(alone)
    assert beside.manifest.cache_bytes == EXAMPLES * (256 + 1) * 4
    assert any("the cache takes" in event.text for event in events_of(beside, Noted))


def test_what_is_cancelled_or_comes_too_late_changes_nothing(
    settings: Settings, unswitched: Callable[[str], Run], tmp_path: Path
) -> None:
    """A cache that is off again while it fills is no switch: its steps would count as steps with a cache.

    One that never took effect, in the last epoch, is reported.
    """
    shuffle = [Scheduled(5, "shuffle", 4), Scheduled(9, "shuffle", "auto")]
    cache = [
        Scheduled(12, "cache", True),
        Scheduled(16, "cache", False),
        Scheduled(68, "cache", True),
    ]
    run, _ = train("generator", settings, tmp_path, *shuffle, *cache, knobs=FAST)
    assert [(old, new) for old, new, _ in requested(run)] == [
        ("auto", "4"),
        ("auto", "auto"),
        ("off", "on"),
        ("off", "off"),
        ("off", "on"),
    ]
    assert switched(run) == []
    missed = only(run, SwitchMissed)
    assert (missed.knob, missed.old, missed.new, missed.step) == ("cache", "off", "on", 68)
    assert result(run) == result(unswitched("generator"))


@pytest.mark.parametrize("at_start", [True, False])
def test_a_cache_that_does_not_fit_is_refused(
    at_start: bool, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "free_bytes", lambda: 100_000)
    switches = [] if at_start else [Scheduled(5, "cache", True), Scheduled(5, "prefetch", 2)]
    knobs = FAST.with_value("cache", at_start)
    run, outcome = train("generator", replace(settings, epochs=1), tmp_path, *switches, knobs=knobs)
    sentence = "the cache needs 0.2 MB, more than half of the 98 kB of memory that are free"
    if at_start:
        assert (outcome.cause, outcome.message) == ("bad-input", sentence)
        return
    (failed,) = events_of(run, SwitchFailed)
    assert (failed.knob, failed.reason) == ("cache", sentence)
    assert switched(run) == [("prefetch", "off", "2", 6)]


@pytest.mark.parametrize(
    ("knob", "value", "refusal"),
    [("cache", True, Refusal.NOTHING_TO_CACHE), ("shuffle", 5, Refusal.OWN_SHUFFLE)],
)
def test_a_knob_that_a_pipeline_lacks_is_refused(
    knob: str, value: Setting, refusal: Refusal, tmp_path: Path
) -> None:
    writer, _ = begin_run(tmp_path, "run")
    session = Session(writer)
    deferred = DeferredSwitches(session, ScriptPipeline())
    writer.close()

    assert deferred.refusal(Request(knob, value)) == refusal.words


def test_a_run_restarted_before_the_epoch_starts_with_the_requested_shuffle(
    settings: Settings, tmp_path: Path
) -> None:
    control = Control(FAST)
    train(
        "generator",
        replace(settings, steps=9),
        tmp_path,
        Scheduled(5, "shuffle", 4),
        knobs=FAST,
        control=control,
    )
    assert (control.knobs, control.requested_knobs) == (FAST, FAST.with_value("shuffle", 4))


def test_a_shuffle_at_the_start_changes_the_order(
    settings: Settings, unswitched: Callable[[str], Run], tmp_path: Path
) -> None:
    short = replace(settings, epochs=1)
    knobs = (FAST.with_value("shuffle", value) for value in ("off", 4))
    shuffled = [train("generator", short, tmp_path, knobs=each)[0] for each in knobs]
    losses = {first_epoch(run)["loss"] for run in (unswitched("generator"), *shuffled)}
    assert len(losses) == 3
