"""Vectorised maps of a script's own pipeline: proved on real batches, equal with every switch, or refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.tfdata.rebuilding import vectorisable
from tests.tfdata.rebuilding.rebuilt_epochs import in_python, rebuilt_epoch, script_of

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]

EPOCHS = 2


def never() -> bool:
    return False


@pytest.mark.parametrize("name", ["several maps", "shuffle and repeat"])
def test_random_switches_change_no_element_and_no_order(name: str) -> None:
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

    make = vectorisable.EQUAL[name]
    bare, data, script, chooser = make(), make(), ScriptPipeline(), random.Random(name)
    for epoch in range(EPOCHS):
        iterator = iter(data)
        script.read(iterator)
        assert script.maps
        if not epoch:
            script.maps.prove(never)
        assert not script.why_no_fast
        got, switches = rebuilt_epoch(iterator, script, chooser, fast=True)
        assert got == [in_python(batch) for batch in bare]
        assert switches > 3


def test_a_vectorised_map_is_called_once_a_batch() -> None:
    from tfwatch.core.knobs import Knobs

    data = vectorisable.EQUAL["normalise"]()
    script = script_of(data)
    script.maps.prove(never)
    source = script.source(iter(data), 0, Knobs("default", "default"))
    stages = [
        script.build(source_of(source), Knobs("off", "off", fast_pipeline=fast))
        for fast in (False, True)
    ]
    assert [type(each._input_dataset).__name__ for each in stages] == [
        "_BatchDataset",
        "_MapDataset",
    ]


def source_of(iterator: Any) -> Any:
    from tfwatch.tfdata.distributed import dataset_of

    return dataset_of(iterator)


@pytest.mark.parametrize("name", vectorisable.REFUSED)
def test_what_cannot_be_vectorised_is_refused_before_a_proof(name: str) -> None:
    make, why = vectorisable.REFUSED[name]
    assert script_of(make()).why_no_fast == why


@pytest.mark.parametrize("name", vectorisable.NOT_EQUAL)
def test_what_may_differ_in_the_last_bit_is_refused_by_its_proof(name: str) -> None:
    make, why = vectorisable.NOT_EQUAL[name]
    script = script_of(make())
    assert not script.why_no_fast
    script.maps.prove(never)
    assert script.why_no_fast.startswith(why)
    assert not script.is_proved


def test_a_proof_covers_full_batches_and_a_smaller_last_one() -> None:
    script = script_of(vectorisable.EQUAL["normalise"]())
    script.maps.prove(never)
    assert script.maps.proof.words == "equal in 9 batches (35 examples)"


def test_a_proof_leaves_the_order_of_later_epochs() -> None:
    make = vectorisable.EQUAL["shuffle and repeat"]
    bare, data = make(), make()
    for _ in range(EPOCHS):
        assert [in_python(batch) for batch in data] == [in_python(batch) for batch in bare]
        script_of(data).maps.prove(never)
        iter(bare)  # as Keras' own, over which the pipeline was read


def test_a_stopped_proof_decides_nothing() -> None:
    script = script_of(vectorisable.EQUAL["normalise"]())
    script.maps.prove(lambda: True)
    assert not script.is_proved
    assert not script.why_no_fast


def test_a_failed_conversion_writes_nothing_into_the_scripts_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tfwatch.tfdata.rebuilding.pipeline_tree import CannotRebuildError
    from tfwatch.tfdata.rebuilding.vectorised_maps import vectorise

    data = vectorisable.REFUSED["JPEG"][0]()
    node = data._input_dataset
    with pytest.raises(CannotRebuildError, match="TensorFlow cannot vectorise"):
        vectorise(node, node._input_dataset.batch(2))
    assert not caplog.records


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        pytest.param([0.0, 1.0], [-0.0, 1.0], 1, id="signs of zero"),
        pytest.param([np.nan], [np.nan], 0, id="the same NaN"),
        pytest.param([1.0, 2.0], [np.nextafter(1.0, 2.0), 2.0], 1, id="the last bit"),
        pytest.param([1, 2], [1.0, 2.0], 2, id="types"),
        pytest.param([[1, 2]], [1, 2], 2, id="shapes"),
        pytest.param(np.array([b"a", b"b"], object), np.array([b"a", b"c"], object), 1, id="texts"),
    ],
)
def test_elements_are_compared_bit_for_bit(one: Any, other: Any, differing: int) -> None:
    from tfwatch.tfdata.rebuilding.vectorised_proof import count_differing

    assert count_differing(np.asarray(one), np.asarray(other)) == differing
