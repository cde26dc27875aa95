"""Reads the output of a script whose relay was killed, in a thread of the script's own process.

Nobody else reads its pseudo terminal or pipe then: the script's next print would raise, or wait for
ever.
"""

from __future__ import annotations

import _thread
import os
import select
import shutil
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open
from tfwatch.runs.streams import OpenFile

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.terminal.script_log import ScriptLog

_CHUNK = 64 * 2**10
_OUTPUT = (1, 2)


class OrphanedOutput:
    """The output of this process. No program that it starts inherits the descriptors.

    descriptors: `master,pipe`, the other end of its pseudo terminal, and a pipe that ends with the
    relay.
    folder: that of the relay.
    """

    def __init__(self, descriptors: str, folder: Path) -> None:
        master, relay = (int(number) for number in descriptors.split(","))
        for fd in (master, relay):
            os.set_inheritable(fd, False)
        self._master, self._relay = OpenFile.of(master), OpenFile.of(relay)
        self._slave = OpenFile.of(_OUTPUT[-1])
        self._folder = folder
        self._lock = Lock()

    def watch(self) -> None:
        """Start the thread."""
        if self._relay.is_ours():
            _thread.start_new_thread(self._read_after_relay, ())

    def _read_after_relay(self) -> None:
        with suppress(OSError):
            os.read(self._relay.fd, 1)  # returns nothing, once the relay has ended
            os.set_blocking(self._master.fd, False)
            log = self._open_log()
            while self._master.is_ours():
                select.select([self._master.fd], [], [])
                self._take(log)

    def _open_log(self) -> ScriptLog:
        from tfwatch.terminal.script_log import ScriptLog
        from tfwatch.watch.session import call_at_exit

        log = ScriptLog(self._folder)
        call_at_exit(lambda: self._end(log))
        return log

    def _take(self, log: ScriptLog) -> None:
        """Take what was written to the log; what it refuses is lost.

        Raises:
            OSError: nobody holds the pseudo terminal any more.
        """
        with self._lock, suppress(BlockingIOError):
            while self._master.is_ours() and (data := os.read(self._master.fd, _CHUNK)):
                with fails_open(lambda _: None):
                    log.begin(log.announced())
                    log.write(data)

    def _end(self, log: ScriptLog) -> None:
        """Have the process write into the log itself: its thread ends before its last output."""
        for fd in _OUTPUT:
            with suppress(OSError):
                if OpenFile.of(fd).is_same_file(self._slave):
                    os.dup2(log.fileno(), fd)
        with suppress(OSError):
            self._take(log)
        log.end()
        shutil.rmtree(self._folder, ignore_errors=True)
