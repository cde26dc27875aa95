"""Requests in the run folder of a script's own `fit` and loop."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.keras_fixtures import fingerprint
from tests.runs.processes import wait_until
from tests.runs.requested import planned, switch
from tests.watch.watched import Make, known
from tests.whole import events_of
from tfwatch import track
from tfwatch.core.events import (
    Event,
    ExperimentBegan,
    ExperimentEnded,
    PipelineSwitched,
    RunEnded,
    StopRefused,
    SwitchFailed,
)
from tfwatch.runs.control import NO_FIT, OWN_LOOP
from tfwatch.runs.format import REQUESTS
from tfwatch.runs.requests import Request, StopRequest, append
from tfwatch.runs.run import open_run
from tfwatch.tuner.client import Tuner
from tfwatch.tuner.experiment import Experiment

pytestmark = pytest.mark.tensorflow


def after_batch(number: int, work: Callable[[], object]) -> Any:
    """Return a callback that does something once, after a batch."""
    done: list[object] = []

    def on_train_batch_end(batch: int, logs: Any = None) -> None:
        if batch == number and not done:
            done.append(work())

    return keras.callbacks.LambdaCallback(on_train_batch_end=on_train_batch_end)


def requested(watch: Any, *requests: Request) -> None:
    """Append requests to the run of the present `fit`, and wait until its writer has taken them."""
    folder = watch.run_path
    for request in requests:
        append(folder, request)
    taker = watch._run.script._requests
    wait_until(lambda: taker._file and taker._file.offset == (folder / REQUESTS).stat().st_size)


def test_switched_in_mid_epoch_and_at_planned_steps_the_result_is_the_same(
    make_model: Make, watch: Any
) -> None:
    def trained(*callbacks: Any) -> Any:
        model = make_model()
        return fingerprint(
            model, model.fit(known(), epochs=3, verbose=0, callbacks=list(callbacks))
        )

    requests = (
        switch("prefetch", "2"),
        planned(30, "prefetch", "4"),
        planned(33, "prefetch", "off"),
    )
    found = trained(watch, after_batch(1, lambda: requested(watch, *requests)))

    assert found == trained()
    switched = events_of(open_run(watch.run_path), PipelineSwitched)
    assert [(event.new, event.by) for event in switched] == [
        ("2", "key"),
        ("4", "command"),
        ("off", "command"),
    ]
    assert [event.asked_step for event in switched[1:]] == [30, 33]


def test_a_stop_ends_one_fit_and_not_the_next(make_model: Make, watch: Any) -> None:
    model = make_model()
    stop = after_batch(3, lambda: requested(watch, StopRequest("key")))

    model.fit(known(), epochs=3, verbose=0, callbacks=[watch, stop])
    run = open_run(watch.run_path)
    history = model.fit(known(), epochs=2, verbose=0, callbacks=[watch])

    assert len(run.steps) in (4, 5)
    assert [(event.cause, event.detail) for event in events_of(run, RunEnded)] == [
        ("stopped", "stopped at the next batch")
    ]
    assert len(history.history["loss"]) == 2


@pytest.mark.parametrize(
    ("job", "until"),
    [
        (Experiment("prefetch", ("default", "2"), 600), ExperimentEnded),
        (Experiment("prefetch", ("default", "2")), ExperimentBegan),
    ],
    ids=["to its end", "outlasts the fit"],
)
def test_an_experiment_of_another_terminal_runs_on_a_script_and_ends_with_its_fit(
    job: Experiment, until: type[Event], make_model: Make, watch: Any
) -> None:
    model = make_model()
    tuner = Tuner(lambda: watch.run_path)

    def stop_once_it_has(epoch: int, logs: Any) -> None:
        model.stop_training = bool(events_of(open_run(watch.run_path), until))

    until_then = keras.callbacks.LambdaCallback(on_epoch_end=stop_once_it_has)
    ask = after_batch(3, lambda: tuner.begin(job))
    model.fit(known(), epochs=1000, verbose=0, callbacks=[watch, ask, until_then])
    watch._newest_run.script.end_rest()
    watch._newest_run.script.close()
    tuner.close()

    run = open_run(watch.run_path)
    (ended,) = events_of(run, ExperimentEnded)
    assert ended.knob == "prefetch"
    assert (ended.cause == "ended") is (until is ExperimentBegan)
    is_switched = any(event.by == "experiment" for event in events_of(run, PipelineSwitched))
    assert is_switched or until is ExperimentBegan


def test_between_two_short_fits_a_request_is_refused(
    make_model: Make, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tfwatch.watch.fit.fit_runs.SHORT_S", 1e6
    )  # on a busy machine a fit takes long to compile
    model = make_model()
    for _ in range(2):
        model.fit(known(), verbose=0, callbacks=[watch])
    folder = watch.run_path
    assert folder

    append(folder, switch("prefetch", "4"))
    wait_until(lambda: events_of(open_run(folder), SwitchFailed))

    assert [event.reason for event in events_of(open_run(folder), SwitchFailed)] == [NO_FIT]
    watch._newest_run.script.end_rest()
    watch._newest_run.script.close()


def test_a_loop_of_the_scripts_own_is_followed_and_not_changed(
    tmp_path: Path, all_runs_ended: None
) -> None:
    tracked, held = track(range(5), runs_dir=tmp_path), threading.Event()
    for number in tracked:
        folder = tracked.run_path
        assert folder
        if number == 2:
            append(folder, switch("prefetch", "4"))
            append(folder, StopRequest("key"))
            while not events_of(open_run(folder), StopRefused):
                held.wait(0.05)

    assert tracked.run_path
    run = open_run(tracked.run_path)
    assert [event.reason for event in events_of(run, SwitchFailed)] == [OWN_LOOP]
    assert [event.reason for event in events_of(run, StopRefused)] == [OWN_LOOP]
    assert len(run.steps) == 5


_SCRIPT = """
import keras, numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((64, 2)), np.zeros((64, 1)), verbose=0)
import sys
rooms = ("judge", "tuner", "report", "screens", "app", "doctor", "fix", "cli")
loaded = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("tfwatch.")}
print("JUDGING:", sorted(loaded & {f"tfwatch.{room}" for room in rooms}), "textual" in sys.modules)
print("WATCHED:", "tfwatch.watch" in loaded)
"""


def test_the_process_of_a_script_only_measures(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT)
    words = ["-m", "tfwatch", "run", "--headless", "--runs-dir", str(tmp_path / "runs")]
    done = subprocess.run(
        [sys.executable, *words, str(script)], capture_output=True, text=True, check=True
    )

    assert "JUDGING: [] False" in done.stdout, done.stdout
    assert "WATCHED: True" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    assert len(open_run(run).steps) == 2
