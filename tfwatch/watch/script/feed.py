"""The tf.data service under each `fit` of `tfwatch run --feed-workers` and `--feed`.

The service begins with the first `fit` whose data set can move; a data set that cannot move stays as it is, and the
reason is printed before anything is started.
"""

from __future__ import annotations

import os
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_user
from tfwatch.core.feed_variables import ADDRESS, WORKERS
from tfwatch.watch.session import call_at_exit

if TYPE_CHECKING:
    from tfwatch.tfdata.feed.processes import LocalFeed

_LOOK_S = 0.5


class Feed:
    """The service of this process, and the data sets that it feeds."""

    def __init__(self) -> None:
        self._local: LocalFeed | None = None
        self._said: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_asked(self) -> bool:
        """Whether the user asked for the service."""
        return bool(os.environ.get(WORKERS) or os.environ.get(ADDRESS))

    def feed(self, data: Any) -> Any:
        """Return the data set with its lower part in the workers; itself where that is refused."""
        if not self.is_asked:
            return data
        from tfwatch.tfdata.feed.moved_part import CHANGES, find_moved_part
        from tfwatch.tfdata.feed.processes import FeedError
        from tfwatch.tfdata.pipeline_tree import CannotRebuildError, label_of

        if not hasattr(data, "element_spec"):
            self._say("no feed for this fit: its data is no tf.data data set")
            return data
        try:
            part = find_moved_part(data)
            fed = part.through(self._address(), is_local=not os.environ.get(ADDRESS))
        except (CannotRebuildError, FeedError) as error:
            self._say(f"no feed for this fit: {error}")
            return data
        self._say(f"feed: all up to {label_of(part.below)} runs in the workers of the tf.data service: {CHANGES}")
        return fed

    def _address(self) -> str:
        if given := os.environ.get(ADDRESS):
            _check(given)
            return given
        with self._lock:
            if self._local is None:
                from tfwatch.tfdata.feed.processes import start_local

                self._local = start_local(int(os.environ[WORKERS]))
                call_at_exit(self._local.stop)
                threading.Thread(target=self._watch, args=(self._local,), name="tfwatch-feed", daemon=True).start()
        return self._local.address

    def _watch(self, local: LocalFeed) -> None:
        with fails_open(lambda why: warn_user(f"the feed is no longer watched: {why}")):
            can_serve = True
            while can_serve:
                threading.Event().wait(_LOOK_S)
                for sentence in chain(local.newly_lost(), local.restart_lost()):
                    warn_user(sentence)
                    self._note(sentence)
                can_serve = local.can_serve

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            warn_user(sentence)

    def note_all(self) -> None:
        """Record what was printed about the feed in the run that began last."""
        for sentence in sorted(self._said):
            self._note(sentence)

    @staticmethod
    def _note(sentence: str) -> None:
        from tfwatch.watch.fit.fit_runs import note_in_newest_run

        note_in_newest_run(sentence)


def _check(address: str) -> None:
    from tfwatch.tfdata.feed.processes import FeedError, check_dispatcher

    if not check_dispatcher(address):
        raise FeedError(f"the tf.data service at {address} has no worker; start one: tfwatch feed --join {address}")
