"""Runs that cannot be compared, and the facts in which sides differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfwatch.judge.comparing.comparability import (
    NotComparableError,
    SideDifference,
    Subject,
    are_equal,
    changes,
    check_sides,
)
from tfwatch.judge.comparing.measured_runs import arguments_by_name

FIRST = Subject(
    name="one",
    path="/runs/one",
    workload="cnn",
    batch_size=32,
    settings={"mode": "graph", "prefetch": "off", "seed": "1"},
    versions={"tensorflow": "2.20.0"},
    host="ada",
    hardware=(8, None, 16e9),
    device="GPU A100",
    start_s=0.0,
    steady_steps=500,
)
SECOND = replace(FIRST, name="two", path="/runs/two")


def refusal(*sides: list[Subject], by_example: bool = False) -> str:
    with pytest.raises(NotComparableError) as found:
        check_sides(sides, by_example, least_steps=45)
    return str(found.value)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        pytest.param(
            replace(SECOND, workload="dense"), "trained different workloads", id="workload"
        ),
        pytest.param(replace(SECOND, batch_size=64), "--by-example", id="batch size"),
        pytest.param(
            replace(SECOND, host="eve", hardware=(4, None, 8e9)),
            "are different machines",
            id="machine",
        ),
        pytest.param(
            replace(SECOND, host="eve", device="GPU H100"),
            "are different machines",
            id="device of a host",
        ),
        pytest.param(replace(SECOND, steady_steps=44), "two has 44 steady steps", id="length"),
        pytest.param(
            replace(SECOND, steady_steps=1), "two has 1 steady step with", id="length of one step"
        ),
        pytest.param(FIRST, "one is given twice", id="itself"),
    ],
)
def test_a_run_that_cannot_be_compared(second: Subject, reason: str) -> None:
    assert reason in refusal([FIRST], [second])


def test_the_runs_of_a_side_are_equal_but_for_the_seed() -> None:
    prefetching = replace(SECOND, settings={**FIRST.settings, "prefetch": "4"})
    seeded = replace(SECOND, settings={**FIRST.settings, "seed": "2"})
    third = replace(FIRST, name="three", path="/runs/three")

    assert (
        refusal([FIRST, prefetching], [third])
        == "one and two are on one side, but prefetch is off and 4"
    )
    check_sides([[FIRST, seeded], [third]], by_example=False, least_steps=45)


def test_batch_sizes_may_differ_by_example_where_both_are_known() -> None:
    check_sides([[FIRST], [replace(SECOND, batch_size=64)]], by_example=True, least_steps=45)

    assert "batch size of two is unknown" in refusal(
        [FIRST], [replace(SECOND, batch_size=None)], by_example=True
    )


def test_hosts_with_the_same_hardware_are_compared() -> None:
    check_sides([[FIRST], [replace(SECOND, host="eve")]], by_example=False, least_steps=45)


def test_only_what_differs_is_listed() -> None:
    second = replace(
        SECOND,
        settings={**FIRST.settings, "prefetch": "4"},
        versions={"tensorflow": "2.21.0"},
        host="eve",
    )

    assert changes([FIRST], [second]) == [
        SideDifference("setting", "prefetch", "off", "4"),
        SideDifference("version", "tensorflow", "2.20.0", "2.21.0"),
        SideDifference("machine", "host", "ada", "eve"),
    ]


def test_equal_runs_of_the_past_have_all_settings_in_common() -> None:
    assert are_equal(FIRST, SECOND)
    assert not are_equal(FIRST, replace(SECOND, versions={"tensorflow": "2.21.0"}))
    assert not are_equal(FIRST, replace(SECOND, host="eve"))


def test_the_arguments_of_a_workload_are_settings_by_name() -> None:
    assert arguments_by_name("--seed 1 --eager --batch-size=64 --jit") == {
        "seed": "1",
        "eager": "on",
        "batch_size": "64",
        "jit": "on",
    }
    assert arguments_by_name("") == {}
