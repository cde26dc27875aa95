"""A run begun by `Watch()` in a script of the user's own."""

from __future__ import annotations

import atexit
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
            print(f"tfwatch: nothing is recorded: {reason}", file=sys.stderr)  # noqa: T201
        self._sensors = Sensors(self._writer)
        self._sensors.start()
        self.session = Session(self._writer, control, on_error=self.fail)
        atexit.register(self.end, "stopped", "the process ended before fit did")

    @property
    def path(self) -> Path | None:
        """The run folder; None where none could be made."""
        return self._writer.folder

    def fail(self, error: BaseException) -> None:
        """Training raised."""
        text = f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        self._writer.event(TrainingFailed(self._writer.now_ns(), self._writer.status[2], text, trace))
        self.end("failed", text)

    def end(self, cause: str, detail: str = "") -> None:
        """Write the end; a second call does nothing."""
        atexit.unregister(self.end)
        if self._writer.status[0] == Phase.ENDED:
            return
        self._sensors.stop()
        self._writer.phase(Phase.ENDED)
        self._writer.event(RunEnded(self._writer.now_ns(), cause, self._writer.status[2], detail))
        self._writer.close()
