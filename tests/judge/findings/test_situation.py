"""The limit between a wait and a stall."""

from __future__ import annotations

import pytest

from tests.judge.situations import RUNNING, changed
from tests.runs.folders import make_manifest
from tfwatch.core.rows import Phase
from tfwatch.judge.findings.situation import MeasuredSetting, SourceKind, build_situation


@pytest.mark.parametrize(
    ("phase_s", "median_step_ms", "stalled"),
    [
        pytest.param(0.9, 20.0, False, id="the first batch of an epoch"),
        pytest.param(1.1, 20.0, True, id="many steps long"),
        pytest.param(1.1, 500.0, False, id="usual for slow steps"),
        pytest.param(1.9, 500.0, False, id="hardly four slow steps"),
        pytest.param(2.1, 500.0, True, id="long for slow steps"),
        pytest.param(1.2, None, True, id="nothing measured yet"),
    ],
)
def test_a_wait_is_a_stall_by_the_length_of_a_step(
    phase_s: float, median_step_ms: float | None, stalled: bool
) -> None:
    now = changed(RUNNING, phase=Phase.WAIT, phase_s=phase_s, median_step_ms=median_step_ms)

    assert now.is_stalled is stalled


@pytest.mark.parametrize(
    ("data", "kind"),
    [("arrays", SourceKind.ARRAYS), ("tf.data", SourceKind.TF_DATA), ("other", SourceKind.UNKNOWN)],
)
def test_a_fit_too_short_for_its_stages_has_the_source_of_its_manifest(
    data: str, kind: SourceKind
) -> None:
    assert build_situation(make_manifest(data=data), {}, MeasuredSetting()).origin.kind is kind
