"""The system has no thread left: tfwatch continues without its own threads, and so does the
training."""

import threading
from typing import Any

import pytest

from tests.keras_fixtures import fingerprint
from tests.watch.watched import Make
from tests.whole import events_of
from tfwatch import open_run
from tfwatch.core.events import SensorMissing

pytestmark = pytest.mark.tensorflow

#: Threads that are begun while a training runs, or for it alone.
OF_A_TRAINING = {"tfwatch-stages", "tfwatch-disposal", "tfwatch-cache"}
OF_THE_MACHINE = {"tfwatch-sensors", "tfwatch-pauses"}


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that could not start."""
    begin, refused = threading.Thread.start, list[str]()

    def start(thread: threading.Thread) -> None:
        if thread.name in OF_A_TRAINING | OF_THE_MACHINE:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return refused


def test_a_script_trains_without_threads(
    arrays: Any, make_model: Make, watch: Any, request: pytest.FixtureRequest
) -> None:
    stock, watched = make_model(), make_model()
    expected = fingerprint(stock, stock.fit(*arrays, verbose=0))
    request.getfixturevalue("no_threads")
    assert fingerprint(watched, watched.fit(*arrays, verbose=0, callbacks=[watch])) == expected
    run = open_run(watch.run_path or "")
    assert len(run.steps) > 0
    unread = {
        event.sensor
        for event in events_of(run, SensorMissing)
        if "can't start new thread" in event.reason
    }
    assert unread == {"pipeline", "machine", "callbacks"}
