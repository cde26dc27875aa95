"""The workloads that can be trained. This registry imports nothing heavy; each workload is a module of its own."""

from __future__ import annotations

import difflib
import importlib
import os
from typing import TYPE_CHECKING, Any

from tfwatch.workloads.workload import BadInputError, Entry, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.knobs import Knobs
    from tfwatch.workloads.user.file import UserFile


#: Every workload by its name, which is that of its module here (a `Workload`).
WORKLOADS: dict[str, Entry] = {
    "matmul": Entry(
        "one square matrix product: what the device can do at best",
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
        "one convolution on MNIST in a loop written by hand: --eager shows what tf.function saves",
        defaults={"epochs": 5, "batch_size": 100},
        fast="whole batches",
        why_not={"steps_per_execution": "its loop runs one step at a time"},
    ),
    "dense": Entry(
        "784-128-10 on MNIST: steps of a millisecond, which picking examples one by one starves",
        defaults={"epochs": 10},
        fast="whole batches",
    ),
    "cifar10": Entry(
        "one convolution on CIFAR-10: short steps, fed from memory",
        defaults={"epochs": 5},
        fast="whole batches",
    ),
    "large-images": Entry(
        "one convolution on images of 256x256: arithmetic enough for the device to matter",
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
        "arrays in memory by train_on_batch: the loop indexes them itself, or tf.data does",
        defaults={"epochs": 10},
        fast="tf.data",
        why_not={"steps_per_execution": "train_on_batch runs one step"},
    ),
    "generator": Entry(
        "256-512-10 fed by a slow Python generator, or by the same work in tf.data",
        cached="examples",
        defaults={"epochs": 10},
        fast="tf.data",
    ),
}


def find(name: str) -> Entry:
    """The entry of a workload, or of a file of the user's own.

    Raises:
        BadInputError: there is none of this name, and the message names the nearest; or the file is no workload.
    """
    if name not in WORKLOADS:
        if _is_file(name):
            return _read(name).entry()
        near = difflib.get_close_matches(name, WORKLOADS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`tfwatch workloads` lists them"
        raise BadInputError(f"no workload {name!r}: {hint}")
    return WORKLOADS[name]


def load(name: str, knobs: Knobs | None = None) -> Any:
    """A workload (a `Workload`): a module, or one made of the user's file. Importing it does not import TensorFlow.

    knobs: at the start, for what is built once.

    Raises:
        BadInputError: as `find`.
    """
    find(name)
    if name in WORKLOADS:
        return importlib.import_module(f"tfwatch.workloads.models.{name.replace('-', '_')}")
    from tfwatch.workloads.user.workload import FileWorkload

    return FileWorkload(_read(name), knobs)


def title(name: str) -> str:
    """What a run of a workload is called.

    Raises:
        BadInputError: as `find`.
    """
    find(name)
    return name if name in WORKLOADS else _read(name).name


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.path.isfile(name)


def _read(name: str) -> UserFile:
    from tfwatch.workloads.user.file import read

    return read(name)


def refuses(entry: Entry, setting: str) -> bool:
    """Whether a field of `Settings` belongs to other workloads only."""
    return setting in _OWN - entry.takes if entry.only is None else setting not in entry.only


def settle(name: str, asked: Mapping[str, Any]) -> Settings:
    """A workload's settings: what was asked, None where nothing was, over its defaults.

    Raises:
        BadInputError: there is none of this name, or it does not know something that was asked.
    """
    entry = find(name)
    given = {setting: value for setting, value in asked.items() if value is not None}
    refused = {setting for setting in given if refuses(entry, setting)}
    refused |= {setting for setting in entry.why_not if given.get(setting) != getattr(Settings(), setting)}
    for setting in sorted(refused & given.keys()):
        option = given[setting] if setting == "mode" else setting.replace("_", "-")
        reason = entry.why_not.get(setting, "")
        raise BadInputError(f"{name} takes no --{option}{reason and f': {reason}'}")
    return Settings(**{**entry.defaults, **given})


#: Settings that not every workload knows.
_OWN = frozenset().union(*(entry.takes for entry in WORKLOADS.values()))
