"""The source of the batches of a run whose stages were never read."""

from __future__ import annotations

import pytest

from tests.runs.folders import make_manifest
from tfwatch.judge.findings.situation import MeasuredSetting, SourceKind, build_situation


@pytest.mark.parametrize(
    ("data", "kind"),
    [("arrays", SourceKind.ARRAYS), ("tf.data", SourceKind.TF_DATA), ("other", SourceKind.UNKNOWN)],
)
def test_a_fit_too_short_for_its_stages_has_the_source_of_its_manifest(
    data: str, kind: SourceKind
) -> None:
    assert build_situation(make_manifest(data=data), {}, MeasuredSetting()).origin.kind is kind
