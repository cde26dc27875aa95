"""Pipelines drawn at random: no live switch changes an element, or ends a training.

`python -m tests.bench.grammar` tries more seeds.
"""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]

SEEDS, CHUNK = 200, 20
#: Pipelines that have differed: the text, and the switches before each step.
KEPT = {
    "a fixed shuffle over another": (
        "Dataset.range(20).shuffle(9).shuffle(5, seed=1, reshuffle_each_iteration=False).map(more)",
        {3: [("workers", "3")], 30: [("workers", "default")]},
    ),
    "smaller batches, padded": (
        "Dataset.range(40).map(looped, num_parallel_calls=2).batch(3).padded_batch(4).map(more)",
        {2: [("prefetch", "1")], 4: [("workers", "auto")], 7: [("cache", "on")]},
    ),
}


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_switch_changes_an_element(first: int) -> None:
    from tests.tfdata.grammar import difference, draw, fitted, trained

    switched: set[str] = set()
    for seed in range(first, first + CHUNK):
        trial = draw(seed)
        why, outcome = difference(trial, trained if seed % CHUNK else fitted)
        assert not why, f"{trial}\n{why}"
        switched.update(outcome.switched)
    assert "prefetch" in switched


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("fused", [1, 3])
def test_a_pipeline_that_differed_is_equal(name: str, fused: int) -> None:
    from tests.tfdata.grammar import Trial, difference

    text, switches = KEPT[name]
    trial = Trial(0, text, 0, fused, remade=False, seeded=True, switches=switches)
    why, outcome = difference(trial)
    assert not why
    assert outcome.switched
