"""The comparison of Keras' own tests with and without Watch, over results as its plugin writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.keras_suite import chunks, files_that_fit, verdicts


def result(outcome: str, loss: float = 0.5) -> dict[str, Any]:
    return {
        "Test::test_fit": {"phases": [["call", outcome, ""]], "trained": [str(loss)], "fits": 1}
    }


def test_a_difference_that_repeats_differs() -> None:
    known = {
        "bare": result("passed"),
        "watched": result("failed"),
        "again": [result("passed"), result("failed")],
    }
    assert verdicts(known) == {"Test::test_fit": "differs"}


def test_another_loss_differs_although_both_tests_passed() -> None:
    known = {
        "bare": result("passed"),
        "watched": result("passed", 0.6),
        "again": [result("passed"), result("passed", 0.6)],
    }
    assert verdicts(known) == {"Test::test_fit": "differs"}


def test_a_test_that_does_not_repeat_itself_is_unstable() -> None:
    known = {
        "bare": result("passed"),
        "watched": result("failed"),
        "again": [result("failed"), result("failed")],
    }
    assert verdicts(known) == {"Test::test_fit": "unstable"}


def test_a_test_that_fails_both_ways_is_equal() -> None:
    assert verdicts({"bare": result("failed"), "watched": result("failed"), "again": []}) == {}


def test_a_test_that_never_ran_under_watch_differs() -> None:
    assert verdicts({"bare": result("passed"), "watched": {}, "again": []}) == {
        "Test::test_fit": "differs"
    }


def test_files_of_one_name_never_share_a_process() -> None:
    files = [Path("a/one_test.py"), Path("b/one_test.py"), Path("c/two_test.py")]
    assert list(chunks(files, 8)) == [[files[0], files[2]], [files[1]]]


def test_only_files_that_fit_with_tensorflow_are_run(tmp_path: Path) -> None:
    for name, text in (
        ("a_test.py", "model.fit(x)"),
        ("b_test.py", "x"),
        ("jax/c_test.py", "m.fit(x)"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert files_that_fit(tmp_path, []) == [tmp_path / "a_test.py"]
