"""A `fit` without TensorFlow for scripts that tests run under `tfwatch run`: it writes and
announces a run."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.runs.begun import begin_run
from tfwatch.core.events import EpochEnded, EpochStarted
from tfwatch.core.rows import Phase
from tfwatch.runs.control import Control, RequestTaker
from tfwatch.runs.script_process import announce


def fit(
    steps: int = 10**6,
    step_s: float = 0.01,
    loss: float = 0.5,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Train `steps` steps in the folder that the script's first argument names; print the requests
    for switches.

    until: returns True where it ends earlier.
    """
    control = Control()
    writer, _ = begin_run(
        Path(sys.argv[1]),
        "train",
        device="CPU",
        knobs={"prefetch": "default"},
        switchable=["prefetch"],
    )
    writer.take_requests = RequestTaker(writer, control).look
    assert writer.folder
    announce(writer.folder)
    writer.event(EpochStarted(writer.now_ns(), 0, 1, steps))
    try:
        for step in range(1, steps + 1):
            if until():
                break
            writer.status = (Phase.WAIT, writer.now_ns(), step, 0, "")
            time.sleep(step_s)
            for request in control.take(step):
                print(f"switch {request.knob} by {request.by}", flush=True)  # noqa: T201  a script's output
            writer.step(max(0, writer.now_ns() - 10**7), step, 0, 0, 4.0, 1.0, 5.0, 1.0)
            writer.progress.append((step * 32, step, 0, step, loss))
        writer.status = (Phase.EPOCH_END, writer.now_ns(), steps, 0, "")
        writer.event(EpochEnded(writer.now_ns(), 0, steps, {"loss": loss}))
        writer.end("finished")
    except KeyboardInterrupt as error:
        writer.end("stopped", repr(error))
        raise
    finally:
        writer.close()
