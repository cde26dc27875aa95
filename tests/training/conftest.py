"""The fixtures of these tests."""

from tests.keras_fixtures import always_deterministic, one_block, op_determinism

__all__ = ["always_deterministic", "one_block", "op_determinism"]
