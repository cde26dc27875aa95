"""The arguments that the workloads share, what they set before a model is made, and their data:
synthetic arrays, and a set of JPEG files that is made once, in the cache folder. Imports no
TensorFlow by itself."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import platformdirs

OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "lion")
CLASSES, IMAGES_PER_CLASS, SIDE = 10, 800, 96
#: What the start of the sleep and the wake-up take, in microseconds.
SLEEP_COST_US = 450


def positive(text):
    """Read a whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def arguments(description, *, epochs, batch_size=32, learning_rate=1e-3, steps_in_call=True):
    """Return the parser of a workload's arguments, with its own defaults.

    steps_in_call: the workload trains with `fit`, which can run several steps in one call.
    """
    # Without a usage an error is one sentence; --help lists the arguments.
    parser = argparse.ArgumentParser(
        description=description.partition("\n")[0], usage=argparse.SUPPRESS, allow_abbrev=False
    )
    add = parser.add_argument
    add(
        "--batch-size",
        type=positive,
        default=batch_size,
        metavar="B",
        help="examples a step (%(default)s)",
    )
    add(
        "--epochs",
        type=positive,
        default=epochs,
        metavar="E",
        help="passes over the data (%(default)s)",
    )
    add(
        "--optimizer",
        choices=OPTIMIZERS,
        default="adam",
        metavar="NAME",
        help=", ".join(OPTIMIZERS),
    )
    add("--learning-rate", type=float, default=learning_rate, metavar="X", help="(%(default)s)")
    add(
        "--device",
        choices=("auto", "cpu", "gpu"),
        default="auto",
        help="a missing device is an error",
    )
    add(
        "--mixed-precision", action="store_true", help="compute in float16, keep weights in float32"
    )
    add("--seed", type=int, metavar="S", help="the same seed trains the same weights")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--eager", action="store_true", help="run the step op by op, not as a graph")
    mode.add_argument("--jit", action="store_true", help="compile the step with XLA")
    if steps_in_call:
        text = "steps in one call (%(default)s)"
        add("--steps-per-execution", type=positive, default=1, metavar="N", help=text)
    return parser


def begin(args):
    """Choose the device and the precision, and set the seed."""
    import keras
    import tensorflow as tf

    if args.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    elif args.device == "gpu" and not tf.config.list_physical_devices("GPU"):
        sys.stderr.write("TensorFlow sees no GPU here: use --device cpu\n")
        sys.exit(2)
    keras.config.set_dtype_policy("mixed_float16" if args.mixed_precision else "float32")
    if args.seed is not None:
        keras.utils.set_random_seed(args.seed)


def optimizer(args):
    """Return the optimizer."""
    import keras

    config = {"learning_rate": args.learning_rate}
    return keras.optimizers.get({"class_name": args.optimizer, "config": config})


def compiled(model, args, loss, metric):
    """Return the model, compiled with these arguments."""
    model.compile(
        optimizer(args),
        loss,
        metrics=[metric],
        run_eagerly=args.eager,
        jit_compile=args.jit,
        steps_per_execution=args.steps_per_execution,
    )
    return model


def nothing_ahead():
    """Return the options of a pipeline that prepares no batch ahead: TensorFlow does so by itself
    in three ways."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.map_parallelization = False
    options.experimental_optimization.map_and_batch_fusion = False
    return options


# -- data -----------------------------------------------------------------------------------------


def patterns(count, shape, seed=0):
    """Return images of shape [count, *shape], 0 to 255, and their classes: each class is a pattern
    with noise."""
    import numpy as np

    rng = np.random.default_rng(seed)
    pattern = np.random.default_rng(0).integers(0, 256, (CLASSES, *shape), dtype=np.int16)
    labels = rng.integers(0, CLASSES, count).astype(np.int32)
    images = np.empty((count, *shape), np.uint8)
    for first in range(0, count, 1000):
        chunk = slice(first, min(first + 1000, count))
        noise = rng.integers(-100, 101, images[chunk].shape, dtype=np.int16)
        images[chunk] = np.clip(pattern[labels[chunk]] + noise, 0, 255)
    return images, labels


def image_files(folder=None):
    """Return the paths and classes of a folder's JPEG files, shuffled; a class is a sub-folder.
    None: a made set."""
    import numpy as np

    files = sorted(Path(folder or made_images()).glob("*/*.jp*g"))
    if not files:
        sys.stderr.write(f"{folder} has no sub-folders with JPEG files: each one is a class\n")
        sys.exit(2)
    classes = sorted({file.parent.name for file in files})
    labels = np.array([classes.index(file.parent.name) for file in files], np.int32)
    order = np.random.default_rng(0).permutation(len(files))
    return np.array([os.fsencode(file) for file in files])[order], labels[order], len(classes)


def made_images():
    """Return the folder of the image set, which is made under a temporary name on first use."""
    home = Path(platformdirs.user_cache_dir("tfwatch", appauthor=False)) / "jpeg-files"
    if not home.is_dir():
        print(f"making {CLASSES * IMAGES_PER_CLASS} JPEG files in {home} (once)", flush=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix="jpeg-files.part-", dir=home.parent))
        try:
            for label in range(CLASSES):
                write_class(part / f"angle-{18 * label}", label)
            part.rename(home)
        except OSError:
            if not home.is_dir():  # else another process was first
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return home


def write_class(folder, label):
    """Write the images of a class: stripes of one direction, in random colours and widths, with
    grain."""
    import numpy as np
    import tensorflow as tf

    folder.mkdir()
    rng = np.random.default_rng(label)
    angle, line = np.pi * label / CLASSES, np.linspace(-1, 1, SIDE)
    across = np.cos(angle) * line[None, :] + np.sin(angle) * line[:, None]
    for number in range(IMAGES_PER_CLASS):
        wave = np.sin(across * rng.uniform(6, 20) + rng.uniform(0, 6))[..., None]
        image = rng.uniform(0.3, 0.7, 3) + wave * rng.uniform(-0.3, 0.3, 3)
        pixels = np.clip(image + rng.normal(0, 0.1, (SIDE, SIDE, 1)), 0, 1) * 255
        data = tf.io.encode_jpeg(pixels.astype(np.uint8), quality=62)
        (folder / f"{number:03d}.jpg").write_bytes(data.numpy())


def delayed(batch, sleep_ms):
    """Return a tensor after a sleep inside TensorFlow, as on slow storage; a sleep of Python would
    hold the GIL."""
    import tensorflow as tf

    once = tf.data.Dataset.from_tensors(batch)
    slow = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(once),
        sleep_microseconds=max(int(sleep_ms * 1000) - SLEEP_COST_US, 0),
        output_types=[batch.dtype],
        output_shapes=[batch.shape],
    )
    return tf.data.experimental.from_variant(slow, once.element_spec).take(1).get_single_element()
