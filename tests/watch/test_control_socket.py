"""Requests of another process to a script's own `fit` and loop."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.keras_fixtures import fingerprint
from tests.runs.processes import wait_until
from tests.watch.watched import Make, known, watch_in
from tests.whole import events_of
from tfwatch.core.events import ExperimentEnded, PipelineSwitched, RunEnded
from tfwatch.runs.control.client import ControlClient, NoAnswerError
from tfwatch.runs.control.messages import AskStop, AskSwitch
from tfwatch.runs.control.requests import Experiment, Refused, Request
from tfwatch.runs.control.server import NO_FIT, OWN_LOOP, Limits
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.tensorflow


def after_batch(number: int, work: Callable[[], object]) -> Any:
    """Return a callback that does something once, after a batch."""
    import keras

    done: list[object] = []

    def on_train_batch_end(batch: int, logs: Any = None) -> None:
        if batch == number and not done:
            done.append(work())

    return keras.callbacks.LambdaCallback(on_train_batch_end=on_train_batch_end)


def path_of(watch: Any) -> str:
    """Return the socket's path of the run that the present `fit` writes."""
    script = watch._run.script
    wait_until(lambda: script.writer.manifest().control_socket)
    path: str = script.writer.manifest().control_socket
    return path


def client_of(watch: Any) -> ControlClient:
    """Return a client of the run that the present `fit` writes."""
    return ControlClient(path_of(watch))


def test_attached_and_switched_in_mid_epoch_the_result_is_the_same(
    arrays: Any, make_model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tfwatch.runs.control.server.Limits", lambda: Limits(wakes_per_s=1e6, requests_per_s=1e6)
    )

    def trained(*callbacks: Any) -> Any:
        model = make_model()
        return fingerprint(
            model, model.fit(known(arrays), epochs=3, verbose=0, callbacks=list(callbacks))
        )

    watch, begun, done, attached = (
        watch_in(tmp_path),
        threading.Event(),
        threading.Event(),
        list[str](),
    )

    def attach() -> None:
        begun.wait(60)
        path = path_of(watch)
        with suppress(NoAnswerError):  # the run has ended
            while not done.is_set() and len(attached) < 300:
                attached.append(ControlClient(path).check().refused)
                if len(attached) % 20 == 1:
                    ControlClient(path).call(
                        AskSwitch("prefetch", str(len(attached) // 20 % 8 + 1))
                    )

    attaching = threading.Thread(target=attach)
    attaching.start()
    found = trained(
        watch,
        after_batch(1, begun.set),
        after_batch(15, lambda: wait_until(lambda: len(attached) > 100)),
    )
    done.set()
    attaching.join(20)

    assert set(attached[:100]) == {""}
    assert found == trained()
    assert len(events_of(open_run(watch.run_path), PipelineSwitched)) > 1


def test_a_stop_ends_one_fit_and_not_the_next(
    arrays: Any, make_model: Make, tmp_path: Path
) -> None:
    watch, model = watch_in(tmp_path), make_model()
    stop = after_batch(3, lambda: client_of(watch).call(AskStop()))

    model.fit(known(arrays), epochs=3, verbose=0, callbacks=[watch, stop])
    run = open_run(watch.run_path)
    history = model.fit(known(arrays), epochs=2, verbose=0, callbacks=[watch])

    assert len(run.steps) in (4, 5)
    assert [(event.cause, event.detail) for event in events_of(run, RunEnded)] == [
        ("stopped", "stopped from another terminal")
    ]
    assert len(history.history["loss"]) == 2


def test_an_experiment_runs_in_a_script(arrays: Any, make_model: Make, tmp_path: Path) -> None:
    import keras

    earlier = set(threading.enumerate())
    watch, model = watch_in(tmp_path), make_model()
    ask = after_batch(
        3, lambda: client_of(watch).ask_tuner(Experiment("prefetch", ("default", "2"), 60))
    )

    def stop_once_it_ended(epoch: int, logs: Any) -> None:
        model.stop_training = bool(events_of(open_run(watch.run_path), ExperimentEnded))

    until_then = keras.callbacks.LambdaCallback(on_epoch_end=stop_once_it_ended)
    model.fit(known(arrays), epochs=1000, verbose=0, callbacks=[watch, ask, until_then])

    run = open_run(watch.run_path)
    (ended,) = events_of(run, ExperimentEnded)
    assert ended.knob == "prefetch"
    assert any(event.by == "experiment" for event in events_of(run, PipelineSwitched))
    names = ("tfwatch-tuner", "tfwatch-control")
    wait_until(
        lambda: not [one for one in set(threading.enumerate()) - earlier if one.name in names]
    )


def test_short_fits_that_share_a_run_share_its_socket(
    arrays: Any, make_model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tfwatch.watch.fit.fit_runs.SHORT_S", 1e6
    )  # on a busy machine a fit takes long to compile
    watch, model, paths = watch_in(tmp_path), make_model(), list[str]()
    for _ in range(3):
        watch_path = after_batch(20, lambda: paths.append(path_of(watch)))
        model.fit(known(arrays), verbose=0, callbacks=[watch, watch_path])

    assert paths[0] != paths[1] == paths[2]
    client = ControlClient(paths[-1])
    assert client.check().refused == NO_FIT
    watch._newest_run.script.end_rest()
    watch._newest_run.script.close()
    with pytest.raises(NoAnswerError):
        client.check()


def test_a_loop_of_the_scripts_own_is_followed_and_not_changed(
    tmp_path: Path, all_runs_ended: None
) -> None:
    from tfwatch import track

    tracked, refusals = track(range(5), runs_dir=tmp_path), list[Refused]()
    for number in tracked:
        if number == 2:
            assert tracked.run_path
            refusals = _refusals(ControlClient(open_run(tracked.run_path).manifest.control_socket))

    assert refusals == [Refused(OWN_LOOP, "prefetch"), Refused(OWN_LOOP, is_stop=True)]


def _refusals(client: ControlClient) -> list[Refused]:
    """Return what comes back of a switch and a stop."""
    assert client.check().refused == OWN_LOOP
    client.ask(Request("prefetch", "4"))
    client.ask_stop()
    wait_until(lambda: len(client._refusals) == 2)
    return client.take_refusals()
