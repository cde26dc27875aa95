"""Evidence for forecasts: steps that were made by the formulas of a pipeline."""

from typing import Any

import numpy as np

from tests.judge.step_rows import make_steps
from tests.runs.folders import make_manifest
from tfwatch.core.events import PipelineSwitched
from tfwatch.judge.forecasts.evidence import Evidence
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.steady_steps import breakdown
from tfwatch.runs.format import Manifest

KNOBS = {"prefetch": "off", "workers": "off"}


def evidence(wait: Any, compute: float = 13.0, host: float = 0.8, **known: Any) -> Evidence:
    """Evidence of 200 steps with these knobs; the switches of `comparisons` led to them."""
    rows = make_steps(np.asarray(wait) + np.zeros(200), compute=compute, host=host)
    knobs = {**KNOBS, **known.pop("knobs", {})}
    given = {"switchable": [*knobs], "machine": {"cores": known.pop("cores", 16)}, **known}
    of_run = {key: given.pop(key) for key in {*Manifest.__struct_fields__} & given.keys()}
    if comparisons := given.get("comparisons"):
        given["switches"] = tuple(
            PipelineSwitched(0, one.knob, one.old, one.new, one.step, one.step, 1.0, one.by)
            for one in comparisons
        )
    start = knobs | {one.knob: one.old for one in reversed(given.get("switches", ()))}
    run = make_manifest(**{"accelerated": True, "knobs": start, **of_run})
    return Evidence(run, breakdown(rows), knobs, rows=rows, **given)


def step_ms_of(found: Forecast) -> float:
    assert found.is_known, found.why
    assert found.low_ms <= found.step_ms <= found.high_ms
    return found.step_ms


def stages(**busy_ms: float) -> StageTable:
    """A table of stages by their kinds."""
    return StageTable(0, tuple(Stage(kind, kind, ms) for kind, ms in busy_ms.items()))
