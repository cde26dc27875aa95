"""What the screen, or a script, asks of the training; obeyed by Watch at the next batch."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from tfwatch.core.knobs import Knobs, Setting


@dataclass(frozen=True, slots=True)
class Request:
    """Another setting for one knob; `by` is `key`, `command` or `code`."""

    knob: str
    value: Setting | float
    by: str = "key"


class Control:
    """A queue in process. Any thread asks; the training thread takes.

    `knobs` is what the training last was told to use (kept by Watch); `stop` asks it to end at the next batch.
    """

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.knobs = knobs or Knobs()
        self.stop = threading.Event()
        self._requests: deque[Request] = deque()

    @property
    def pending(self) -> bool:
        """Whether a request waits; cheap enough for every step."""
        return bool(self._requests)

    def ask(self, request: Request) -> None:
        """Ask for a setting. Of several requests for one knob the last wins."""
        self._requests.append(request)

    def take(self) -> list[Request]:
        """The waiting requests, the last of each knob."""
        latest: dict[str, Request] = {}
        while self._requests:
            request = self._requests.popleft()
            latest.pop(request.knob, None)
            latest[request.knob] = request
        return list(latest.values())
