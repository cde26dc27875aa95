"""The GPUs of a strategy: found by UUID, read together, and written once a second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.runs.folders import written
from tests.sensors.nvml import FakeNvml, NVMLError, opened
from tests.sensors.sources import FakeSource, Machine, new_events
from tfwatch.core.events import GpusFound, SensorMissing
from tfwatch.core.rows import GPU
from tfwatch.runs.format import GPUS
from tfwatch.sensors.protocol import CardReading, combine

if TYPE_CHECKING:
    from tests.runs.folders import FakeClock
    from tfwatch.runs.writer import RunWriter

FIRST, SECOND = (
    CardReading(name="A", busy=0.9, power_w=300.0),
    CardReading(name="B", busy=0.3, power_w=200.0),
)


def by_uuid(uuid: str) -> str | Exception:
    """NVML numbers the GPUs of this machine in the reverse order of CUDA's; one is a slice."""
    return {"GPU-first": "gpu3", "GPU-second": "gpu1", "MIG-slice": "slice 5"}.get(
        uuid, NVMLError(6)
    )


@pytest.mark.usefixtures("driver")
def test_the_gpus_of_a_strategy_are_found_by_their_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"gpu0": 5, "gpu1": 30, "gpu3": 90}
    nvml = FakeNvml(
        4,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=busy[handle], memory=1),
    )
    source = opened(nvml, monkeypatch)
    assert source.read().busy == 0.05

    source.follow(("first", "second"))
    reading = source.read()

    assert [(card.name, card.busy) for card in reading.cards] == [
        ("NVIDIA gpu3", 0.9),
        ("NVIDIA gpu1", 0.3),
    ]
    assert (reading.busy, reading.power_w) == (pytest.approx(0.6), 603.0)
    assert [card.total_bytes for card in reading.cards] == [2**34, 2**34]


@pytest.mark.usefixtures("driver")
def test_a_slice_and_an_unlisted_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(FakeNvml(4, nvmlDeviceGetHandleByUUID=by_uuid), monkeypatch)
    source.follow(("first", "slice", "unknown"))

    cards = source.read().cards

    assert [card.name for card in cards] == ["NVIDIA gpu3", "NVIDIA slice 5", ""]
    assert [card.busy for card in cards] == [0.37, None, None]


def test_a_sum_that_lacks_a_gpu_is_unknown() -> None:
    hot = CardReading(
        name="C",
        temperature_c=80.0,
        memory_bytes=7.0,
        freq_mhz=1200.0,
        thermal_level=3.0,
        limited_by="heat",
    )

    combined = combine([FIRST, SECOND, hot])

    assert combined.busy == pytest.approx(0.6)
    assert combined.power_w is None
    assert (combined.temperature_c, combined.memory_bytes, combined.freq_mhz) == (80.0, 7.0, 1200.0)
    assert (combined.thermal_level, combined.limited_by) == (3.0, "heat")
    assert combine([FIRST, SECOND]).power_w == 500.0


def rows_of(writer: RunWriter) -> Any:
    writer.flush()
    return np.frombuffer(written(writer, GPUS), GPU)


def test_each_gpu_has_a_row_a_second_with_its_means(writer: RunWriter, clock: FakeClock) -> None:
    writer.strategy_gpus = {"GPU:0": "first", "GPU:1": "second"}
    source = FakeSource()
    machine = Machine(writer, clock, source)
    for n in range(5):
        source.reading = combine([FIRST, CardReading(name="B", busy=0.1 * n)])
        machine.sample()
        clock.at_s += 0.5

    rows = rows_of(writer)
    assert source.followed == ("first", "second")
    assert rows["gpu"].tolist() == [0, 1] * 3
    assert rows["busy"][1::2] == pytest.approx([0.0, 0.15, 0.35])
    assert np.isnan(rows["memory_bytes"]).all()


def test_the_gpus_are_named_once_and_an_unlisted_one_has_a_reason(
    writer: RunWriter, clock: FakeClock
) -> None:
    writer.strategy_gpus = {"GPU:0": "first", "GPU:1": "second"}
    machine = Machine(writer, clock, FakeSource(reading=combine([FIRST, CardReading()])))
    for _ in range(3):
        machine.sample()
        clock.at_s += 1.0

    events = new_events(writer)
    assert [event.names for event in events if isinstance(event, GpusFound)] == [
        {"GPU:0": "A", "GPU:1": ""}
    ]
    missing = [
        event.sensor
        for event in events
        if isinstance(event, SensorMissing) and "strategy" in event.reason
    ]
    assert missing == ["GPU:1"]
