"""The GPUs of a strategy by CUDA's UUIDs, over a fake CUDA: this machine has no GPU."""

import ctypes
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from tests.runs.folders import make_writer, written
from tfwatch.watch.tensorflow_info import note_replicas

pytestmark = pytest.mark.tensorflow


class FakeCuda:
    """CUDA's numbers and UUIDs; a device without one raises an error of CUDA's."""

    def __init__(self, *uuids: str) -> None:
        self._uuids = uuids

    def cuDeviceGet(self, handle: Any, number: int) -> int:
        handle._obj.value = number
        return 0 if number < len(self._uuids) else 101

    def cuDeviceGetUuid_v2(self, found: Any, handle: Any) -> int:
        found._obj[:] = list(uuid.UUID(self._uuids[handle.value]).bytes)
        return 0


ONE, TWO = "11111111-2222-3333-4444-555555555555", "61111111-2222-3333-4444-55555555555f"


def iterator_of(*devices: str) -> Any:
    names = [f"/job:localhost/replica:0/task:0/device:{device}" for device in devices]
    return SimpleNamespace(
        _strategy=SimpleNamespace(extended=SimpleNamespace(worker_devices=names))
    )


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make CUDA's GPUs 1 and 2 visible to TensorFlow, the first of them as two logical devices."""
    visible = [SimpleNamespace(name=f"/physical_device:GPU:{number}") for number in (1, 2)]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: visible)
    parts = {"/physical_device:GPU:1": [object(), object()]}
    monkeypatch.setattr(
        tf.config, "get_logical_device_configuration", lambda gpu: parts.get(gpu.name)
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeCuda(TWO, ONE, TWO))


@pytest.mark.usefixtures("gpus")
def test_the_gpus_of_a_strategy_have_the_uuids_of_cuda(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    writer.describe(device="GPU:0 NVIDIA H200")
    note_replicas(writer, iterator_of("GPU:0", "GPU:1", "GPU:2"))

    assert writer.manifest().replicas == ["GPU:0", "GPU:1", "GPU:2"]
    assert writer.manifest().device == "3 GPUs NVIDIA H200"
    assert writer.strategy_gpus == {
        "GPU:0": ONE,
        "GPU:2": TWO,
    }  # two replicas on one GPU have one lane


@pytest.mark.usefixtures("gpus")
def test_a_device_that_cuda_does_not_know_has_no_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeCuda(ONE, TWO))
    writer = make_writer(tmp_path)
    note_replicas(writer, iterator_of("CPU:0", "GPU:0", "GPU:2"))

    assert writer.strategy_gpus == {"GPU:0": TWO}


def test_a_strategy_of_another_kind_is_noted_and_trains_on(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    note_replicas(writer, object())

    assert writer.manifest().replicas == []
    assert b"the replicas of the strategy are unknown" in writer_events(writer)


def writer_events(writer: Any) -> bytes:
    writer.flush()
    return bytes(written(writer, "events.jsonl"))
