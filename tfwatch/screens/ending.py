"""What a run that is over was bound by at last: worked out from all of it, beside the screen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfwatch.analysis.finding import Banner, Tone
from tfwatch.core.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.opened import Run


class Ending:
    """Looks through a run that is over, in a thread of its own: ten million steps take seconds.

    whole: reads all of the run.
    """

    def __init__(self, whole: Callable[[], Run]) -> None:
        self._whole = whole
        self._thread: threading.Thread | None = None
        self._found: Banner | None = None

    def finding(self) -> Banner | None:
        """What its last setting was bound by, as the summary and `--json` say it; the first call begins to look.

        None until that is known, and where too few steps tell.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True, name="tfwatch-ending")
            self._thread.start()
        return self._found

    def _look(self) -> None:
        from tfwatch.report.outcome import last_finding

        try:
            self._found = last_finding(self._whole())
        except Exception as error:  # noqa: BLE001 - a thread boundary
            self._found = Banner("VERDICT n/a", reason(error), "", Tone.WARN)
