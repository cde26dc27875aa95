"""Watch on a disk that is full, or fills: the training is unaffected, and stderr has one
sentence."""

import errno
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.keras_fixtures import STEPS, fingerprint
from tests.watch.watched import EPOCHS, Make, known
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fit_runs import complete_runs

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def no_other_run() -> None:
    """End the runs of earlier tests, which would report the full disk too."""
    complete_runs()


def fill(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Fill the disk: these functions of `os` and of the format raise from now on."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in names:
        monkeypatch.setattr(name, full)


def test_a_full_disk_is_reported_once_and_no_run_is_left(
    stock: Any,
    make_model: Make,
    tmp_path: Path,
    watch: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(monkeypatch, "os.pwrite", "tfwatch.runs.format.write_atomically")
    model = make_model()
    assert (
        fingerprint(model, model.fit(known(), epochs=EPOCHS, verbose=0, callbacks=[watch])) == stock
    )
    assert watch.run_path is None
    assert capsys.readouterr().err == (
        f"tfwatch: nothing is recorded: {tmp_path} cannot be written: No space left on device\n"
    )


def test_a_disk_that_fills_in_mid_run_is_reported_with_the_step(
    make_model: Make,
    watch: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fill_up(epoch: int, logs: Any) -> None:
        watch._recorder.writer.flush()
        fill(monkeypatch, "os.pwrite")

    filling = keras.callbacks.LambdaCallback(on_epoch_end=fill_up)
    make_model().fit(known(), epochs=1, verbose=0, callbacks=[filling, watch])
    complete_runs()  # `fit` does not wait for the writer's thread
    assert capsys.readouterr().err == (
        f"tfwatch: the run is not recorded since step {STEPS}: No space left on device\n"
    )
    assert len(open_run(watch.run_path).steps) in (STEPS - 1, STEPS)
