"""`tfwatch feed`: a tf.data service until Ctrl-C."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tfwatch.tfdata.feed.processes import FeedError, LocalFeed, join, start_local
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from tfwatch.tfdata.feed.processes import ServiceProcess

_LOOK_S = 0.5


def serve(workers: int, joined: str | None, host: str) -> int:
    """Run the service until Ctrl-C, or until its last process has ended.

    Raises:
        BadInputError: it cannot be started.
    """
    try:
        feed = start_local(workers, host) if joined is None else LocalFeed(None)
        try:
            feed.workers += [] if joined is None else [join(joined, host) for _ in range(workers)]
            _print(f"tf.data service: {joined or feed.address}, {_count(feed.workers)}; Ctrl-C ends it")
            return _watch(feed)
        except KeyboardInterrupt:
            return 0
        finally:
            feed.stop()
    except FeedError as error:
        raise BadInputError(str(error)) from error


def _watch(feed: LocalFeed) -> int:
    while feed.is_alive:
        time.sleep(_LOOK_S)
        for sentence in feed.newly_lost():
            _print(sentence)
    return 1


def _count(workers: list[ServiceProcess]) -> str:
    return f"{len(workers)} worker{'s' * (len(workers) != 1)}"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
