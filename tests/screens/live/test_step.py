"""The step by layer's pane."""

from __future__ import annotations

from tests.judge.test_view import look
from tests.screens.canned import usual
from tfwatch.core.events import StepProfiled
from tfwatch.screens.live.step import StepPane


def test_without_a_profile_the_pane_has_the_reason_or_its_key() -> None:
    run, pane = usual(None), StepPane()
    pane.view = look(run)
    (key,) = pane.rows(80, 12)
    why = "TensorFlow's profiler sees no kernels of this GPU"
    run.event(StepProfiled, step=9, steps=3, step_ms=5.0, cost_ms=8.0, missing=why)
    pane.view = look(run)
    (missing,) = pane.rows(80, 12)

    assert key.plain.startswith("e profiles a few steps")
    assert missing.plain.rstrip() == f"no profile: {why}"
