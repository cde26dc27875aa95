"""A script does not see the threads of tfwatch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfwatch.watch.script.own_threads import hide_own_threads

if TYPE_CHECKING:
    import pytest


def test_a_script_that_waits_for_all_its_threads_does_not_wait_for_those_of_tfwatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("enumerate", "active_count"):
        monkeypatch.setattr(threading, name, getattr(threading, name))
    before, done = set(threading.enumerate()), threading.Event()
    threads = [threading.Thread(target=done.wait, name=name) for name in ("tfwatch-x", "mine")]
    hide_own_threads()
    for thread in threads:
        thread.start()

    assert set(threading.enumerate()) - before == {threads[1]}
    assert threading.active_count() == len(threading.enumerate())
    done.set()
    for thread in threads:
        thread.join()
