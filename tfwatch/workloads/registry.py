"""The registry of the workloads; it imports neither them nor TensorFlow."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any, cast

from tfwatch.config import KEYS, read_config
from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import Knobs
from tfwatch.core.refusals import LACKING
from tfwatch.workloads.workload import Entry, Settings, Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.config import ConfigKey


#: Every workload by name, which is also the name of its module (a `Workload`).
WORKLOADS: dict[str, Entry] = {
    "matmul": Entry(
        "one square matrix product: the most that the device can do",
        defaults={"epochs": 1},
        takes=frozenset({"size"}),
        fast="whole batches",
    ),
    "conv": Entry(
        "one convolution on one image: a kernel that may be too small for a GPU",
        defaults={"epochs": 1, "batch_size": 1},
        fast="whole batches",
    ),
    "cnn": Entry(
        "a small convolutional network on JPEG files: decode and augment starve it",
        takes=frozenset({"data", "image_size"}),
        reads_files=True,
        cached="decoded images",
    ),
    "cnn-loop": Entry(
        "one convolution on MNIST in a custom loop: --eager shows the gain of tf.function",
        defaults={"epochs": 5, "batch_size": 100},
        fast="whole batches",
        why_not={"steps_per_execution": "its loop runs one step per iteration"},
    ),
    "dense": Entry(
        "784-128-10 on MNIST: steps of a millisecond, starved by picking single examples",
        defaults={"epochs": 10},
        fast="whole batches",
    ),
    "cifar10": Entry(
        "one convolution on CIFAR-10: short steps, data in memory",
        defaults={"epochs": 5},
        fast="whole batches",
    ),
    "large-images": Entry(
        "one convolution on images of 256x256: enough arithmetic for the device to matter",
        defaults={"epochs": 2},
        fast="whole batches",
    ),
    "timeseries": Entry(
        "an LSTM on windows of a series: many small kernels one after another",
        defaults={"epochs": 5},
        fast="whole batches",
    ),
    "transfer": Entry(
        "MobileNetV2 at 224x224, its base frozen, on JPEG files: resizing and a large model",
        defaults={"epochs": 2},
        takes=frozenset({"data", "weights"}),
        reads_files=True,
        cached="decoded images",
    ),
    "array": Entry(
        "arrays in memory by train_on_batch: indexed in the loop, or by tf.data",
        defaults={"epochs": 10},
        fast="tf.data",
        why_not={"steps_per_execution": "train_on_batch runs one step"},
    ),
    "generator": Entry(
        "256-512-10 on a slow Python generator, or on the same work in tf.data",
        cached="examples",
        defaults={"epochs": 10},
        fast="tf.data",
    ),
}


def find(name: str) -> Entry:
    """Return the entry of a workload.

    Raises:
        BadInputError: no workload has this name; the message names the nearest one.
    """
    if name not in WORKLOADS:
        near = difflib.get_close_matches(name, WORKLOADS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`tfwatch workloads` lists them"
        raise BadInputError(f"no workload {name!r}: {hint}")
    return WORKLOADS[name]


def default_knobs(name: str) -> Knobs:
    """Return the start knobs of a workload: those of the config file that it has.

    Raises:
        BadInputError: there is no such workload. ConfigError: the config file cannot be used.
    """
    entry = find(name)
    values = read_config().values
    return Knobs(
        **{
            key.knob: values[key.name]
            for key in KEYS.values()
            if key.knob and _takes(entry, key, values)
        }
    )


def _takes(entry: Entry, key: ConfigKey, values: Mapping[str, Any]) -> bool:
    """Return True where the config file has a knob that the workload has; the device decides on a prefetch to it."""
    return key.name in values and (
        key.knob not in LACKING or key.knob == "device_prefetch" or entry.has(key.knob)
    )


def load(name: str) -> Workload:
    """Return a workload's module, without importing TensorFlow.

    Raises:
        BadInputError: as `find`.
    """
    find(name)
    return cast(
        "Workload", importlib.import_module(f"tfwatch.workloads.models.{name.replace('-', '_')}")
    )


def refuses(entry: Entry, setting: str) -> bool:
    """Return True where a workload does not take a field of `Settings`."""
    return setting in _SPECIAL - entry.takes


def settle(name: str, requested: Mapping[str, Any]) -> Settings:
    """Return a workload's settings: the requested ones that are not None, over its defaults.

    Raises:
        BadInputError: there is no such workload, or it does not take a requested setting.
    """
    entry = find(name)
    given = {setting: value for setting, value in requested.items() if value is not None}
    refused = {setting for setting in given if refuses(entry, setting)}
    refused |= {
        setting for setting in entry.why_not if given.get(setting) != getattr(Settings(), setting)
    }
    for setting in sorted(refused & given.keys()):
        option = given[setting] if setting == "mode" else setting.replace("_", "-")
        reason = entry.why_not.get(setting, "")
        raise BadInputError(f"{name} takes no --{option}{reason and f': {reason}'}")
    return Settings(**{**entry.defaults, **given})


#: Settings that only some workloads take.
_SPECIAL = frozenset().union(*(entry.takes for entry in WORKLOADS.values()))
