"""The finding on steps whose limit is the copy of the batch to the device."""

from dataclasses import replace

import pytest

from tests.judge.situations import RUNNING, banner, changed, losses, stat
from tfwatch.core.knobs import NotTimed
from tfwatch.judge.findings.copying import UINT8
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.situation import Situation
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.forecasts.predict import bandwidth
from tfwatch.judge.steps.steady_steps import Breakdown

#: 16 ms, 12 of them copying.
SPLIT = Breakdown(
    100, stat(16.0), stat(0.2), stat(1.5), stat(3.5), stat(0.3), 0.0125, copy=stat(12.0)
)


#: Batches are in memory that the GPU reads directly.
PINNED = {**RUNNING.knobs, "pinned": "on"}


def copying(**copied_bytes: int) -> Situation:
    return changed(
        RUNNING,
        split=SPLIT,
        accelerated=True,
        copied_bytes=copied_bytes,
        knobs=PINNED,
        started=PINNED,
    )


def in_ordinary_memory(now: Situation) -> Situation:
    return changed(now, knobs={**RUNNING.knobs, "pinned": "off"})


def test_it_names_the_time_the_bytes_and_the_bandwidth() -> None:
    found = banner(copying(float32=60 * 2**20))

    assert found.word == "COPY-BOUND 75 %"
    assert (
        found.sentence == "copying batches to the GPU takes 12.0 of 16.0 ms/step: 60 MB at 5.2 GB/s"
    )


@pytest.mark.parametrize(
    ("kind", "sizes", "step"),
    [
        ("float32", "15 MB in place of 60 MB", "7.0"),
        ("float64", "8 MB in place of 60 MB", "5.5"),
        ("float16", "30 MB in place of 60 MB", "10.0"),
    ],
)
def test_one_byte_for_each_fractional_number_is_advised_with_its_gain(
    kind: str, sizes: str, step: str
) -> None:
    found = banner(copying(**{kind: 60 * 2**20}))

    assert found.advice == f"images as uint8, cast on the device: {sizes}, about {step} ms/step"
    assert found.code == UINT8


def test_pinned_memory_is_advised_for_batches_in_ordinary_memory() -> None:
    found = banner(in_ordinary_memory(copying(uint8=60 * 2**20)))

    assert found.advice == (
        "batches in pinned memory, which the GPU reads directly: about 6.5 ms/step, the same"
        " elements"
    )
    assert "map_and_batch(lambda *parts: parts, 1, num_parallel_calls=2)" in found.code
    assert found.claims["copy_s"] == pytest.approx(0.79 * 12.0, rel=0.01)


def test_small_batches_and_fast_copies_stay_where_they_are_and_bytes_stay_bytes() -> None:
    for size in (2**20, 160 * 2**20):
        advice = banner(in_ordinary_memory(copying(uint8=size))).advice
        assert advice.startswith("copy fewer bytes")


def test_pinned_memory_is_advised_by_its_key_where_it_is_a_knob() -> None:
    then = Forecast("pinned", "on", 7.5, 5.5, 10.3, "", 16.0)
    now = changed(
        in_ordinary_memory(copying(uint8=60 * 2**20)),
        switchable=["pinned"],
        forecasts={("pinned", "on"): then},
    )

    found = banner(now)

    assert found.advice.startswith("n pinned on: ")
    assert found.forecast is then
    assert found.claims["copy_s"] == pytest.approx(8.5)


def test_an_unknown_bandwidth_is_missing() -> None:
    assert bandwidth({}, 12.0) is None
    assert bandwidth({"uint8": 12_000_000}, 0.0) is None
    assert bandwidth({"uint8": 12_000_000}, 2.0) == 6e9


@pytest.mark.parametrize(
    ("step", "compute", "copy", "ahead_ms", "word", "sentence"),
    [
        (12.0, 11.5, 0.0, 9.0, "75", "7.0 GB/s, ahead of the steps, whose launching waits for it"),
        (12.5, 4.0, 7.8, 10.0, "80", "6.3 GB/s, ahead of the steps, which wait 7.8 ms for it"),
    ],
    ids=["launching waits", "the fetch waits"],
)
def test_a_copy_ahead_is_named_with_what_waits_for_it(
    step: float, compute: float, copy: float, ahead_ms: float, word: str, sentence: str
) -> None:
    dispatch, host = stat(compute - 1.0), stat(step - copy - compute - 0.2)
    ahead = replace(SPLIT, step=stat(step), compute=stat(compute), copy=stat(copy))
    ahead = replace(ahead, dispatch=dispatch, host=host)
    now = in_ordinary_memory(copying(float32=60 * 2**20))

    found = banner(changed(now, split=ahead, copy_ms=ahead_ms, copied_ahead=True))

    assert found.word == f"COPY-BOUND {word} %"
    assert found.sentence.endswith(f"60 MB at {sentence}")
    assert found.advice.startswith("batches in pinned memory")


def copy_losses(now: Situation) -> list[Finding]:
    """Return what is found of the copy, wherever it ranks."""
    return [one for one in losses(now) if one.kind == "copy-bound"]


#: 7 ms, of which the call copies for 1.2 from pinned memory.
IN_CALL = Breakdown(100, stat(7.0), stat(0.2), stat(2.0), stat(6.5), stat(0.3), 0.03)


def test_a_copy_within_the_call_is_named_with_the_copy_ahead_that_hides_it() -> None:
    then = Forecast("device_prefetch", "2", 5.8, 5.1, 7.2, "copies run beside kernels", 7.0)
    now = changed(
        copying(float32=37 * 10**6),
        split=IN_CALL,
        copy_ms=1.2,
        copy_not_timed=NotTimed.PINNED.value,
        knobs={"prefetch": "default", "workers": "default"},
        switchable=["device_prefetch"],
        forecasts={("device_prefetch", "2"): then},
    )

    (found,) = copy_losses(now)

    assert found.sentence.endswith(
        "takes 1.2 of 7.0 ms/step: 35 MB at 30.8 GB/s, within the step's call"
    )
    assert found.forecast is then
    assert found.claims["copy_s"] == 0.0
    assert found.claims["compute_s"] == pytest.approx(1.2)


def test_of_a_copy_ahead_from_pinned_memory_only_the_wait_is_told() -> None:
    split = replace(IN_CALL, copy=stat(0.7))
    (found,) = copy_losses(
        changed(copying(float32=37 * 10**6), split=split, copy_ms=1.2, copied_ahead=True)
    )

    assert found.sentence == (
        "copying batches to the GPU takes 0.7 of 7.0 ms/step, ahead of the steps, which wait 0.7 ms"
        " for it"
    )


def test_a_copy_ahead_from_pinned_memory_delays_a_step_by_its_wait_alone() -> None:
    split = replace(IN_CALL, copy=stat(0.1))
    ahead = changed(copying(float32=37 * 10**6), split=split, copy_ms=6.0, copied_ahead=True)

    assert not copy_losses(ahead)
    assert copy_losses(in_ordinary_memory(ahead))
