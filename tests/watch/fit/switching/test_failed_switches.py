"""A switch that fails half-way is never recorded as made, and changes no training."""

import itertools
import threading
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.watch.fit.switching.test_script_pipeline import at_once
from tests.watch.watched import fit_result, stock_result, watch_in
from tests.whole import events_of, only
from tfwatch.core.events import Noted, PipelineSwitched, SwitchFailed
from tfwatch.core.knobs import Refusal
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.tfdata import pipeline_tree
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.watch.fit.fetch import Fetch

pytestmark = pytest.mark.tensorflow


def _raises(*_: Any) -> None:
    raise RuntimeError("no room")


def switched(folder: Path, steps_per_execution: int, **settings: list[Any]) -> Snapshot:
    """Return the run of a `fit` with a switch after each call of the first epoch; its result is the
    stock one's."""
    watch = watch_in(folder)
    ((knob, values),) = settings.items()
    switch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: values and watch.set(**{knob: values.pop(0)})
    )
    found = fit_result(at_once, watch, switch, steps_per_execution=steps_per_execution)
    assert found == stock_result(at_once, steps_per_execution=steps_per_execution)
    assert watch.run_path
    return open_run(watch.run_path)


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_the_scripts_own_pipeline_continues_where_the_new_one_does_not_take_over(
    steps_per_execution: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SwitchablePipeline, "take_over", _raises)
    run = switched(tmp_path, steps_per_execution, prefetch=[2, 4])
    made = [(event.old, event.new, event.by) for event in events_of(run, PipelineSwitched)]
    assert made == [("default", "2", "code"), ("2", "default", "data")]
    failed = only(run, SwitchFailed)
    assert (failed.old, failed.new, failed.now) == ("2", "4", "default")
    assert failed.reason == "RuntimeError: no room"
    noted = [event.text for event in events_of(run, Noted)]
    why = "the script's own pipeline continues: RuntimeError: no room"
    assert f"a part of the record is missing: {why}" in noted


def test_a_switch_whose_gate_does_not_close_leaves_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = SwitchablePipeline.start

    def start_stuck(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        self._open = _StuckGate(self._open)

    monkeypatch.setattr(SwitchablePipeline, "start", start_stuck)
    run = switched(tmp_path, 1, prefetch=[2, 4, 3])
    assert [event.new for event in events_of(run, PipelineSwitched)] == ["2", "3"]
    assert (only(run, SwitchFailed).new, only(run, SwitchFailed).now) == ("4", "2")


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_an_epoch_that_tfwatch_leaves_to_keras_after_a_rebuilt_one_is_trained(
    steps_per_execution: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use_rebuilt(self: Fetch, iterator: Any) -> Any:
        shape = use(self, iterator)
        if next(epochs):
            _raises()
        return shape

    epochs, use = itertools.count(), Fetch.use_iterator
    monkeypatch.setattr(Fetch, "use_iterator", use_rebuilt)
    run = switched(tmp_path, steps_per_execution, workers=[2])
    assert run.manifest.not_split == "no room"
    assert events_of(run, PipelineSwitched)[-1].by == "data"


class _StuckGate:
    """A gate that does not close at the first try."""

    def __init__(self, gate: Any) -> None:
        self._gate, self._tries = gate, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    def assign(self, is_open: bool) -> None:
        self._tries += not is_open
        if not is_open and self._tries == 1:
            _raises()
        self._gate.assign(is_open)


def test_while_the_file_of_a_cache_is_written_a_switch_is_refused_and_no_step_asks_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfwatch.watch.fit.switching import script_pipeline

    def writes(dataset: Any) -> bool:
        asked.append(threading.current_thread())
        return pipeline_tree.writes_cache_file(dataset)

    asked: list[threading.Thread] = []
    monkeypatch.setattr(script_pipeline, "writes_cache_file", writes)
    watch = watch_in(tmp_path / "runs")
    switch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batch == 1 and watch.set(prefetch=2)
    )

    def cached(arrays: Any) -> Any:
        return at_once(arrays).cache(str(tmp_path / f"file{len(asked)}"))

    watched, stock = (fit_result(cached, *each, epochs=3) for each in ([watch, switch], []))
    assert watched == stock
    run = open_run(watch.run_path)
    assert [event.reason for event in events_of(run, SwitchFailed)] == [Refusal.CACHE_FILE.words]
    assert [event.new for event in events_of(run, PipelineSwitched)] == ["2"]
    assert asked == [threading.main_thread()] * 3, "once an epoch"
