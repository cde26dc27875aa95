"""The selftest's second tries, its table and its JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, cast

import pytest

from tfwatch.checks.selftest import WatchCost, cases_json, cost_of, print_table, run_all
from tfwatch.checks.selftest_cases import Case

if TYPE_CHECKING:
    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.checks.selftest_cases import Experiment


COSTS = WatchCost(0.95, -40.0, 2.1, 0.01)


def case(measured: float, error_share: float, name: str = "10 ms") -> Case:
    return Case("wait: tf.data", name, 10.0, measured, "ms", error_share)


def giving(*rounds: list[Case]) -> Experiment:
    """Return an experiment with other cases each time."""
    left = iter(rounds)
    return lambda _: iter(next(left))


def test_the_cost_of_watch_is_the_median_of_the_rounds() -> None:
    rounds = [{"bare": 2.0, "watched": 2.0 + n / 10, "bare again": 2.02} for n in range(3)]

    cost = cost_of(rounds)

    assert (cost.ratio, cost.step_ms) == (1.05, 2.0)
    assert (cost.added_us, cost.noise) == pytest.approx((100.0, 0.01))


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
    first, second = (
        [case(10.1, 0.3, "a"), case(10.5, 1.7, "b")],
        [case(11, 3.0, "a"), case(10.2, 0.6, "b")],
    )

    found = run_all([giving(first, second)], cast("Trainings", None))

    assert [(one.measured, one.tries) for one in found] == [(10.1, 1), (10.2, 2)]


def table(*found: Case) -> list[str]:
    out = StringIO()
    print_table(out, found, COSTS)
    return out.getvalue().splitlines()


def test_a_group_is_a_line_with_its_worst_case() -> None:
    lines = table(
        case(10.1, 0.3, "5 ms"), case(10.2, 0.6), replace(case(10.0, 0.0), case="20 ms", tries=2)
    )

    assert (
        " ".join(lines[1].split())
        == "wait: tf.data 3/3 10.00 ms 10.20 ms +0.20 ms pass, 1 at 2nd try"
    )
    assert lines[-1] == "3 of 3 cases pass, 1 of them at the second try"
    assert any("0.950" in line and "-40 us of 2.10 ms" in line for line in lines)
    assert max(map(len, table(case(10.1, 0.3)))) <= 110
    assert max(map(len, table(case(10.1, 0.3))[:2])) <= 80


def test_every_failure_is_printed_in_full() -> None:
    words = Case("switch: answer", "60 ms [b] in host", "faster", "not found", "", float("inf"))

    lines = table(case(10.1, 0.3), replace(case(10.5, 1.7, "20 ms"), tries=2), words)

    assert [line.strip() for line in lines if "FAIL, twice" in line] == [
        "FAIL, twice: 20 ms: injected 10.00 ms, measured 10.50 ms, error +0.50 ms",
        "FAIL, twice: 60 ms [b] in host: injected faster, measured not found",
    ]
    assert lines[-1] == "1 of 3 cases pass"


def test_a_skipped_case_is_in_no_number_and_has_its_reason() -> None:
    skipped = Case("copy", "uint8, 40 MB", "", "", "", 0.0, skipped="nothing is copied")

    lines, found = (
        table(case(10.1, 0.3), skipped, skipped),
        cases_json([case(10.1, 0.3), skipped], COSTS),
    )

    assert [line.split() for line in lines if "copied" in line] == [
        ["copy", "skip", "nothing", "is", "copied"]
    ]
    assert lines[-1] == "1 of 1 cases pass"
    assert (found["passed"], found["failed"]) == (1, 0)
    assert [one["skipped"] for one in found["cases"]] == ["", "nothing is copied"]


def test_the_json_has_figures_and_no_nan() -> None:
    nothing = Case("wait: tf.data", "5 ms", float("nan"), float("nan"), "ms", float("inf"), 2)

    found = json.loads(json.dumps(cases_json([case(10.2, 0.6), nothing], COSTS), allow_nan=False))

    assert (found["passed"], found["failed"], found["second_try"]) == (1, 1, 0)
    assert found["cases"][0]["error"] == pytest.approx(0.2)
    assert (found["cases"][1]["measured"], found["cases"][1]["tries"]) == (None, 2)
    assert found["cost"] == {"ratio": 0.95, "added_us": -40.0, "step_ms": 2.1, "noise": 0.01}
