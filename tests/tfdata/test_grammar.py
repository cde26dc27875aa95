"""Pipelines drawn at random: no live switch changes an element, or ends a training.

`python -m tests.bench.grammar` tries more seeds.
"""

import pytest

from tests.tfdata.grammar import Trial, difference, draw, fitted, trained
from tfwatch.core.knobs import Refusal

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]

#: Of the seeds below 200, these reach what all of them do: each branch of tfwatch, each stage and
#: function of a text, each knob alone and in calls of several steps, and each reason of a refusal.
SEEDS = (
    *(0, 1, 3, 9, 10, 15, 20, 24, 27, 29, 35, 43, 46, 52, 58, 59, 60, 65, 66, 70, 74, 77, 80, 86),
    *(87, 88, 95, 98, 100, 103, 105, 106, 118, 120, 122, 124, 126, 128, 129, 130, 133, 135, 137),
    *(138, 140, 144, 148, 155, 158, 159, 160, 164, 165, 167, 174, 177, 179, 180, 187, 192, 196),
)
CHUNK = 8
#: Every so many seeds are those of a `fit` of Keras.
FIT_EVERY = 20
CACHE_FILE, RAGGED_ROWS = Refusal.CACHE_FILE.words, Refusal.RAGGED_ROWS.words
#: Pipelines that have differed: the text, and the switches before each step.
_RAGGED = "Dataset.from_tensor_slices(tf.ragged.constant([[1], [], [2, 3], [5]] * 5, tf.int64))"
KEPT = {
    "a cache file that no epoch completes": (
        "Dataset.range(10).cache(new + '/1').take(6).batch(2)",
        {3: [("prefetch", "2")], 6: [("workers", "auto")]},
    ),
    # Nine elements: the last batch ends the data. With ten, the epoch ends before the file is
    # complete, and the next iterator raised DataLossError in 75 of 4 232 tries without tfwatch.
    "a cache file that the first epoch completes": (
        "Dataset.range(9).cache(new + '/1').map(more).batch(2)",
        {0: [("workers", "2")], 5: [("workers", "2")], 8: [("workers", "3")]},
    ),
    "rows of a ragged tensor": (
        f"{_RAGGED}.map(nested)",
        {0: [("prefetch", "auto")], 6: [("workers", "2")]},
    ),
    "a fixed shuffle over another": (
        "Dataset.range(20).shuffle(9).shuffle(5, seed=1, reshuffle_each_iteration=False).map(more)",
        {3: [("workers", "3")], 30: [("workers", "default")]},
    ),
    "smaller batches, padded": (
        "Dataset.range(40).map(looped, num_parallel_calls=2).batch(3).padded_batch(4).map(more)",
        {2: [("prefetch", "1")], 4: [("workers", "auto")], 7: [("cache", "on")]},
    ),
}
#: Those that have differed in Keras' own `fit` alone: the text, `steps_per_epoch`, and whether a
#: callback makes the train function again in each epoch.
KEPT_FITS = {
    "a batch ahead of an epoch with another train function": (
        "Dataset.range(7).repeat()",
        9,
        True,
    ),
    "single rows of a ragged tensor": (f"{_RAGGED}.rebatch(6)", 0, False),
}


@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_no_switch_changes_an_element(first: int) -> None:
    switched: set[str] = set()
    for seed in SEEDS[first : first + CHUNK]:
        trial = draw(seed)
        why, outcome = difference(trial, trained if seed % FIT_EVERY else fitted)
        assert not why, f"{trial}\n{why}"
        switched.update(outcome.switched)
    assert "prefetch" in switched


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("fused", [1, 3])
def test_a_pipeline_that_differed_is_equal(name: str, fused: int) -> None:
    text, switches = KEPT[name]
    trial = Trial(0, text, 0, fused, remade=False, seeded=True, switches=switches)
    why, outcome = difference(trial)
    assert not why
    assert outcome.switched or CACHE_FILE in outcome.refused


@pytest.mark.parametrize("name", KEPT_FITS)
@pytest.mark.parametrize("fused", [1, 3])
def test_a_fit_that_differed_is_equal(name: str, fused: int) -> None:
    text, steps, remade = KEPT_FITS[name]
    switches = {1: [("prefetch", "4")], 3: [("prefetch", "4")]}
    trial = Trial(0, text, steps, fused, remade, seeded=True, switches=switches)
    why, outcome = difference(trial, fitted)
    assert not why
    assert outcome.switched or RAGGED_ROWS in outcome.refused
