"""`tfwatch run`, `train`, `ab` and `workloads`: a script of one's own, and the built-in workloads."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.config import GPU_SENSORS, KEYS, gpu_sensor
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.knobs import Knobs
    from tfwatch.workloads.workload import Settings

#: The options of `run` that have a value.
_WITH_VALUE = (
    "--runs-dir",
    "--python",
    "--theme",
    "--notify-command",
    "--notify-after",
    "--keep-runs",
    "--keep-age",
    "--keep-size",
    "--group",
    "--feed",
)


def add_run(commands: Any) -> None:
    """Add the command's parser."""
    text = "run a training script of yours, unmodified, on the live screen: every fit of Keras is watched"
    more = "What follows SCRIPT is the script's, as is the exit code."
    usage = "tfwatch run [OPTIONS] (SCRIPT | -m MODULE) [ARGS]"
    own = options.add_command(commands, "run", text, _run_script, more=more, usage=usage)
    own.count_own_words = _count_own_words
    own.add_argument(
        "--headless",
        action="store_true",
        help="the script's output, not the live screen, and a summary on stderr",
    )
    text = "the interpreter of the script, which needs keras, msgspec, numpy and psutil; default: the one that runs tfwatch"
    own.add_argument("--python", metavar="PATH", type=options.typed(options.path), help=text)
    options.add_runs_dir(own)
    options.add_theme(own)
    options.add_keep(own)
    options.add_notify(own)
    options.add_group(own)
    options.add_feed(own)
    options.add_verbosity(own, "no summary on stderr")


def _count_own_words(words: Sequence[str]) -> int:
    """Return the number of words before the script, or before `-m`."""
    at = 0
    while (
        at < len(words)
        and words[at].startswith("-")
        and not words[at].startswith("-m")
        and words[at] != "--"
    ):
        at += 2 if words[at] in _WITH_VALUE else 1
    return min(at, len(words))


def _script(words: Sequence[str]) -> list[str]:
    """Return the script or `-m` and a module, and the arguments.

    Raises:
        BadInputError: there is neither.
    """
    from tfwatch.core.errors import BadInputError

    first, rest = (words[0], list(words[1:])) if words else ("", [])
    if first.startswith("-m"):
        script = ["-m", *([first[2:]] if first[2:] else []), *rest]
        missing = len(script) == 1
    else:
        script = rest if first == "--" else list(words)
        missing = not script
    if missing:
        raise BadInputError(
            "run needs a script: tfwatch run SCRIPT [ARGS], or tfwatch run -m MODULE [ARGS]"
        )
    return script


def _run_script(args: argparse.Namespace) -> int:
    from tfwatch.commands.script.run import RunOptions, run

    options.join_group(args)
    options.use_feed(args)
    script, runs_dir = _script(args.words), options.runs_dir(args)
    notices, limits = options.notify(args), options.limits(args)
    theme, python, quiet = (options.of_config(args, name) for name in ("theme", "python", "quiet"))
    options.report_settings(args)
    return run(
        RunOptions(script, runs_dir, args.headless, python, theme, notices, limits, bool(quiet))
    )


_EXIT_CODES = """\
exit codes: 0 finished, or stopped from the screen; 1 training failed; 2 bad input;
130 stopped by ctrl+c, 143 by SIGTERM (128 + the signal). The first signal stops after the current batch and
keeps the run whole, the second leaves at once. Losing the terminal (SIGHUP) never stops a training.
"""


def add_train(commands: Any) -> None:
    """Add the command's parser."""
    text = "train a workload and watch it live"
    train = options.add_command(commands, "train", text, _run_train, epilog=_EXIT_CODES)
    train.hidden = options_of_others
    text = "a workload (`tfwatch workloads` lists them); `tfwatch run` takes a script of your own"
    train.add_argument("workload", metavar="WORKLOAD", action=options.WorkloadAction, help=text)
    pipeline = train.add_argument_group("input pipeline (each can be switched while it trains)")
    add_knobs(pipeline)
    _add_switches(pipeline)
    add_training(train.add_argument_group("training"))
    add_computing(train.add_argument_group("computation of a step"))
    _add_beginning(train.add_argument_group("restart (set by the key r)"))
    add_gpu_sensor(train)
    _add_showing(train.add_argument_group("output"))


def options_of_others(words: Sequence[str]) -> frozenset[str]:
    """Return the options that the workload among these words does not take; none where no word is a workload."""
    from tfwatch.workloads.registry import WORKLOADS, refuses
    from tfwatch.workloads.workload import Settings

    entry = next((WORKLOADS[word] for word in words if word in WORKLOADS), None)
    if entry is None:
        return frozenset()
    knobs = {
        "fast_pipeline": entry.has("fast_pipeline"),
        "cache": entry.has("cache"),
        "storage_latency": entry.reads_files,
    }
    settings = {
        field.name: not (refuses(entry, field.name) or field.name in entry.why_not)
        for field in fields(Settings)
    }
    return frozenset(name for name, is_taken in {**knobs, **settings}.items() if not is_taken)


def add_gpu_sensor(group: Any) -> None:
    """`--gpu-sensor`."""
    text = "source of the GPU figures: auto takes the first that works here; none reads no GPU"
    names = options.typed(gpu_sensor)
    group.add_argument(
        "--gpu-sensor", metavar="NAME", type=names, help=f"{', '.join(GPU_SENSORS)}: {text}"
    )


def add_knobs(group: Any) -> None:
    """Add the options of the knobs at the start."""
    setting = options.typed(options.setting)
    for knob, what in (
        ("prefetch", "batches prepared ahead"),
        ("workers", "examples prepared in parallel"),
    ):
        text = f"{what}: off, default (TensorFlow's own), auto, or a number (off)"
        group.add_argument(f"--{knob}", metavar="N", type=setting, help=text)
    text = "batches copied ahead to the memory of an NVIDIA GPU: off or a number (off)"
    read = options.typed(options.device_prefetch)
    group.add_argument("--device-prefetch", metavar="N", type=read, help=text)
    text = "simulated storage latency of each batch, in milliseconds"
    group.add_argument(
        "--storage-latency",
        metavar="MS",
        type=options.typed(options.latency),
        default=0.0,
        help=text,
    )
    text = "use the fast pipeline in place of the slow one"
    group.add_argument("--fast-pipeline", action=argparse.BooleanOptionalAction, help=text)
    text = "cache each example before random augmentation: off or on (off)"
    group.add_argument("--cache", metavar="X", type=options.typed(options.on), help=text)
    text = "buffer_size of the shuffle: off, auto (the workload's own), or a number; changes with the next epoch"
    group.add_argument("--shuffle", metavar="N", type=options.typed(options.shuffle), help=text)


def _add_switches(group: Any) -> None:
    text = (
        "switch a knob once STEP steps are completed, e.g. 100:prefetch=4 "
        "(prefetch, workers, storage-latency, fast-pipeline, cache, shuffle, device-prefetch)"
    )
    group.add_argument(
        "--switch",
        metavar="STEP:KNOB=VALUE",
        type=options.typed(options.switch),
        action="append",
        default=[],
        help=text,
    )
    text = "switch knobs until the device no longer starves, and keep what helps (key f); the batches stay the same"
    group.add_argument("--autopilot", action="store_true", help=text)
    text = "memory for its buffers, in gigabytes; default: a quarter of the free memory"
    group.add_argument(
        "--memory-limit", metavar="GB", type=options.typed(units.parse_gigabytes), help=text
    )


def add_training(group: Any, steps: str = "stop after N steps") -> None:
    """Add the options of length and data. steps: the help of `--steps`."""
    group.add_argument(
        "--batch-size",
        metavar="B",
        type=options.whole(1, options.LARGEST_BATCH),
        help="examples per step (32)",
    )
    group.add_argument(
        "--image-size", metavar="S", type=options.whole(16, 65_536), help="cnn: pixels a side (64)"
    )
    length = group.add_mutually_exclusive_group()
    length.add_argument(
        "--epochs", metavar="E", type=options.whole(1, 65535), help="passes over the data (cnn: 20)"
    )
    length.add_argument("--steps", metavar="N", type=options.whole(1, 10**9), help=steps)
    group.add_argument(
        "--seed",
        metavar="S",
        type=options.whole(0, 2**32 - 1),
        help="the same seed trains the same weights",
    )
    text = "keep the machine awake while it trains (caffeinate, systemd-inhibit)"
    group.add_argument("--keep-awake", action=argparse.BooleanOptionalAction, help=text)
    group.add_argument(
        "--data",
        metavar="DIR",
        type=options.typed(options.path),
        help="cnn, transfer: a folder with one folder of JPEG files per class",
    )
    group.add_argument(
        "--size",
        metavar="N",
        type=options.whole(1, options.LARGEST_SIZE),
        help="matmul: rows and columns (2048)",
    )
    group.add_argument(
        "--weights",
        choices=("imagenet", "none"),
        help="transfer: initial weights of the base (imagenet)",
    )


def _add_beginning(group: Any) -> None:
    text = "initial weights, a .weights.h5 file; also the optimizer's state where it is the same optimizer"
    group.add_argument(
        "--begin-with",
        dest="start_weights",
        metavar="FILE",
        type=options.typed(options.path),
        help=text,
    )
    text = "the run before this one, to compare with: a folder or a part of its name"
    group.add_argument("--after", metavar="RUN", help=text)


def add_computing(group: Any) -> None:
    """Add the options of device, mode, precision and optimizer."""
    text = "auto is TensorFlow's own choice; a missing device is an error"
    group.add_argument("--device", choices=("auto", "cpu", "gpu"), help=text)
    mode = group.add_mutually_exclusive_group()
    text = "run the step op by op, not as a graph"
    mode.add_argument("--eager", dest="mode", action="store_const", const="eager", help=text)
    text = "compile the step with XLA (not on Apple's GPUs)"
    mode.add_argument("--jit", dest="mode", action="store_const", const="jit", help=text)
    text = "compute in float16, keep weights in float32: for GPUs, slower on a CPU"
    group.add_argument("--mixed-precision", action="store_const", const=True, help=text)
    text = "steps in one call (1); --steps does not cut a call short"
    group.add_argument(
        "--steps-per-execution", metavar="N", type=options.whole(1, 10_000), help=text
    )
    group.add_argument(
        "--optimizer",
        metavar="NAME",
        type=options.typed(options.optimizer),
        help="adam, sgd, ... as Keras names them (adam)",
    )
    text = "learning rate; default: the workload's own for Adam, else Keras' own"
    group.add_argument(
        "--learning-rate", metavar="X", type=options.typed(units.parse_learning_rate), help=text
    )


def _add_showing(group: Any) -> None:
    options.add_runs_dir(group)
    options.add_keep(group)
    options.add_theme(group)
    options.add_notify(group)
    options.add_group(group)
    group.add_argument(
        "--headless", action="store_true", help="no screen: progress on stderr, summary on stdout"
    )
    group.add_argument(
        "--json",
        action="store_true",
        help="print the summary as one JSON object; implies --headless",
    )
    options.add_verbosity(group, "no progress and no hints on stderr, without a screen")


def knobs_of(args: argparse.Namespace) -> Knobs:
    """Return the knobs that `add_knobs` read, over those of the config file.

    Raises:
        BadInputError: there is no such workload.
    """
    from tfwatch.workloads.registry import default_knobs

    given = {key.knob: getattr(args, key.knob) for key in KEYS.values() if key.knob}
    knobs = {knob: value for knob, value in given.items() if value is not None}
    return replace(default_knobs(args.workload), latency_ms=args.storage_latency, **knobs)


def _prefetches_where_possible(args: argparse.Namespace) -> bool:
    """Return True where the config file, and no option, asks for a prefetch to the device."""
    return args.device_prefetch is None and options.of_config(args, "device-prefetch") not in (
        None,
        "off",
    )


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings that `add_training` and `add_computing` read.

    Raises:
        BadInputError: the workload does not know something that was asked.
    """
    from tfwatch.workloads.registry import settle
    from tfwatch.workloads.workload import Settings

    return settle(
        args.workload, {field.name: getattr(args, field.name) for field in fields(Settings)}
    )


def _run_train(args: argparse.Namespace) -> int:
    from tfwatch.commands.training.train import train
    from tfwatch.training.request import Plan, TrainRequest

    options.join_group(args)
    options.report_settings(args)
    knobs, is_wish = knobs_of(args), _prefetches_where_possible(args)
    plan = Plan(
        args.workload,
        settings_of(args),
        knobs,
        tuple(args.switch),
        args.start_weights,
        prefetches_where_possible=is_wish,
    )
    return train(
        TrainRequest(
            plan=plan,
            runs_dir=options.runs_dir(args),
            headless=args.headless or args.json,
            as_json=args.json,
            theme=options.of_config(args, "theme"),
            keep_awake=bool(options.of_config(args, "keep-awake")),
            gpu_sensor=options.of_config(args, "gpu-sensor") or "auto",
            autopilot=args.autopilot,
            memory_bytes=options.of_config(args, "memory-limit"),
            after=args.after,
            notify=options.notify(args),
            limits=options.limits(args),
            quiet=bool(options.of_config(args, "quiet")),
        )
    )


_EPILOG = """\
The run alternates between the settings in short blocks of random order and ends when it is clear which one is faster,
or that none is. With --epochs it then trains on with the faster one. The training result is the same either way.
exit codes: 0 it ran, whatever the answer; 1 training failed; 2 bad input; 130 stopped by ctrl+c, with the result
so far.
"""


def add_ab(commands: Any) -> None:
    """Add the command's parser."""
    text = (
        "A/B test: alternate between settings of a knob while a workload trains; which is faster?"
    )
    own = options.add_command(commands, "ab", text, _run_ab, epilog=_EPILOG)
    own.hidden = options_of_others
    own.add_argument(
        "workload",
        metavar="WORKLOAD",
        action=options.WorkloadAction,
        help="what to train, as for train",
    )
    text = (
        "two or more settings of one knob (prefetch=off,4): the others are compared with the first"
    )
    own.add_argument(
        "--knob", metavar="KNOB=A,B", type=options.typed(options.settings), required=True, help=text
    )
    add_knobs(own.add_argument_group("input pipeline, at the start"))
    text = "steps after which it gives up; without it, after 600 steps and 30 s"
    add_training(own.add_argument_group("training"), steps=text)
    add_computing(own.add_argument_group("computation of a step"))
    add_gpu_sensor(own)
    showing = own.add_argument_group("output")
    options.add_runs_dir(showing)
    options.add_notify(showing)
    showing.add_argument(
        "--json", action="store_true", help="the summary as one JSON object, as train prints it"
    )


def _run_ab(args: argparse.Namespace) -> int:
    from tfwatch.commands.training.train import ExperimentOptions, ab

    knob, settings = args.knob
    goes_on, is_wish = args.epochs is not None, _prefetches_where_possible(args)
    request = ExperimentOptions(
        args.workload, settings_of(args), knobs_of(args), knob, settings, goes_on, is_wish
    )
    return ab(
        request,
        options.runs_dir(args),
        as_json=args.json,
        keep_awake=bool(options.of_config(args, "keep-awake")),
        gpu_sensor=options.of_config(args, "gpu-sensor") or "auto",
        notify=options.notify(args),
    )


def add_workloads(commands: Any) -> None:
    """Add the command's parser."""
    text = "list the workloads"
    listing = options.add_command(commands, "workloads", text, _run_workloads)
    listing.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run_workloads(args: argparse.Namespace) -> int:
    from tfwatch.commands.training.train import list_workloads

    return list_workloads(args.json)
