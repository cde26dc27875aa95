"""The finding of a run that is over, made of the whole run in a thread beside the screen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfwatch.analysis.finding import Banner, Tone
from tfwatch.core.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.opened import Run


class EndedFinding:
    """Judges a run that is over in a thread of its own: ten million steps take seconds.

    whole: reads all of the run.
    """

    def __init__(self, whole: Callable[[], Run]) -> None:
        self._whole = whole
        self._thread: threading.Thread | None = None
        self._found: Banner | None = None

    def finding(self) -> Banner | None:
        """The finding of its last setting, the same as in the summary and `--json`; the first call begins to look.

        None until it is known, and where the setting has too few steps.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True, name="tfwatch-ending")
            self._thread.start()
        return self._found

    def _look(self) -> None:
        from tfwatch.live.judged_run import JudgedRun  # after the first paint: it loads all of the analysis

        try:
            self._found = JudgedRun(self._whole()).finding
        except Exception as error:  # noqa: BLE001 - a thread boundary
            self._found = Banner("VERDICT n/a", reason(error), "", Tone.WARN)
