"""The selftest over synthetic trainings: right figures pass, wrong ones fail, and noise is tried
twice."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from tests.checks.made_up import outcome, trained
from tests.judge.step_rows import make_steps, plain
from tfwatch.checks import selftest_cases as cases
from tfwatch.checks.selftest import WatchCost, cases_json, cost_of, run_all, table
from tfwatch.checks.selftest_cases import Case, PartComparison, Schedule
from tfwatch.core.events import PipelineSwitched
from tfwatch.judge.effects.comparison import Comparison

if TYPE_CHECKING:
    from tfwatch.checks.selftest_cases import Experiment, Trainings

# -- the cases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "injected_ms", "measured_ms", "passes"),
    [
        ("wait", 10.0, 10.29, True),
        ("wait", 10.0, 10.31, False),
        ("wait", 10.0, 9.69, False),
        ("wait", 40.0, 40.79, True),
        ("wait", 40.0, 40.81, False),
        ("wait", float("nan"), float("nan"), False),
        ("compute", 5.0, 6.4, True),
        ("compute", 5.0, 6.6, False),
    ],
)
def test_a_part_passes_within_its_tolerance(
    part: str, injected_ms: float, measured_ms: float, passes: bool
) -> None:
    made = trained(plain(50), comparison=PartComparison(part, 10.0, injected_ms, measured_ms))

    assert list(outcome(cases._split(Schedule()), made).values()) == [passes, True]


def test_parts_that_do_not_sum_to_the_wall_time_fail() -> None:
    found = outcome(cases._split(Schedule()), trained(plain(50), wall_error=0.0011))

    assert found == {"parts sum to the wall clock, tf.data": False}


@pytest.mark.parametrize(
    ("copy", "passes"),
    [
        ((10.0, 10.9), True),
        ((10.0, 11.1), False),
        ((1.0, 1.29), True),
        ((1.0, 0.69), False),
        ((10.0, float("nan")), False),
    ],
)
def test_a_copy_passes_within_its_tolerance(copy: tuple[float, float], passes: bool) -> None:
    found = outcome(cases._copy("uint8", 40), trained(plain(1)), copy)

    assert found == {"copy to the GPU, 40 MB of uint8": passes}


@pytest.mark.parametrize(("after_ms", "passes"), [(8.0, True), (9.0, False)])
def test_a_claim_about_equal_settings_fails(after_ms: float, passes: bool) -> None:
    noise = np.random.default_rng(0).normal(1, 0.02, 240)
    rows = make_steps(np.zeros(240), compute=np.repeat([8.0, after_ms], 120) * noise, host=0.1)
    switch = PipelineSwitched(0, "prefetch", "4", "8", 120, 121, 1.0, "script")

    assert list(outcome(cases._equal_settings, trained(rows, switch)).values()) == [passes]


def test_a_run_without_a_comparison_fails() -> None:
    assert not any(outcome(cases._switches, trained(plain(130))).values())


@pytest.mark.parametrize("answers", [True, False])
def test_a_difference_that_is_not_claimed_fails(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).normal(1, 0.01, 130)
    waits = np.concatenate([np.full(45, 8.0), np.full(45, 0.1), np.full(40, 8.0)])
    rows = make_steps(waits, compute=20.0 * noise, host=0.1)
    switches = [
        PipelineSwitched(0, "prefetch", "off", "4", 45, 46, 1.0, "script"),
        PipelineSwitched(0, "prefetch", "4", "off", 90, 91, 1.0, "script"),
    ]
    if not answers:
        monkeypatch.setattr(Comparison, "answer", "unclear")

    found = outcome(cases._switches, trained(rows, *switches))

    claims = [passed for name, passed in found.items() if name.endswith("answer")]
    assert claims == [answers, answers]


# -- second tries, the table and the JSON ----------------------------------------------------------

COSTS = WatchCost(0.95, -40.0, 2.1, 0.01)


def case(measured: float, error_share: float, name: str = "wait, 10 ms") -> Case:
    return Case(name, 10.0, measured, "ms", error_share)


def giving(*rounds: list[Case]) -> Experiment:
    """Return an experiment with other cases each time."""
    left = iter(rounds)
    return lambda _: iter(next(left))


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([[case(10.1, 0.3)]], (10.1, True, 1), id="at once"),
        pytest.param([[case(10.5, 1.7)], [case(10.1, 0.3)]], (10.1, True, 2), id="noise"),
        pytest.param([[case(10.5, 1.7)], [case(10.6, 2.0)]], (10.6, False, 2), id="an error"),
        pytest.param([[case(10.5, 1.7)], []], (10.5, False, 2), id="nothing the second time"),
    ],
)
def test_a_failure_is_run_once_more(
    rounds: list[list[Case]], expected: tuple[float, bool, int]
) -> None:
    (found,) = run_all([giving(*rounds)], cast("Trainings", None))

    assert (found.measured, found.passed, found.tries) == expected


def test_a_case_that_passed_is_not_run_again() -> None:
    first = [case(10.1, 0.3, "a"), case(10.5, 1.7, "b")]
    second = [case(11, 3.0, "a"), case(10.2, 0.6, "b")]

    found = run_all([giving(first, second)], cast("Trainings", None))

    assert [(one.measured, one.tries) for one in found] == [(10.1, 1), (10.2, 2)]


def test_the_cost_of_watch_is_the_median_of_the_rounds() -> None:
    rounds = [{"bare": 2.0, "watched": 2.0 + n / 10, "bare again": 2.02} for n in range(3)]

    cost = cost_of(rounds)

    assert (cost.ratio, cost.step_ms) == (1.05, 2.0)
    assert (cost.added_us, cost.noise) == pytest.approx((100.0, 0.01))


def test_each_case_is_a_line_and_a_skipped_one_is_in_no_number() -> None:
    cases = [
        replace(case(10.1, 0.3), tries=2),
        case(10.5, 1.7, "wait, 20 ms"),
        Case("prefetch 4: answer", "faster", "unclear", "", float("inf")),
        Case("copy", "", "", "", 0.0, skipped="nothing is copied"),
    ]
    lines = [" ".join(line.split()) for line in table(cases, COSTS)]

    assert lines == [
        "pass wait, 10 ms 10.00 ms 10.10 ms +0.10 ms",
        "FAIL wait, 20 ms 10.00 ms 10.50 ms +0.50 ms",
        "FAIL prefetch 4: answer faster unclear",
        "skip copy: nothing is copied",
        "",
        (
            "Watch: a step takes 0.950 of its time without Watch (-40 us of 2.10 ms; two runs"
            " without it differ by 0.010)"
        ),
        "1 of 3 cases pass, 1 of them at the second try",
    ]


def test_the_json_has_figures_and_no_nan() -> None:
    nothing = Case("wait, 5 ms", float("nan"), float("nan"), "ms", float("inf"), 2)
    skipped = Case("copy", "", "", "", 0.0, skipped="nothing is copied")

    found = cases_json([case(10.2, 0.6), nothing, skipped], COSTS)

    assert json.dumps(found, allow_nan=False)
    assert (found["passed"], found["failed"]) == (1, 1)
    assert found["cases"][0]["error"] == pytest.approx(0.2)
    assert (found["cases"][1]["measured"], found["cases"][1]["tries"]) == (None, 2)
    assert found["cases"][2]["skipped"] == "nothing is copied"
    assert found["cost"] == {"ratio": 0.95, "added_us": -40.0, "step_ms": 2.1, "noise": 0.01}
