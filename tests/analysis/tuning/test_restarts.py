"""The gain of a restart: the end of one run against the beginning of the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.analysis.step_rows import make_steps
from tfwatch.analysis.tuning import switch_text
from tfwatch.analysis.tuning.restarts import Earlier, Restart, Start, changes, earlier_run, restart
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

KNOBS = {"prefetch": "4", "workers": "off"}


def start(batch_size: int | None = 32, knobs: dict[str, str] = KNOBS, **settings: Any) -> Start:
    return Start({"batch_size": batch_size, **settings}, knobs, batch_size)


def steps(count: int, wait_ms: float = 10.0) -> Rows:
    return make_steps(np.full(count, wait_ms))


def switched(step: int) -> PipelineSwitched:
    return PipelineSwitched(0, "prefetch", "off", "4", step, step, 1.0, "key")


def restarted(before: Earlier, now: Start, rows: Rows, *events: PipelineSwitched) -> Restart:
    return restart(before, now, events, len(rows), lambda first, last: rows[first - 1 : last])


def test_changed_settings_are_told_in_order_and_what_was_not_given_has_a_name() -> None:
    before = start(
        32, seed=None, optimizer=None, learning_rate=0.001, mixed_precision=False, mode="graph"
    )
    now = start(64, seed=3, optimizer="sgd", learning_rate=1e-4, mixed_precision=True, mode="graph")
    assert changes(before, now) == (
        KnobChange("mixed_precision", "off", "on"),
        KnobChange("batch_size", "32", "64"),
        KnobChange("optimizer", "adam", "sgd"),
        KnobChange("learning_rate", "0.001", "0.0001"),
        KnobChange("seed", "none", "3"),
    )


def test_a_live_knob_that_starts_otherwise_than_it_ended_is_a_change() -> None:
    before = earlier_run(
        "a", start(knobs={"prefetch": "off", "workers": "off"}), steps(50), [switched(20)]
    )
    assert before.start.knobs == KNOBS
    assert changes(before.start, start()) == ()
    assert changes(before.start, start(knobs={"prefetch": "8"})) == (
        KnobChange("prefetch", "4", "8"),
    )


def test_the_earlier_run_counts_from_its_last_switch_on() -> None:
    rows = np.concatenate([steps(100, 50.0), steps(100, 5.0)])
    rows["flags"][100] = Flag.SWITCH
    before = earlier_run("a", start(), rows, [switched(101)])
    assert before.split is not None
    assert (before.split.steps, before.split.wait.median) == (99, 5.0)


def test_a_setting_in_which_it_was_left_at_once_is_passed_over() -> None:
    """As in an experiment, whose blocks are short."""
    rows = np.concatenate([steps(100, 50.0), steps(100, 5.0), steps(8, 50.0)])
    rows["step"] = np.arange(1, 209)
    rows["flags"][[100, 200]] = Flag.SWITCH
    back = PipelineSwitched(0, "prefetch", "4", "off", 201, 201, 1.0, "experiment")
    before = earlier_run("a", start(knobs={"prefetch": "off"}), rows, [switched(101), back])
    assert before.start.knobs["prefetch"] == "4"
    assert before.split is not None
    assert before.split.wait.median == 5.0
    nothing = earlier_run("a", start(), steps(8), [])
    assert nothing.split is None


def test_steps_are_compared_where_the_batch_is_the_same() -> None:
    found = restarted(
        earlier_run("a", start(mode="graph"), steps(100), []),
        start(mode="jit"),
        make_steps(np.zeros(100)),
    )
    assert found.ratio == pytest.approx(21 / 11)
    assert switch_text.outcome_text(found) == "1.91 x faster (1.91 to 1.91) over 100 steps"
    assert switch_text.comparison_line(found) == "mode graph → jit: 1.91 x faster (1.91 to 1.91)"
    assert switch_text.side_label(found, found.new) == "mode jit"


def test_images_are_compared_where_the_batch_differs() -> None:
    longer = make_steps(np.full(100, 10.0), compute=24.0)
    found = restarted(earlier_run("a", start(32), steps(100), []), start(64), longer)
    assert found.ratio == pytest.approx((21 / 32) / (35 / 64))
    assert (
        switch_text.comparison_line(found)
        == "batch_size 32 → 64: 1.20 x faster per example (1.20 to 1.20)"
    )
    assert (
        switch_text.duration(found, found.before.step.median if found.before else 0)
        == "0.656 ms/example"
    )
    assert switch_text.part_texts(found)[0] == "wait 0.312 → 0.156"


def test_a_batch_size_that_nobody_knows_leaves_steps_to_be_compared() -> None:
    found = restarted(earlier_run("a", start(None), steps(100), []), start(64), steps(100))
    assert not found.per_example
    assert found.ratio == pytest.approx(1.0)


def test_the_new_run_counts_up_to_its_first_switch() -> None:
    rows = np.concatenate([steps(50), steps(50, 500.0)])
    found = restarted(earlier_run("a", start(), steps(100), []), start(), rows, switched(51))
    assert found.after is not None
    assert (found.after.steps, found.settled) == (50, False)
    assert found.ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        pytest.param(100, 0, "0 of 60 steps", id="nothing trained yet"),
        pytest.param(100, 10, "10 of 60 steps", id="too few yet"),
        pytest.param(
            5, 100, "not enough steps before it to compare", id="the earlier run was short"
        ),
        pytest.param(
            0, 100, "not enough steps before it to compare", id="the earlier run had none"
        ),
    ],
)
def test_too_few_steps_give_no_ratio(before: int, after: int, outcome: str) -> None:
    found = restarted(earlier_run("a", start(), steps(before), []), start(seed=1), steps(after))
    assert found.ratio is None
    assert switch_text.outcome_text(found) == outcome


def test_several_changes_are_told_beside_the_bars() -> None:
    found = restarted(
        earlier_run("a", start(), steps(100), []), start(mode="jit", seed=1), steps(100)
    )
    assert (switch_text.side_label(found, found.old), switch_text.side_label(found, found.new)) == (
        "before",
        "after",
    )
    assert switch_text.changes_text(found.changes) == "mode graph → jit, seed none → 1"
    nothing = restarted(earlier_run("a", start(), steps(100), []), start(), steps(100))
    assert switch_text.changes_text(nothing.changes) == "nothing changed"


def test_a_name_that_has_no_room_is_left_out() -> None:
    found = restarted(
        earlier_run("a", start(), steps(100), []), start(steps_per_execution=8), steps(100)
    )
    assert switch_text.side_label(found, found.new) == "8"
