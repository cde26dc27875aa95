"""The fixtures of these tests."""

from tests.keras_fixtures import op_determinism

__all__ = ["op_determinism"]
