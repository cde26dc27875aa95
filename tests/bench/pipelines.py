"""The edits of docs/pipelines.md: the step time with each edit, and without it.

    python -m tests.bench.pipelines [--rounds 3] [--steps 300] [--images 1500] [--only Record]

Writes the code of each section of the page, as it was and with the edit, into a script with a small
model, trains both in turn under `tfwatch run --headless`, and prints the answer of `compare`. Each
`.npy` file takes 2 ms more, as from a network disk.
"""

import argparse
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.runner import in_turns, make_parser, run_python, run_tfwatch

PAGE = Path(__file__).parents[2] / "docs/pipelines.md"
#: The names that the page's code uses.
NAMES = """
import os
import pathlib
import time

import keras
import numpy as np
import tensorflow as tf

files, arrays, records = (
    sorted(map(str, pathlib.Path().glob(kind)))
    for kind in ("photos/*/*.jpg", "arrays/*.npy", "*.tfrecord")
)
labels = np.array(["/b/" in file for file in files], "int64")
"""
#: Makes the files in the working folder.
FILES = """
import pathlib

import numpy as np
import tensorflow as tf

numbers = np.random.default_rng(0)
pathlib.Path("arrays").mkdir()
for n in range({images}):
    folder = pathlib.Path("photos", "ab"[n % 2])
    folder.mkdir(parents=True, exist_ok=True)
    image = numbers.integers(0, 256, (32, 32, 3)).astype("uint8")
    image = tf.cast(tf.image.resize(image, ({pixels}, {pixels})), tf.uint8)
    tf.io.write_file(f"{{folder}}/{{n:04d}}.jpg", tf.io.encode_jpeg(image))
    np.save(f"arrays/{{n:04d}}.npy", numbers.random((96, 96, 3), "float32"))
for file in range(4):
    with tf.io.TFRecordWriter(f"{{file}}.tfrecord") as writer:
        for n in range({images} // 4):
            floats = tf.train.FloatList(value=numbers.random(3072, "float32"))
            ints = tf.train.Int64List(value=[n % 2])
            fields = {{
                "image": tf.train.Feature(float_list=floats),
                "label": tf.train.Feature(int64_list=ints),
            }}
            example = tf.train.Example(features=tf.train.Features(feature=fields))
            writer.write(example.SerializeToString())
"""
_TRAIN = """
read = np.load
np.load = lambda name: (time.sleep(0.002), read(name))[1]
layers = [keras.layers.Conv2D(8, 3, strides=2), keras.layers.GlobalAveragePooling2D()]
model = keras.Sequential([{layers}keras.layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(data, epochs=100, verbose=0{arguments})
os._exit(0)  # else TensorFlow waits for a generator or a `PyDataset` within an epoch, for ever
"""


@dataclass(frozen=True)
class Pipeline:
    """A section of the page. Its code binds `data`, which `fit` takes."""

    title: str
    before: str
    after: str

    @property
    def training(self) -> str:
        """Return the code that trains on the data."""
        layers = "" if self.title.startswith("Record") else "*layers, "
        arguments = ", steps_per_epoch=len(arrays) // 32" if "generator" in self.title else ""
        return _TRAIN.format(layers=layers, arguments=arguments)


def pipelines() -> list[Pipeline]:
    """Return the sections of the page. The code of one that shows the edit alone continues that of
    the section before."""
    found: list[Pipeline] = []
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        if len(blocks) == 1:
            classes = found[-1].after
            blocks = [f"{classes}\ndata = Batches()\n", f"{classes}\n{blocks[0]}"]
        found.append(Pipeline(section.partition("\n")[0], *blocks))
    return found


def main() -> None:
    """Print an answer for each section."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--only", default="", help="a part of a section's title")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = FILES.format(images=options.images, pixels=320)
        run_python("-c", code, cwd=folder).check_returncode()
        for pipeline in pipelines():
            if options.only in pipeline.title:
                answer = _measure(folder, pipeline, options)
                print(f"== {pipeline.title}\n{answer}", flush=True)


def _measure(folder: Path, pipeline: Pipeline, options: argparse.Namespace) -> str:
    """Return how the step times before and after the edit compare."""
    sides: dict[str, list[str]] = {"before": [], "after": []}
    for _, side in in_turns(options.rounds, [*sides]):
        script = folder / "train.py"
        script.write_text(f"{NAMES}\n{getattr(pipeline, side)}\n{pipeline.training}")
        runs_dir = tempfile.mkdtemp(dir=folder)
        words = ["--steps", str(options.steps), "--runs-dir", runs_dir, script.name]
        run_tfwatch("run", "--headless", *words, cwd=folder)
        sides[side].append(str(next(Path(runs_dir).iterdir())))
    return run_tfwatch("compare", *map(",".join, sides.values())).stdout


if __name__ == "__main__":
    main()
