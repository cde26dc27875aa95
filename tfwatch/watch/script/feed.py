"""The tf.data service under each `fit` of a training with `--feed-workers` or `--feed`.

The service begins with the first `fit` whose data set can move; a data set that cannot move stays as it is, and the
reason is printed before anything is started.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_user
from tfwatch.core.rows import Phase
from tfwatch.tfdata.feed import ADDRESS_VARIABLE, WORKERS_VARIABLE
from tfwatch.watch.session import call_at_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.feed.processes import LocalFeed
    from tfwatch.tfdata.feed.remote import RemoteFeed

#: The exit code of a process that SIGINT ends, as shells have it.
_INTERRUPTED = 130


class Feed:
    """The service of this process, and the data sets that it feeds.

    find_writer: returns the writer of the run that trains; None while none does. why_not: the reason of the last
    refusal.
    """

    def __init__(self, find_writer: Callable[[], RunWriter | None]) -> None:
        self._find_writer = find_writer
        self.why_not = ""
        self._address = ""
        self._service: LocalFeed | RemoteFeed | None = None
        self._said: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_asked(self) -> bool:
        """True where the user asked for the service."""
        return bool(os.environ.get(WORKERS_VARIABLE) or os.environ.get(ADDRESS_VARIABLE))

    def feed(self, data: Any) -> Any:
        """Return the data set with its lower part in the workers; itself where that is refused."""
        if not self.is_asked:
            return data
        from tfwatch.tfdata.feed.moved_part import CHANGES, find_moved_part
        from tfwatch.tfdata.feed.processes import FeedError
        from tfwatch.tfdata.rebuilding.pipeline_tree import CannotRebuildError, label_of

        if not hasattr(data, "element_spec"):
            self._refuse("its data is not a tf.data.Dataset")
            return data
        try:
            part = find_moved_part(data)
            fed = part.through(self._begun(), is_local=not os.environ.get(ADDRESS_VARIABLE))
        except (CannotRebuildError, FeedError) as error:
            self._refuse(str(error))
            return data
        self._say(
            f"feed: all up to {label_of(part.below)} runs in the workers of the tf.data service: {CHANGES}"
        )
        return fed

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A `fit` whose wait for the feed ctrl+c can end; any other `fit` where nothing is fed."""
        with ExitStack() as block:
            if self._service:
                with fails_open(
                    lambda why: warn_user(
                        f"ctrl+c may have no effect while the training waits: {why}"
                    )
                ):
                    self._begin_interruptible(block)
            yield

    def _begin_interruptible(self, block: ExitStack) -> None:
        from tfwatch.tfdata.cancellation import CancellableFetches
        from tfwatch.watch.script.feed_interrupts import Interrupts, WaitingFit

        fetches = block.enter_context(CancellableFetches())
        block.enter_context(Interrupts(WaitingFit(self._is_waiting, fetches.cancel, self._leave)))

    def _is_waiting(self) -> bool:
        """Return whether the training waits for a batch: a fetch within a graph is known by the lost process only."""
        writer, service = self._find_writer(), self._service
        return bool((writer and writer.status[0] is Phase.WAIT) or (service and service.lost))

    def _leave(self) -> None:
        """End the process, with the end of its run recorded."""
        if writer := self._find_writer():
            writer.end("stopped", "interrupted while it waited for the feed")
            writer.close()
        if self._service:
            self._service.stop()
        os._exit(_INTERRUPTED)

    def _begun(self) -> str:
        """Return the dispatcher's address; the first call starts the service, or looks for it."""
        with self._lock:
            self._address = self._address or (
                self._join() if os.environ.get(ADDRESS_VARIABLE) else self._start()
            )
            return self._address

    def _start(self) -> str:
        from tfwatch.tfdata.feed.processes import start_local
        from tfwatch.watch.script.feed_watcher import FeedWatcher

        self._service = local = start_local(int(os.environ[WORKERS_VARIABLE]))
        call_at_exit(local.stop)
        FeedWatcher(local, self._find_writer).start()
        return local.address

    def _join(self) -> str:
        from tfwatch.tfdata.feed.processes import FeedError, find_workers
        from tfwatch.tfdata.feed.remote import RemoteFeed
        from tfwatch.watch.script.feed_watcher import FeedWatcher

        address = os.environ[ADDRESS_VARIABLE]
        workers = find_workers(address)
        if not workers:
            raise FeedError(
                f"the tf.data service at {address} has no worker; start one: tfwatch feed --join {address}"
            )
        self._service = remote = RemoteFeed(address, workers)
        FeedWatcher(remote, self._find_writer).start()
        return address

    def _refuse(self, reason: str) -> None:
        self.why_not = reason
        self._say(f"no feed for this fit: {reason}")

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            warn_user(sentence)

    def note_all(self) -> None:
        """Record what was printed about the feed in the run that trains."""
        if writer := self._find_writer():
            for sentence in sorted(self._said):
                writer.note(sentence)
