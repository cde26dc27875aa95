"""The fixtures of these tests."""

from tests.keras_fixtures import (
    all_runs_ended,
    always_deterministic,
    arrays,
    freed_in,
    made,
    make_model,
    one_block,
    op_determinism,
)

__all__ = [
    "all_runs_ended",
    "always_deterministic",
    "arrays",
    "freed_in",
    "made",
    "make_model",
    "one_block",
    "op_determinism",
]
