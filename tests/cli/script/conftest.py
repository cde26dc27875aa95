"""The fixtures of these tests."""

import uuid
from collections.abc import Iterator

import pytest

from tests.pseudo import MARK, kill_marked


@pytest.fixture(autouse=True)
def _no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill what a test has started and not ended, as one that fails by a time limit."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield
    kill_marked(mark)
