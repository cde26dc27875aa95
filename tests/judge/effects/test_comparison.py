from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tests.judge.step_rows import make_steps
from tfwatch.core.events import (
    Event,
    ExperimentEnded,
    PipelineSwitched,
    SwitchAsked,
)
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.effects.comparison import (
    Comparison,
    KnownComparisons,
    compare,
    find_better_settings,
)
from tfwatch.judge.effects.wording import outcome_text


class Recorded:
    """Steps on disk, which remembers what was read of them."""

    def __init__(self, waits: list[float]) -> None:
        self.rows = make_steps(np.array(waits), compute=10.0, host=0.0)
        self.reads: list[tuple[int, int]] = []

    def between(self, first: int, last: int) -> Rows:
        self.reads.append((first, last))
        return self.rows[first - 1 : last]

    def compare(self, *events: Event, known: KnownComparisons | None = None) -> list[Comparison]:
        return compare(events, len(self.rows), self.between, known)


def asked(step: int, new: str = "4", knob: str = "prefetch") -> SwitchAsked:
    return SwitchAsked(at_ns=step * 10, knob=knob, old="off", new=new, step=step, by="key")


def switched(
    step: int, asked_step: int, new: str = "4", knob: str = "prefetch"
) -> PipelineSwitched:
    return PipelineSwitched(
        at_ns=step * 10,
        knob=knob,
        old="off",
        new=new,
        asked_step=asked_step,
        step=step,
        took_ms=5.0,
        by="key",
    )


def test_steps_from_the_switch_on_are_compared_with_those_before() -> None:
    run = Recorded([10.0] * 100 + [0.0] * 100)
    run.rows["flags"][100] = Flag.SWITCH

    (found,) = run.compare(asked(98), switched(101, 98))

    assert (found.knob, found.old, found.new, found.by) == ("prefetch", "off", "4", "key")
    assert (found.asked_step, found.step) == (98, 101)
    assert found.before is not None
    assert found.after is not None
    assert (found.before.steps, found.before.step.median) == (100, 20)
    assert (found.after.steps, found.after.step.median) == (99, 10)
    assert found.estimate
    assert found.estimate.ratio == pytest.approx(2)
    assert found.settled


def test_a_wait_of_every_fourth_step_is_in_the_ratio_though_no_median_holds_it() -> None:
    run = Recorded([0.0, 0.0, 0.0, 40.0] * 25 + [0.0] * 100)
    run.rows["flags"][100] = Flag.SWITCH

    (found,) = run.compare(asked(98), switched(101, 98))

    assert found.before is not None
    assert found.in_bursts
    assert found.before.step.median == 10
    assert found.typical(found.before.step) == pytest.approx(20)
    assert found.estimate
    assert found.estimate.ratio == pytest.approx(2)


@pytest.mark.parametrize(
    ("steps_after", "has_ratio", "settled"),
    [(19, False, False), (20, True, False), (59, True, False), (60, True, True)],
)
def test_a_ratio_takes_20_steps_and_settling_60(
    steps_after: int, has_ratio: bool, settled: bool
) -> None:
    run = Recorded([10.0] * (100 + steps_after))

    (found,) = run.compare(asked(98), switched(101, 98))

    assert (found.effect is not None) is has_ratio
    assert found.settled is settled


def test_each_side_is_600_steps_at_most() -> None:
    run = Recorded([10.0] * 3000)

    (found,) = run.compare(asked(1990), switched(2000, 1990))

    assert run.reads == [(1400, 1999), (2000, 2599)]
    assert found.before is not None
    assert found.before.steps == 600


def test_switches_in_a_row_end_each_others_sides() -> None:
    run = Recorded([10.0] * 100 + [5.0] * 3 + [0.0] * 97)

    first, second = run.compare(
        asked(99), switched(101, 99), asked(102, "8"), switched(104, 102, "8")
    )

    assert first.after is not None
    assert second.before is not None
    assert (first.after.steps, first.effect, first.settled) == (3, None, False)
    assert (second.before.steps, second.effect) == (3, None)
    assert second.after is not None
    assert second.after.steps == 97


def test_knobs_that_change_at_one_step_share_its_sides_and_none_is_credited() -> None:
    run = Recorded([10.0] * 100 + [0.0] * 100)

    prefetch, workers = run.compare(
        asked(99), asked(99, "2", "workers"), switched(101, 99), switched(101, 99, "2", "workers")
    )

    assert prefetch.before == workers.before
    assert prefetch.after == workers.after
    assert (prefetch.effect, workers.effect) == (None, None)
    assert (prefetch.beside, workers.beside) == ("workers", "prefetch")
    assert outcome_text(prefetch) == "switched together with workers: no ratio of its own"


def test_a_cache_is_compared_with_the_steps_before_it_was_filled() -> None:
    run = Recorded([10.0] * 50 + [15.0] * 50 + [0.0] * 100)
    (found,) = run.compare(asked(50, "on", "cache"), switched(101, 50, "on", "cache"))
    assert found.before is not None
    assert (found.before.steps, found.before.step.median) == (50, 20)
    assert found.estimate
    assert found.estimate.ratio == pytest.approx(2)


def test_sides_that_grow_no_more_are_read_once() -> None:
    run, known = Recorded([10.0] * 900), dict[tuple[int, str], Comparison]()
    events = (asked(99), switched(101, 99), asked(299), switched(301, 299))
    fresh = run.compare(*events, known=known)
    run.reads.clear()

    again = run.compare(*events, known=known)

    assert again == fresh
    assert run.reads == []


def test_switches_of_an_experiment_are_compared_by_it_and_bound_the_sides_of_others() -> None:
    run = Recorded([10.0] * 50 + [0.0] * 50 + [10.0] * 50)
    tried = [
        replace(switched(51, 50), by="experiment"),
        replace(switched(76, 75, "off"), by="experiment"),
    ]

    (found,) = run.compare(
        *tried, replace(asked(90), by="experiment"), asked(100, "2"), switched(101, 100, "2")
    )

    assert (found.new, found.before and found.before.steps) == ("2", 25)


def test_the_newest_proof_says_which_setting_is_slower() -> None:
    run = Recorded([10.0] * 100 + [0.0] * 100 + [5.0] * 100 + [5.0] * 100)
    switches = run.compare(
        switched(101, 100, "4"),
        replace(switched(201, 200, "8"), old="4"),
        switched(301, 300, "2", "workers"),
    )
    assert [switch.answer for switch in switches] == ["faster", "slower", "same"]
    assert find_better_settings(switches, []) == {("prefetch", "off"): "4", ("prefetch", "8"): "4"}

    tested = ExperimentEnded(
        0,
        "prefetch",
        ("4", "8"),
        400,
        900,
        "clear",
        "faster",
        9,
        400,
        "8",
        ratio=1.2,
        low=1.1,
        high=1.3,
    )
    assert find_better_settings(switches, [tested]) == {
        ("prefetch", "off"): "4",
        ("prefetch", "4"): "8",
    }
