"""The edits of docs/pipelines.md keep the elements of the pipeline."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.pipelines import FILES, NAMES, pipelines

PIPELINES = pipelines()
#: A multiple of the page's batch size: the generator leaves an incomplete batch to the next epoch.
_IMAGES = 64


@pytest.mark.tensorflow
def test_each_edit_keeps_the_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(FILES.format(images=_IMAGES, pixels=32), {})

    for pipeline in PIPELINES:
        before, after = _elements(pipeline.before), _elements(pipeline.after)

        assert len(before) == _IMAGES, pipeline.title
        assert before == after, pipeline.title


def test_the_page_has_five_pipelines() -> None:
    assert len(PIPELINES) == 5
    assert all(one.before != one.after for one in PIPELINES)


def _elements(code: str) -> list[tuple[int, float]]:
    """Run the code of a pipeline; return the label and the mean of each element of an epoch, which
    a flip leaves as it is, in an order of their own."""
    names: dict[str, Any] = {}
    exec(f"{NAMES}\n{code}", names)
    data = names["data"]
    batches = (data[n] for n in range(len(data))) if hasattr(data, "workers") else iter(data)
    found: list[tuple[int, float]] = []
    for _ in range(_IMAGES // 32):
        images, labels = next(batches)
        means = np.asarray(images).reshape(32, -1).mean(axis=1, dtype="float64").round(4)
        found += zip(map(int, labels), means.tolist(), strict=True)
    return sorted(found)
