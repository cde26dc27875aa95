"""A run begun by `Watch()` in a script of the user's own."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.events import RunEnded, TrainingFailed
from tfwatch.core.knobs import describe
from tfwatch.core.rows import Phase
from tfwatch.runs.begin import begin_run
from tfwatch.sensors.runner import Sensors
from tfwatch.training.session import Session

if TYPE_CHECKING:
    from tfwatch.runs.control import Control
    from tfwatch.training.device import Device


class ScriptRun:
    """The writer, the sensors and the session of one `fit`; `end` closes them.

    A `fit` that raises never says so to its callbacks: then the run ends with the next `fit`, or with the process.
    """

    def __init__(self, runs_dir: Path, control: Control, device: Device) -> None:
        name = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
        self._writer, reason = begin_run(
            runs_dir,
            "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:40] or "python",
            device=device.name,
            accelerated=device.accelerated,
            knobs=describe(control.knobs),
            switchable=["prefetch"],
        )
        if reason:
            tell_user(f"nothing is recorded: {reason}")
        self._sensors = Sensors(self._writer)
        self._sensors.start()
        self.session = Session(self._writer, control, on_error=self.fail, on_abandoned=self.abandon)
        atexit.register(self.end, "stopped", "the process ended before fit did")

    @property
    def path(self) -> Path | None:
        """The run folder; None where none could be made."""
        return self._writer.folder

    def fail(self, error: BaseException) -> None:
        """Training raised; what is no `Exception`, a KeyboardInterrupt above all, is somebody's wish to stop."""
        text = f"{type(error).__name__}: {error}"
        if not isinstance(error, Exception):
            self.end("stopped", text.rstrip(": "))
            return
        trace = "".join(traceback.format_exception(error))
        self._writer.event(TrainingFailed(self._writer.now_ns(), self._writer.status[2], text, trace))
        self.end("failed", text)

    def abandon(self) -> None:
        """The fit was left by an exception that no callback is told of."""
        self.end("stopped", "fit was left without an end")

    def end(self, cause: str, detail: str = "") -> None:
        """Write the end; a second call does nothing, nor one in a forked process: the run is its parent's."""
        atexit.unregister(self.end)
        if self._writer.status[0] == Phase.ENDED or os.getpid() != self._writer.manifest().pid:
            return
        self._sensors.stop()
        self._writer.phase(Phase.ENDED)
        self._writer.event(RunEnded(self._writer.now_ns(), cause, self._writer.status[2], detail))
        self._writer.close()


def tell_user(sentence: str) -> None:
    """Say a sentence on stderr, where there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"tfwatch: {sentence}\n")
