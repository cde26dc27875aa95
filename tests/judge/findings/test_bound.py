"""The advice for each limit of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tfwatch.judge.findings.between_epochs import find_slow_epoch_end

from tests.judge.situations import RUNNING, changed, finding, judged
from tfwatch.core.events import EpochEnded, Paused
from tfwatch.judge.findings.banner import describe_between_epochs
from tfwatch.judge.steps.time_breakdown import TimeSpent
from tfwatch.judge.steps.verdict import Bound, Verdict

if TYPE_CHECKING:
    from tfwatch.core.events import Event


@pytest.mark.parametrize(
    ("knobs", "switchable", "expected"),
    [
        pytest.param(
            {"prefetch": "off"}, ("prefetch",), "p turns prefetch on", id="prefetch is off"
        ),
        pytest.param(
            {"prefetch": "4", "workers": "off"},
            ("prefetch", "workers"),
            "w prepares batches",
            id="workers are off",
        ),
        pytest.param(
            {"prefetch": "4", "workers": "auto"},
            ("prefetch", "workers"),
            "reading or decoding",
            id="all on",
        ),
        pytest.param({}, (), "cannot be switched live", id="somebody else's pipeline"),
    ],
)
def test_a_starving_device_has_the_next_switch_to_try(
    knobs: dict[str, str], switchable: tuple[str, ...], expected: str
) -> None:
    assert (
        expected in finding(judgement=judged(Verdict.HIGHLY), knobs=knobs, switchable=switchable)[2]
    )


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        pytest.param({"validation_s": 2.0}, "validation_freq", id="validation"),
        pytest.param({"first_batch_s": 2.0}, ".repeat() with steps_per_epoch", id="first batch"),
        pytest.param({"epoch_end_s": 2.0}, "longer epochs", id="its end"),
    ],
)
def test_each_part_between_epochs_has_its_own_advice(
    spent: dict[str, float], expected: str
) -> None:
    epoch = TimeSpent(0, 250, 0, compute_s=3.0, **spent)

    assert expected in finding(judgement=judged(Verdict.NOT, 0.2), epoch_spent=epoch)[2]
    assert finding(judgement=judged(Verdict.HIGHLY, 20.0), epoch_spent=epoch)[0].startswith(
        "STARVING"
    )


@pytest.mark.parametrize(
    ("spent", "part", "expected"),
    [
        pytest.param(
            {"epoch_end_s": 2.0},
            "between fits 2.0 s",
            "do less between two calls of fit",
            id="own code",
        ),
        pytest.param(
            {"first_batch_s": 2.0}, "first batch 2.0 s", "fewer, longer fits", id="first batch"
        ),
        pytest.param({"validation_s": 2.0}, "validation 2.0 s", "validation_freq", id="validation"),
    ],
)
def test_between_fits_of_one_epoch_it_is_the_scripts_own_code(
    spent: dict[str, float], part: str, expected: str
) -> None:
    epoch = TimeSpent(0, 250, 0, compute_s=3.0, **spent)
    now = changed(
        RUNNING, judgement=judged(Verdict.NOT, 0.2), epoch_spent=epoch, fits_end_epochs=True
    )
    found = describe_between_epochs(now)

    assert found is not None
    assert found.sentence.endswith(part)
    assert expected in found.advice
    assert "repeat" not in f"{found.advice} {found.edit}"


def ended(at_ms: int) -> EpochEnded:
    return EpochEnded(at_ms * 10**6, 0, 0, {})


def paused(at_ms: int, cause: str, took_ms: float, name: str) -> Paused:
    return Paused(at_ms * 10**6, cause, took_ms, name)


@pytest.mark.parametrize(
    ("events", "held"),
    [
        pytest.param(
            [paused(5900, "checkpoint", 800.0, "ModelCheckpoint")],
            "ModelCheckpoint",
            id="before Watch",
        ),
        pytest.param([paused(6950, "callback", 900.0, "Plots")], "Plots", id="after Watch"),
        pytest.param(
            [paused(3000, "callback", 900.0, "CSVLogger")], "", id="in the midst of an epoch"
        ),
        pytest.param(
            [paused(6100, "garbage collection", 200.0, "generation 2")], "", id="no callback"
        ),
        pytest.param([], "", id="nothing was seen"),
    ],
)
def test_the_slow_callback_of_an_epochs_end_is_found(events: list[Event], held: str) -> None:
    found = find_slow_epoch_end([ended(6000), *events])
    assert (found.detail if found else "") == held


def test_checkpoints_are_named_only_where_one_was_seen() -> None:
    spent = {
        "judgement": judged(Verdict.NOT, 0.2),
        "epoch_spent": TimeSpent(0, 250, compute_s=3.0, epoch_end_s=2.0),
    }

    def advised(cause: str, took_ms: float) -> str:
        return finding(**spent, slow_epoch_end=Paused(0, cause, took_ms, "Saver"))[2]

    assert (
        finding(**spent)[2]
        == "longer epochs (.repeat() with steps_per_epoch), or less in on_epoch_end"
    )
    assert advised("checkpoint", 1900.0) == "save less often (Saver), or longer epochs"
    assert advised("callback", 1900.0) == "do less in Saver.on_epoch_end, or longer epochs"
    assert "Saver" not in advised("checkpoint", 100.0)


def test_short_times_between_epochs_keep_their_digits() -> None:
    short = TimeSpent(0, 20, compute_s=0.03, first_batch_s=0.0176, epoch_end_s=0.0122)

    assert finding(judgement=judged(Verdict.NOT, 0.2), epoch_spent=short)[1] == (
        "29.8 ms per epoch of 20 steps: first batch 17.6 ms, epoch's end 12.2 ms"
    )


def test_a_shuffle_that_is_filled_before_each_epoch_is_named_with_what_it_waits_for() -> None:
    spent = {
        "judgement": judged(Verdict.NOT, 0.2),
        "epoch_spent": TimeSpent(0, 250, compute_s=3.0, first_batch_s=2.0),
    }
    filled = {**spent, "has_shuffle_fill": True, "filled_shuffle": "shuffle(1000)"}

    _, sentence, advice = finding(**filled, map_below_shuffle="map(decode)")
    assert sentence.endswith("filling shuffle(1000) 2.0 s")
    assert advice == "put .shuffle(1000) before .map(decode), or .repeat() right after .shuffle()"
    assert (
        finding(**filled)[2]
        == ".repeat() right after .shuffle(1000) with steps_per_epoch, or a smaller buffer"
    )
    assert finding(**spent)[1].endswith("first batch 2.0 s")
    assert "shuffle" not in finding(**spent)[2]


def test_the_lines_for_a_shuffle_repeat_it_and_not_its_batches() -> None:
    spent = TimeSpent(0, 250, compute_s=3.0, first_batch_s=2.0)
    now = changed(
        RUNNING, judgement=judged(Verdict.NOT, 0.2), epoch_spent=spent, has_shuffle_fill=True
    )

    found = describe_between_epochs(
        changed(now, filled_shuffle="shuffle(9)", map_below_shuffle="map", knobs={})
    )
    assert found
    assert (
        found.edit.splitlines()[0]
        == "dataset = dataset.shuffle(9).map(...)  # in place of .map(...).shuffle(9)"
    )
    assert "# or: dataset = dataset.shuffle(9).repeat()" in found.edit
    fit = describe_between_epochs(changed(now, steps_per_epoch=250))
    assert fit
    assert fit.edit.startswith("dataset = dataset.shuffle(...).repeat()")
    assert fit.edit.endswith("model.fit(dataset, steps_per_epoch=250)")
    loop = describe_between_epochs(changed(now, loop="train.py:22"))
    assert loop
    assert loop.edit.endswith("batches = iter(dataset) before the loop, next(batches) in each step")


def test_a_callback_that_is_known_to_take_most_is_named() -> None:
    found = finding(judgement=judged(Verdict.NOT, 0.2, 13.6, 7.1, Bound.HOST), callback="CSVLogger")

    assert found[1] == "host time takes 7.1 of 20.9 ms/step, most of it callback CSVLogger"


@pytest.mark.parametrize(
    ("bound", "accelerated", "expected"),
    [
        pytest.param(Bound.COMPUTE, True, "The input pipeline is not the limit", id="compute"),
        pytest.param(Bound.COMPUTE, True, "Mixed precision or jit_compile", id="compute on a GPU"),
        pytest.param(Bound.COMPUTE, False, "smaller model", id="compute on a CPU"),
        pytest.param(Bound.LAUNCH, True, "steps_per_execution", id="launch"),
        pytest.param(Bound.LAUNCH, True, "jit_compile", id="launching less"),
        pytest.param(Bound.HOST, True, "log and save less often, larger batches", id="host"),
        pytest.param(Bound.HOST, False, "steps_per_execution", id="calling back less"),
    ],
)
def test_each_limit_has_its_own_advice(bound: Bound, accelerated: bool, expected: str) -> None:
    judgement = judged(Verdict.NOT, 0.1, bound=bound)

    assert expected in finding(judgement=judgement, accelerated=accelerated)[2]


@pytest.mark.parametrize("bound", [Bound.COMPUTE, Bound.LAUNCH])
def test_steps_that_run_op_by_op_are_to_run_as_a_graph(bound: Bound) -> None:
    assert (
        "tf.function" in finding(judgement=judged(Verdict.NOT, 0.1, bound=bound), op_by_op=True)[2]
    )
