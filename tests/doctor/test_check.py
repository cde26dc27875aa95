"""The texts, order and counts of checks."""

from __future__ import annotations

import pytest

from tfwatch.doctor.check import Check, Status, counted, worst, worst_first

_CHECKS = [
    Check(f"{n}", status, "x")
    for n, status in enumerate([Status.NA, Status.OK, Status.FAIL, Status.OK, Status.WARN])
]


def test_the_worst_checks_come_first_and_equals_keep_their_order() -> None:
    assert [check.id for check in worst_first(_CHECKS)] == ["2", "4", "1", "3", "0"]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (_CHECKS, Status.FAIL),
        (_CHECKS[3:], Status.WARN),
        (_CHECKS[:2], Status.OK),
        (_CHECKS[:1], Status.OK),
        ([], Status.OK),
    ],
)
def test_worst_returns_the_worst_status(checks: list[Check], expected: Status) -> None:
    assert worst(checks) is expected


def test_checks_are_counted_by_status() -> None:
    assert counted(_CHECKS) == "1 failed, 1 warning, 2 ok, 1 n/a"


def test_control_characters_are_removed_from_texts() -> None:
    check = Check("x", Status.OK, "a\x1b[31m\nb\t c\x07", "\u202ed" + "e" * 5000)

    assert check.found == "a [31m b c"
    assert check.todo.startswith("d")
    assert len(check.todo) < 1000
