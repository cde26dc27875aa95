"""The fixtures of these tests."""

from collections.abc import Iterator

import pytest

from tests.keras_fixtures import always_deterministic, made, op_determinism

__all__ = ["always_deterministic", "in_parallel", "made", "op_determinism"]


@pytest.fixture
def in_parallel() -> Iterator[None]:
    """Turn op determinism off: it removes prefetch and workers from a gated pipeline."""
    from tensorflow.python.framework import config

    config.disable_op_determinism()
    try:
        yield
    finally:
        config.enable_op_determinism()
