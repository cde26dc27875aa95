"""The step by layer's pane."""

from typing import Any

from tests.judge.test_view import look
from tests.screens.canned import usual
from tfwatch.core.events import StepProfiled
from tfwatch.runs.format import Layer, ModelFacts
from tfwatch.screens.live.step import StepPane

#: On a Mac's GPU the profiler records no kernels.
METAL: dict[str, Any] = {
    "device": "GPU:0 Apple M2 Pro",
    "accelerated": True,
    "model": ModelFacts(preprocessing=[Layer("flip", "RandomFlip"), Layer("turn", "RandomZoom")]),
}
NO_KERNELS = "TensorFlow's profiler sees no kernels of this GPU"


def rows_of(height: int = 12, **missing: str) -> list[str]:
    """Return the rows of the pane of a training on a Mac. missing: of a profile that failed."""
    run = usual(None, **METAL)
    if missing:
        steps: dict[str, Any] = {"step": 9, "steps": 3, "step_ms": 5.0, "cost_ms": 8.0}
        run.event(StepProfiled, **steps, **missing)
    pane = StepPane()
    pane.view = look(run)
    return [row.plain.rstrip() for row in pane.rows(80, height)]


def test_without_kernels_the_pane_says_so_and_has_the_facts_of_the_model() -> None:
    assert rows_of(missing=NO_KERNELS) == [
        f"no profile: {NO_KERNELS}",
        "flip (RandomFlip) preprocesses images within the step",
        "turn (RandomZoom) preprocesses images within the step",
    ]


def test_before_a_profile_the_facts_stand_below_its_key_where_there_is_room() -> None:
    key = "e profiles a few steps: which layer, metric or optimizer takes them"
    assert rows_of(2) == [key, "flip (RandomFlip) preprocesses images within the step"]
