"""The arguments that the workloads share, and what they set before a model is made. Imports no
TensorFlow by itself."""

import argparse
import sys

OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "lion")


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
    parser = argparse.ArgumentParser(description=description.partition("\n")[0], allow_abbrev=False)
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
