"""A run that continues another one: its weights, and the comparison of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_cli import _taken
from tests.commands.fakes import factories, order
from tfwatch import cli
from tfwatch.commands import replay as replay_module
from tfwatch.commands.factories import Factories
from tfwatch.commands.replay import ReplayOptions
from tfwatch.commands.training.train import train
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import Noted
from tfwatch.core.knobs import Knobs
from tfwatch.live.earlier_runs import earlier_of, restart_of
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run
from tfwatch.training.request import Plan, TrainRequest
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from pathlib import Path


def test_weights_and_the_previous_run_reach_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = _taken(monkeypatch)
    assert cli.main(["train", "cnn", "--begin-with", str(tmp_path / "x.h5"), "--after", "cnn"]) == 0
    assert (orders[0].plan.start_weights, orders[0].after) == (tmp_path / "x.h5", "cnn")


def test_the_run_to_continue_from_must_exist(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="--after: no run 'x' in "):
        train(order(tmp_path, headless=True, after="x"), factories())
    assert list_runs(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        pytest.param("none.weights.h5", None, "there is no file {}", id="no file"),
        pytest.param(
            "empty.weights.h5",
            b"",
            "{} is not a file of weights: give a .weights.h5 of Keras",
            id="empty",
        ),
        pytest.param(
            "a.weights.h5",
            b"PK\3\4",
            "{} is not a file of weights: give a .weights.h5 of Keras",
            id="a zip",
        ),
        pytest.param(
            "model.h5",
            b"\x89HDF\r\n\x1a\n\0",
            "{} is not a file of weights: give a .weights.h5 of Keras",
            id="one that Keras does not load by its name",
        ),
    ],
)
def test_missing_weights_are_reported_before_tensorflow_is_imported(
    name: str, content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    plan = Plan("cnn", Settings(), Knobs(), start_weights=path)

    with pytest.raises(BadInputError) as bad:
        train(TrainRequest(plan, tmp_path, headless=True), factories())

    assert str(bad.value) == f"--begin-with: {sentence.format(path)}"
    assert list_runs(tmp_path) == []


def test_a_restarted_run_is_compared_with_the_previous_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(order(tmp_path, headless=True), factories(steps=70))
    (first,) = list_runs(tmp_path)
    ordered = order(tmp_path, headless=True, after=str(first))
    ordered = replace(ordered, plan=replace(ordered.plan, settings=Settings(batch_size=64)))
    train(ordered, factories(steps=70))
    second = open_run(list_runs(tmp_path)[0])
    assert second.manifest.after == first.name
    notes = [event.text for event in second.events if isinstance(event, Noted)]
    assert f"restarted after {first.name}: batch_size 32 → 64" in notes
    gave = restart_of(second)
    assert gave
    assert gave.run == first.name
    assert gave.per_example
    assert gave.ratio == pytest.approx(2.0)
    out = capfd.readouterr().out
    assert (
        "restarted, batch_size 32 → 64: 2.00 x faster per example (2.00 to 2.00), 0.312 ms/example to 0.156"
        in out
    )


def test_a_replay_spans_the_restart_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    train(order(tmp_path, headless=True), factories(steps=5))
    (first,) = list_runs(tmp_path)
    train(order(tmp_path, headless=True, after=first.name), factories(steps=5))
    monkeypatch.setattr(replay_module, "why_no_screen", lambda _: "")
    monkeypatch.setattr(replay_module, "show_app", lambda make: make())
    seen: list[dict[str, Any]] = []
    replay_module.replay(
        ReplayOptions(None, tmp_path),
        Factories(app=lambda *_, **options: seen.append(options)),  # type: ignore[arg-type]
    )
    assert seen[0]["earlier"].run == first.name


def test_a_deleted_previous_run_is_no_error(tmp_path: Path) -> None:
    train(order(tmp_path, headless=True), factories(steps=5))
    (first,) = list_runs(tmp_path)
    train(order(tmp_path, headless=True, after=first.name), factories(steps=5))
    second = open_run(list_runs(tmp_path)[0])
    (first / "run.json").write_text("{")
    assert earlier_of(second.manifest, second.path) is None
    assert restart_of(second) is None
