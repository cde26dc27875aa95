"""Do the patches of `tfwatch fix` apply, train the same, and give what they promise?

    python -m tests.bench.patches OUT [SCRIPT ...] [--slow 20] [--healthy 40]

Each script is fixed in a folder of its own. Where there is a patch, git applies it, and the script
runs in full as it was and as patched, once each under `tfwatch run`: the ratio of their steps
should be within the interval that the patch has for fresh runs, and the losses of their last epoch
should be equal. OUT/rows.jsonl has a row a script; scripts with a row are left out, so that the
program can be stopped and run again. `--slow` and `--healthy`: so many scripts in the style of
keras.io, each slow in a way of its own, or not at all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.pseudo import ROOT
from tfwatch.judge.comparing.compared_runs import compare_runs
from tfwatch.judge.comparing.run_to_compare import NotComparableError, RunToCompare
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

#: Seconds of a fix, and of a run of a script; a fix begins no run later than the budget.
_LONGEST_S, _BUDGET = 1500, "6m"

#: Without it the losses of two runs differ.
_SEEDED = "import keras\n\nkeras.utils.set_random_seed(1)\n"

# -- scripts ---------------------------------------------------------------------------------------

_HEAD = """\
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed({seed})
rng = np.random.default_rng({seed})
"""
_ROWS = """
x_train = rng.random(({count}, 32), dtype="float32")
y_train = (x_train.sum(axis=1) > 16).astype("int32")
"""
_IMAGES = """
x_train = rng.integers(0, 255, ({count}, 32, 32, 3), dtype="uint8")
y_train = rng.integers(0, 4, {count})
"""
_MLP = """
model = keras.Sequential(
    [
        keras.Input((32,)),
        *(layers.Dense({units}, activation="relu") for _ in range({deep})),
        layers.Dense(4),
    ]
)
"""
_CNN = """
inputs = keras.Input((32, 32, 3))
x = layers.Rescaling(1 / 255)(inputs)
x = layers.Conv2D({units}, 3, strides=2, activation="relu")(x)
x = layers.Conv2D({units}, 3, strides=2, activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(4)(x)
model = keras.Model(inputs, outputs)
"""
_LSTM = """
model = keras.Sequential(
    [keras.Input((32,)), layers.Reshape((8, 4)), layers.LSTM({units}), layers.Dense(4)]
)
"""
_COMPILE = """
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],{more}
)
"""
_ARRAYS = "model.fit(x_train, y_train, batch_size={batch}, epochs={epochs}, verbose=2)\n"
_DATA = "model.fit(train_ds, epochs={epochs}, verbose=2)\n"
_SLICES = "tf.data.Dataset.from_tensor_slices((x_train, y_train))"
_BLUR = """
def prepare(image, label):
    image = tf.cast(image, tf.float32)
    for _ in range({work}):
        image = tf.image.resize(tf.image.resize(image, (48, 48)), (32, 32))
    return image, label
"""
_WAIT = """
def read(image, label):
    def load(value):
        time.sleep(0.002)  # a slow disk
        return value

    image = tf.numpy_function(load, [image], tf.uint8)
    image.set_shape((32, 32, 3))
    return image, label
"""
_CHEAP = (
    ".map(lambda x, y: (x - 0.5, y))",
    ".map(lambda x, y: (x * 2.0, y))",
)


_SIZES = {"units": 32, "deep": 2, "batch": 32, "count": 4096, "work": 16, "epochs": 3}


def _script(seed: int, *parts: str, more: str = "", **sizes: int) -> str:
    sizes = {**_SIZES, "seed": seed, **sizes}
    text = "".join((_HEAD, *parts)).replace("{more}", f"\n    {more}," if more else "")
    for name, value in sizes.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _pipeline(*calls: str, source: str = _SLICES) -> str:
    lines = "\n".join(f"    {call}" for call in calls)
    return f"\ntrain_ds = (\n    {source}\n{lines}\n)\n"


def _lines(*calls: str) -> str:
    return f"\ntrain_ds = {_SLICES}\n" + "".join(f"train_ds = train_ds{one}\n" for one in calls)


def slow_scripts() -> dict[str, str]:
    """Return scripts that lose time, by what they lose it to."""
    batch, auto = ".batch({batch})", "tf.data.AUTOTUNE"
    made = {
        "cheap_maps": (_ROWS, _pipeline(*_CHEAP, batch), _MLP, _COMPILE, _DATA),
        "cheap_maps_lines": (_ROWS, _lines(*_CHEAP, batch), _MLP, _COMPILE, _DATA),
        "cheap_maps_shuffled": (
            *(_ROWS, _pipeline(".shuffle(1024, seed=1)", *_CHEAP, ".batch({batch})")),
            *(_MLP, _COMPILE, _DATA),
        ),
        "serial_map": (_IMAGES, _BLUR, _pipeline(".map(prepare)", batch), _CNN, _COMPILE, _DATA),
        "serial_map_lines": (_IMAGES, _BLUR, _lines(".map(prepare)", batch), _CNN, _COMPILE, _DATA),
        "serial_map_prefetched": (
            *(_IMAGES, _BLUR, _pipeline(".map(prepare)", batch, ".prefetch(1)")),
            *(_CNN, _COMPILE, _DATA),
        ),
        "no_prefetch": (
            *(_IMAGES, _BLUR, _pipeline(f".map(prepare, num_parallel_calls={auto})", batch)),
            *(_CNN, _COMPILE, _DATA),
        ),
        "waiting_reads": (_IMAGES, _WAIT, _pipeline(".map(read)", batch), _CNN, _COMPILE, _DATA),
        "waiting_reads_two": (
            *(_IMAGES, _WAIT, _pipeline(".map(read, num_parallel_calls=2)", batch, ".prefetch(2)")),
            *(_CNN, _COMPILE, _DATA),
        ),
        "take_after_cache": (
            *(_IMAGES, _BLUR, _pipeline(".map(prepare)", ".cache()", ".take(1024)", batch)),
            *(_CNN, _COMPILE, _DATA),
        ),
        "take_after_cache_lines": (
            *(_IMAGES, _BLUR, _lines(".map(prepare)", ".cache()", ".take(1024)", batch)),
            *(_CNN, _COMPILE, _DATA),
        ),
        "eager_arrays": (_ROWS, _MLP, _COMPILE, _ARRAYS),
        "eager_data": (_IMAGES, _pipeline(batch, ".prefetch(2)"), _CNN, _COMPILE, _DATA),
        "tiny_steps": (_ROWS, _MLP, _COMPILE, _ARRAYS),
        "tiny_steps_data": (_ROWS, _pipeline(batch, ".prefetch(2)"), _MLP, _COMPILE, _DATA),
        "unrolled": (_ROWS, _LSTM.replace("{units})", "{units}, unroll=True)"), _COMPILE, _ARRAYS),
        "validation": (
            *(_ROWS, _MLP, _COMPILE),
            _ARRAYS.replace("verbose", "validation_data=(x_train, y_train), verbose"),
        ),
        "slow_callback": (_ROWS, _MLP, _COMPILE, _CALLBACK),
        "generator": (_IMAGES, _GENERATOR, _CNN, _COMPILE, _DATA),
        "augmentation": (_IMAGES, _pipeline(batch), _AUGMENTED, _COMPILE, _DATA),
    }
    small = {"epochs": 8, "batch": 128, "count": 20_000}
    images = {"epochs": 11, "count": 2400}
    sizes = {
        "cheap_maps": {"epochs": 5, "batch": 256, "count": 40_000},
        "cheap_maps_lines": {"epochs": 5, "batch": 128, "count": 30_000},
        "cheap_maps_shuffled": {"epochs": 5, "batch": 64, "count": 30_000},
        "take_after_cache": {"epochs": 10, "batch": 16},
        "take_after_cache_lines": {"epochs": 10, "batch": 16},
        "eager_arrays": {"epochs": 3, "count": 9600},
        "eager_data": {"epochs": 3, "count": 6400},
        "tiny_steps": {"epochs": 4, "batch": 8},
        "tiny_steps_data": {"epochs": 4, "batch": 8},
        "unrolled": {"epochs": 8, "count": 9600},
        "validation": {"epochs": 12, "count": 9600},
        "slow_callback": small,
        "waiting_reads": {"epochs": 3, "count": 3200},
        "waiting_reads_two": {"epochs": 4, "count": 4800},
    }
    more = {"eager_arrays": "run_eagerly=True", "eager_data": "run_eagerly=True"}
    return {
        name: _script(n, *parts, more=more.get(name, ""), **sizes.get(name, images))
        for n, (name, parts) in enumerate(made.items(), 1)
    }


_CALLBACK = """
class Logger(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.text = "".join(str(number * batch) for number in range(6000))


model.fit(
    x_train, y_train, batch_size={batch}, epochs={epochs}, callbacks=[Logger()], verbose=2
)
"""
_GENERATOR = """
def batches():
    for at in range(0, len(x_train), {batch}):
        images = np.stack([np.roll(one, 3, axis=0) for one in x_train[at : at + {batch}]])
        time.sleep(0.02)
        yield images, y_train[at : at + {batch}]


train_ds = tf.data.Dataset.from_generator(
    batches,
    output_signature=(
        tf.TensorSpec((None, 32, 32, 3), tf.uint8),
        tf.TensorSpec((None,), tf.int64),
    ),
)
"""
_AUGMENTED = """
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
        layers.Conv2D({units}, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4),
    ]
)
"""


def healthy_scripts(count: int) -> dict[str, str]:
    """Return scripts that lose nothing: models that take most of a step, over data that is ready
    in time."""
    auto = "tf.data.AUTOTUNE"
    cast = "lambda x, y: (tf.cast(x, tf.float32), y)"
    feeds = (
        _ARRAYS,
        _pipeline(".batch({batch})", ".prefetch(2)") + _DATA,
        _pipeline(".cache()", ".shuffle(512)", ".batch({batch})", f".prefetch({auto})") + _DATA,
        _pipeline(".batch({batch})", f".map({cast}, num_parallel_calls={auto})", ".prefetch(2)")
        + _DATA,
    )
    models = (
        (_ROWS, _MLP, {"units": 768, "deep": 4, "batch": 128, "count": 12_800}),
        (_IMAGES, _CNN, {"units": 64, "batch": 32, "count": 4800}),
        (_ROWS, _LSTM, {"units": 192, "batch": 64, "count": 6400}),
    )
    found = {}
    for n in range(count):
        rows, model, sizes = models[n % len(models)]
        feed = feeds[n // len(models) % len(feeds)]
        sizes = {**sizes, "units": sizes["units"] + 16 * (n // 12)}
        text = _script(100 + n, rows, model, _COMPILE, feed, more="", **sizes)
        found[f"healthy_{n + 1:02}"] = text
    return found


# -- a script --------------------------------------------------------------------------------------


@dataclass
class Row:
    """A script. promised: of the patch in fresh runs, with its interval; fresh: measured.

    losses: of the last epoch, as it was and as patched. applies: None without a patch.
    """

    name: str
    took_s: float
    kept: list[str]
    tried: list[list[str]]
    why: str
    applies: bool | None = None
    promised: list[float | None] | None = None
    fresh: float | None = None
    losses: list[float] | None = None


def measure(name: str, source: str, out: Path, allowed: list[str]) -> Row:
    """Fix a script, and run it as it was and as patched."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    script = folder / "train.py"
    script.write_text(source)
    began_s = time.monotonic()
    words = ["fix", "--json", "--budget", _BUDGET, *(f"--allow={one}" for one in allowed)]
    found = _tfwatch(folder, *words, str(script))
    try:
        document = json.loads(found)
    except ValueError:
        return Row(name, time.monotonic() - began_s, [], [], "fix failed")
    tried = [[one["change"], one["outcome"]] for one in document["tried"]]
    kept = [one["change"] for one in document["tried"] if one["kept"]]
    row = Row(name, time.monotonic() - began_s, kept, tried, document["why_none"] or "")
    if document["patch"]:
        row.promised = [document[f"speedup{end}"] for end in ("", "_low", "_high")]
        _check(row, folder, document["patch"])
    return row


def _check(row: Row, folder: Path, patch: str) -> None:
    """Apply the patch, and run the script as it was and as patched."""
    original = (folder / "train.py").read_text()
    (folder / "fix.diff").write_text(patch)
    git = ["git", "apply", "fix.diff"]
    row.applies = subprocess.run(git, cwd=folder, check=False).returncode == 0
    (folder / "patched.py").write_text((folder / "train.py").read_text())
    (folder / "train.py").write_text(original)
    runs = [_run(folder, one) for one in ("train", "patched")]
    row.losses = [_last_loss(run) for run in runs]
    try:
        row.fresh = compare_runs([runs[0]], [runs[1]]).estimate.ratio
    except NotComparableError as error:
        row.why = str(error)


def _run(folder: Path, name: str) -> RunToCompare:
    runs_dir = folder / f"runs_{name}"
    _tfwatch(folder, "run", "--headless", str(folder / f"{name}.py"), runs_dir=runs_dir)
    (run,) = (one.parent for one in runs_dir.glob("*/run.json"))
    return RunToCompare(JudgedRun(open_run(run)), name)


def _last_loss(run: RunToCompare) -> float:
    epochs = run.epochs
    return epochs[max(epochs)].metrics.get("loss", math.nan) if epochs else math.nan


def _tfwatch(folder: Path, *words: str, runs_dir: Path | None = None) -> str:
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    environ = {
        **os.environ,
        "PYTHONPATH": path,
        "TFWATCH_RUNS_DIR": str(runs_dir or folder / "runs"),
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
    with (folder / f"{words[0]}.log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tfwatch", *words],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    return done.stdout


# -- the table -------------------------------------------------------------------------------------


def print_row(row: dict[str, Any]) -> None:
    """Print a row of the table."""
    if row["applies"] is None:
        print(f"{row['name']:<28} {row['took_s']:4.0f} s  no patch  {row['why'][:100]}", flush=True)
        return
    promised = " ".join("n/a" if one is None else f"{one:.3g}" for one in row["promised"])
    same = row["losses"][0] == row["losses"][1]
    loss = "same loss" if same else f"losses {row['losses'][0]:.7g} {row['losses'][1]:.7g}"
    fresh = "n/a" if row["fresh"] is None else f"{row['fresh']:.3g}"
    applies = "applies" if row["applies"] else "APPLIES NOT"
    figures = f"promised {promised}, fresh {fresh} ({_within(row)})"
    kept = ", ".join(row["kept"])
    print(
        f"{row['name']:<28} {row['took_s']:4.0f} s  {applies}; {loss}; {figures}: {kept}",
        flush=True,
    )


def _within(row: dict[str, Any]) -> str:
    if row["fresh"] is None or row["promised"][1] is None:
        return "n/a"
    low, high = row["promised"][1:]
    return "within" if low <= row["fresh"] <= high else "beyond" if row["fresh"] > high else "below"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("scripts", type=Path, nargs="*")
    parser.add_argument("--slow", type=int, default=20)
    parser.add_argument("--healthy", type=int, default=40)
    args = parser.parse_args()
    scripts = {one.stem: f"{_SEEDED}{one.read_text()}" for one in args.scripts}
    scripts.update(list(slow_scripts().items())[: args.slow])
    scripts.update(healthy_scripts(args.healthy))
    args.out.mkdir(parents=True, exist_ok=True)
    table = args.out / "rows.jsonl"
    known = [json.loads(one) for one in table.read_text().splitlines()] if table.exists() else []
    done = {row["name"] for row in known}
    for row in known:
        print_row(row)
    for name, source in scripts.items():
        if name not in done:
            allowed = ["validation"] if name == "validation" else []
            row = asdict(measure(name, source, args.out, allowed))
            with table.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print_row(row)


if __name__ == "__main__":
    main()
