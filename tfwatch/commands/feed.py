"""`tfwatch feed`: a tf.data service until Ctrl-C."""

from __future__ import annotations

import sys
import time
from itertools import chain

from tfwatch.terminal.output import write
from tfwatch.tfdata.feed.processes import FeedError, LocalFeed, join, start_local
from tfwatch.workloads.workload import BadInputError

_LOOK_S = 0.5


def serve(workers: int, joined: str | None, host: str, port: int = 0) -> int:
    """Run the service until Ctrl-C, or until its last process has ended.

    Raises:
        BadInputError: it cannot be started.
    """
    _print(f"starting {_count(workers)} of the tf.data service")
    try:
        feed = join(joined, workers, host) if joined else start_local(workers, host, port)
        try:
            _print(f"tf.data service: {joined or feed.address}, {_count(workers)}; Ctrl-C ends it")
            return _watch(feed)
        finally:
            feed.stop()
    except KeyboardInterrupt:
        return 0
    except FeedError as error:
        raise BadInputError(str(error)) from error


def _watch(feed: LocalFeed) -> int:
    can_serve = True
    while can_serve:
        time.sleep(_LOOK_S)
        for sentence in chain(feed.newly_lost(), feed.restart_lost()):
            _print(sentence)
        can_serve = feed.can_serve
    return 1


def _count(workers: int) -> str:
    return f"{workers} worker{'s' * (workers != 1)}"


def _print(text: str) -> None:
    write(sys.stdout, f"{text}\n")
