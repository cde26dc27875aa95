"""Reads a run in threads of its own: a disk that hangs never blocks the keys of a screen.

The calls of a frame wait `PATIENCE_S` in all, and raise a `DiskSilentError` after that. The read goes on, and its
answer is kept for the same call: the next frame finds it, so that a slow disk takes several frames and not for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs import format as layout
from tfwatch.runs.reading.disk_call import PATIENCE_S, DiskCall, DiskSilentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tfwatch.runs.format import Manifest
    from tfwatch.runs.reading.streams import RunSource

#: Bytes of a pulse, and more.
_PULSE_BYTES = 4096

Call = tuple[object, ...]


class PatientSource:
    """A source whose calls end in time, for one thread.

    source: the same without an end in time. clock: measures how long the disk is silent. patience_s: seconds that the
    calls of a frame may wait.
    """

    def __init__(
        self, source: RunSource, clock: Clock = SYSTEM, patience_s: float = PATIENCE_S
    ) -> None:
        self.source = source
        self._clock = clock
        self.patience_s = self._left_s = patience_s
        #: Those without an answer. The log has its own: the file of a process that trains is read from the disk alone.
        self._calls: dict[str, tuple[Call, DiskCall[Any]]] = {}
        self._answers: dict[Call, DiskCall[Any] | bytes] = {}

    # -- the source -----------------------------------------------------------------------------

    @property
    def folder(self) -> Path | None:
        """The run folder."""
        return self.source.folder

    def is_here(self) -> bool:
        """Return whether the training runs in this process."""
        return self.source.is_here()

    def manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            NotARunError: the source has no run that this tfwatch reads.
            DiskSilentError: the disk has not responded in time.
        """
        if self.source.is_here():
            return self.source.manifest()
        manifest: Manifest = self.ask(("manifest",), self.source.manifest)
        return manifest

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes of a file from `offset`; of the log none while the disk is silent.

        Raises:
            DiskSilentError: the disk has not responded in time.
        """
        try:
            data: bytes = self.ask(
                (name, offset, limit), lambda: self.source.read(name, offset, limit)
            )
        except DiskSilentError:
            if name != layout.LOG:
                raise
            return b""
        return data

    # -- for a frame --------------------------------------------------------------------------------

    def read_ahead(self, offsets: Mapping[str, int], limit: int) -> None:
        """Read each file from its offset, and the pulse, as one call: each by itself would begin a thread.

        Raises:
            DiskSilentError: the disk has not responded in time.
        """
        wanted = [(name, offset, limit) for name, offset in offsets.items() if name != layout.LOG]
        wanted.append((layout.PULSES, 0, _PULSE_BYTES))
        if not all(call in self._answers for call in wanted):
            self._take_all(
                self.ask(("ahead", *wanted), lambda: [self.source.read(*call) for call in wanted]),
                wanted,
            )

    def _take_all(self, parts: list[bytes], wanted: list[tuple[str, int, int]]) -> None:
        for (name, offset, limit), data in zip(wanted, parts, strict=True):
            self._answers[name, offset, limit] = data
            if name != layout.PULSES and len(data) < limit:
                self._answers[name, offset + len(data), limit] = (
                    b""  # the end, which the reader asks for next
                )

    def begin_frame(self) -> None:
        """Begin a frame: its calls may wait, unless the answer to an earlier one is still missing."""
        self._left_s = self.patience_s

    def end_frame(self) -> None:
        """Forget the answers: the frame has all that it wants, and the next one asks the disk again."""
        self._answers.clear()

    @property
    def silent_s(self) -> float:
        """The seconds for which the disk has owed an answer, to a reader or to the writer of this process; else 0.0."""
        return max([self.source.silent_s, *(made.silent_s for _, made in self._calls.values())])

    # -- the threads --------------------------------------------------------------------------------

    def ask(self, call: Call, work: Callable[[], Any]) -> Any:
        """Return the result of work on the disk; call: its name.

        Raises:
            DiskSilentError: the disk has not responded in time.
        """
        self._take_answers()
        if call not in self._answers:
            self._wait_for(self._begin(call, work))
            self._take_answers()
        answer = self._answers.get(call)
        if answer is None:
            raise DiskSilentError(f"{self.folder} does not respond")
        if isinstance(answer, bytes):
            return answer
        try:
            return answer.answer()
        except Exception:
            del self._answers[call]
            raise

    def _begin(self, call: Call, work: Callable[[], Any]) -> DiskCall[Any]:
        kind = layout.LOG if call[0] == layout.LOG else ""
        if kind in self._calls:
            raise DiskSilentError(f"{self.folder} does not respond")
        made = DiskCall(work, self._clock)
        self._calls[kind] = call, made
        return made

    def _wait_for(self, made: DiskCall[Any]) -> None:
        """Wait for an answer, as long as there is patience left."""
        begun_ns = SYSTEM.now_ns()
        made.wait(self._left_s)
        self._left_s = max(0.0, self._left_s - (SYSTEM.now_ns() - begun_ns) / 1e9)

    def _take_answers(self) -> None:
        for kind, (call, made) in tuple(self._calls.items()):
            if made.is_done:
                self._answers[call] = made
                del self._calls[kind]
