"""Short fits in a row: they share a run, trace once, and leave nothing behind."""

import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf

from tests.keras_fixtures import STEPS, compile_built, fingerprint
from tests.runs.processes import wait_until
from tests.watch.watched import Make, known, watch_in
from tests.whole import events_of, only
from tfwatch.core.events import EpochStarted, Noted, RunEnded, Traced
from tfwatch.core.rows import Flag
from tfwatch.runs import script_process
from tfwatch.runs.run import open_run
from tfwatch.tfdata.code_edits import CallSite, names_in_fit
from tfwatch.watch import session
from tfwatch.watch.fit import fit_runs
from tfwatch.watch.fit.fit_runs import run_of_next_fit

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def _no_run_rests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the runs that wait for another fit. A fit that compiles is short here, however busy the
    machine."""
    monkeypatch.setattr(fit_runs, "SHORT_S", 1e3)
    yield
    for run in fit_runs._resting:
        run.script.end_rest()
        run.script.close()
    fit_runs._resting.clear()


def small_model() -> Any:
    keras.utils.set_random_seed(3)  # op determinism asks for one
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


X, Y = np.ones((24, 3), "float32"), np.ones((24, 1), "float32")


def fit(model: Any, *callbacks: Any, **options: Any) -> Any:
    return model.fit(X, Y, batch_size=8, verbose=0, callbacks=list(callbacks), **options)


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_a_second_fit_traces_nothing_and_gives_the_bits_of_stock(
    make_model: Make, watch: Any, steps_per_execution: int
) -> None:
    def fits(*callbacks: Any) -> list[Any]:
        model = make_model()
        compile_built(model, steps_per_execution=steps_per_execution)
        made = [model.fit(known(), verbose=0, callbacks=list(callbacks)) for _ in range(3)]
        return [fingerprint(model, history) for history in made]

    assert fits(watch) == fits()
    run = open_run(watch.run_path)
    assert [len(rows) for rows in run.fits] == [STEPS, STEPS]
    assert not (run.steps["flags"] & (Flag.COMPILE | Flag.RETRACE)).any()


def test_compile_and_a_new_train_function_drop_what_was_traced(watch: Any) -> None:
    model = small_model()
    renewals: list[Any] = [
        lambda: model.compile("sgd", "mae"),
        lambda: model.make_train_function(force=True),
    ]
    for renew in renewals:
        fit(model, watch)
        traced = weakref.ref(model.train_function)
        renew()
        gc.collect()
        assert traced() is None
        fit(model, watch)
        assert open_run(watch.run_path).fits[-1]["flags"][0] & Flag.COMPILE


def test_a_model_can_be_collected_after_its_fit(tmp_path: Path) -> None:
    model = small_model()
    fit(model, watch_in(tmp_path))
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_short_fits_after_the_first_share_a_run(tmp_path: Path) -> None:
    paths = []
    for _ in range(4):
        watch = watch_in(tmp_path)
        fit(small_model(), watch, epochs=2)
        paths.append(watch.run_path)
    assert len(set(paths)) == 2
    assert len(set(paths[1:])) == 1
    assert only(open_run(paths[0]), RunEnded).cause == "finished"
    run = open_run(paths[1])
    assert run.steps["step"].tolist() == list(range(1, 19))
    assert run.steps["epoch"].tolist() == [epoch for epoch in range(6) for _ in range(3)]
    started = [(event.fit, event.epoch, event.epochs) for event in events_of(run, EpochStarted)]
    assert started == [(1, 0, 2), (1, 1, 2), (2, 2, 4), (2, 3, 4), (3, 4, 6), (3, 5, 6)]
    assert not run.ended


def test_a_run_that_rests_ends_with_its_last_fit(
    watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    fit(model, watch)
    begun_s = time.perf_counter()
    fit(model, watch)
    took_s = time.perf_counter() - begun_s
    monkeypatch.setattr(session, "GAP_S", 0.0)
    wait_until(lambda: open_run(watch.run_path).ended is not None)
    run = open_run(watch.run_path)
    assert only(run, RunEnded).cause == "finished"
    assert run.length_s < took_s
    before = watch.run_path
    fit(model, watch)
    assert watch.run_path != before


def test_other_settings_another_folder_and_long_fits_have_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    watches = [watch_in(tmp_path / name) for name in ("one", "one", "other", "one")]
    watches[1].set(prefetch=2)
    for watch in watches:
        fit(model, watch)
    monkeypatch.setattr(fit_runs, "SHORT_S", 0.0)
    for _ in range(2):
        watches.append(watch_in(tmp_path / "one"))
        fit(model, watches[-1])
        assert open_run(watches[-1].run_path).ended
    assert len({watch.run_path for watch in watches}) == len(watches)


def test_a_fit_that_fails_ends_the_run_that_it_shares(watch: Any) -> None:
    def fail(batch: int, logs: Any) -> None:
        raise RuntimeError("a callback of the user's")

    model = small_model()
    for _ in range(2):
        fit(model, watch)
    with pytest.raises(RuntimeError, match="a callback"):
        fit(model, watch, keras.callbacks.LambdaCallback(on_train_batch_end=fail))
    failed = watch.run_path
    fit(model, watch)
    assert [only(open_run(failed), RunEnded).cause, len(open_run(failed).fits)] == ["stopped", 2]
    assert (watch.run_path == failed, len(open_run(watch.run_path).fits)) == (False, 1)


def test_many_fits_leave_neither_threads_nor_descriptors_nor_notes(tmp_path: Path) -> None:
    model, process = small_model(), psutil.Process()
    model.compile("sgd", "mse", steps_per_execution=2)
    for _ in range(3):
        fit(model, watch_in(tmp_path))
    held = process.num_fds(), threading.active_count()
    for _ in range(10):
        watch = watch_in(tmp_path)
        fit(model, watch)
    # A thread that samples the machine opens a file for a moment.
    wait_until(lambda: process.num_fds() <= held[0] and threading.active_count() <= held[1])
    run = open_run(watch.run_path)
    assert len(run.fits) == 12
    texts = [event.text for event in events_of(run, Noted)]
    assert len(texts) == len(set(texts))


def test_a_forked_process_begins_a_run_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        run_of_next_fit(tmp_path, {}).finish({})
    if (child := os.fork()) == 0:
        from tfwatch.watch.fit import fit_runs

        os._exit(len(fit_runs._resting))
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("data", ["arrays", "generator", "PyDataset", "tf.data"])
def test_the_kind_of_data_is_known_before_a_stage_is_read(data: str, watch: Any) -> None:
    class Rows(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return X[:8], Y[:8]

    rows = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    given = {
        "arrays": (X, Y),
        "generator": ((pair for pair in [(X, Y)]),),
        "PyDataset": (Rows(),),
        "tf.data": (rows,),
    }[data]
    small_model().fit(*given, verbose=0, callbacks=[watch])

    assert open_run(watch.run_path).manifest.data == data


def test_in_a_launched_script_the_first_fit_begins_the_run_that_all_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(call: CallSite) -> dict[str, str]:
        readers.add(threading.current_thread().name)
        return names_in_fit(call)

    launch = script_process.Launch(str(tmp_path))
    monkeypatch.setattr(script_process, "_launch", [launch])
    monkeypatch.setattr(session, "names_in_fit", read)
    paths, readers = set(), set[str]()
    models = [small_model() for _ in range(3)]
    for model in (*models, models[1]):
        watch = watch_in(tmp_path)
        fit(model, watch)
        paths.add(watch.run_path)
    models[1].fit(X, Y, batch_size=8, verbose=0, callbacks=[watch])
    run = open_run(watch.run_path)
    traced = events_of(run, Traced)

    assert len(paths) == 1
    assert [event.model for event in events_of(run, EpochStarted)] == [1, 2, 3, 2, 2]
    assert [event.change for event in traced] == ["", *["model: another Sequential object"] * 2]
    assert traced[-1].total_ms == pytest.approx(sum(event.took_ms for event in traced))
    is_located = sys.version_info >= (3, 11)
    wait_until(
        lambda: open_run(watch.run_path).manifest.names == {"dataset": "X"} or not is_located
    )
    assert readers == {"tfwatch-writer"}
