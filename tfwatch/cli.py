"""The command line. Help and bad input cost no import of numpy, Textual or TensorFlow."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch import __version__
from tfwatch.sensors import GPU_SENSORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DESCRIPTION = "See live how much of every training step the device starves for data, and change that while it trains."
#: As in `tfwatch.screens.themes`, which loads Textual.
THEMES = ("dark", "light")
_HIGHEST_RATE = 1000
_EXIT_CODES = """\
exit codes: 0 finished, or stopped from the screen; 1 training failed; 2 bad input;
130 stopped by ctrl+c, 143 by SIGTERM (128 + the signal). The first signal stops after the batch in flight and
keeps the run whole, the second leaves at once. Losing the terminal (SIGHUP) never stops a training.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 2 and one sentence on stderr for bad input."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    if not words:
        return _launch(parser)
    parser.check_command(words[0])
    args = parser.parse_args(words)
    command: Callable[[argparse.Namespace], int] = args.run
    from tfwatch.workloads import BadInputError

    try:
        return command(args)
    except BadInputError as error:
        sys.stderr.write(f"tfwatch: {error}\n")
        return 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage."""

    commands: tuple[str, ...] = ()

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tfwatch: {message.removeprefix('argument ')}\n")

    def check_command(self, word: str) -> None:
        """End with a sentence that names the nearest command where `word` is none."""
        if word.startswith("-") or word in self.commands:
            return
        near = difflib.get_close_matches(word, self.commands, n=1)
        self.error(
            f"no command {word!r}: " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(self.commands)}")
        )


def _parser() -> _Parser:
    parser = _Parser("tfwatch", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"tfwatch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_train(commands)
    _add_workloads(commands)
    _add_bench(commands)
    _add_replay(commands)
    _add_doctor(commands)
    _add_selftest(commands)
    parser.commands = tuple(commands.choices)
    return parser


def _add_train(commands: Any) -> None:
    train = commands.add_parser(
        "train",
        help="train a workload and watch it live",
        description="Train a workload and watch it live.",
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.set_defaults(run=_train)
    text = "what to train: `tfwatch workloads` lists them; or a Python file of your own"
    train.add_argument("workload", metavar="WORKLOAD", help=text)
    _add_pipeline(train.add_argument_group("input pipeline (each can be switched while it trains)"))
    _add_training(train.add_argument_group("training"))
    _add_computing(train.add_argument_group("how a step is computed"))
    text = "whose GPU figures are shown: auto takes the first that works here; none reads no GPU"
    names = _typed(_gpu_sensor)
    train.add_argument(
        "--gpu-sensor", metavar="NAME", type=names, default="auto", help=f"{', '.join(GPU_SENSORS)}: {text}"
    )
    _add_showing(train.add_argument_group("where it is shown and kept"))


def _add_pipeline(group: Any) -> None:
    setting = _typed(_setting)
    for knob, what in (("prefetch", "batches made ahead"), ("workers", "images read and decoded at a time")):
        text = f"{what}: off, default (TensorFlow's own), auto, or a number; off unless given"
        group.add_argument(f"--{knob}", metavar="N", type=setting, default="off", help=text)
    text = "simulated delay of reading each batch's files, milliseconds"
    group.add_argument("--storage-latency", metavar="MS", type=_typed(_latency), default=0.0, help=text)
    group.add_argument("--fast-form", action="store_true", help="the fast form of the pipeline, not the slow one")
    text = "turn a knob once STEP steps are done, e.g. 100:prefetch=4 (prefetch, workers, storage-latency, fast-form)"
    group.add_argument(
        "--switch", metavar="STEP:KNOB=VALUE", type=_typed(_switch), action="append", default=[], help=text
    )


def _add_training(group: Any) -> None:
    group.add_argument("--batch-size", metavar="B", type=_whole(1, 65536), help="examples a step (32)")
    group.add_argument("--image-size", metavar="S", type=_whole(16, 1024), help="cnn: pixels a side (64)")
    length = group.add_mutually_exclusive_group()
    length.add_argument("--epochs", metavar="E", type=_whole(1, 65535), help="passes over the data (cnn: 20)")
    length.add_argument("--steps", metavar="N", type=_whole(1, 10**9), help="end after so many steps instead")
    group.add_argument("--seed", metavar="S", type=_whole(0, 2**32 - 1), help="the same seed trains the same weights")
    text = "this machine does not fall asleep by itself while it trains (caffeinate, systemd-inhibit)"
    group.add_argument("--keep-awake", action="store_true", help=text)
    group.add_argument("--data", metavar="DIR", type=_path, help="cnn, transfer: a folder of classes of JPEG files")
    group.add_argument("--size", metavar="N", type=_whole(1, 32768), help="matmul: rows and columns (2048)")
    group.add_argument("--weights", choices=("imagenet", "none"), help="transfer: what the base starts with (imagenet)")


def _add_computing(group: Any) -> None:
    text = "what computes: auto is TensorFlow's own choice; one that is not there is an error"
    group.add_argument("--device", choices=("auto", "cpu", "gpu"), help=text)
    mode = group.add_mutually_exclusive_group()
    text = "run the step op by op, not as a graph"
    mode.add_argument("--eager", dest="mode", action="store_const", const="eager", help=text)
    text = "compile the step with XLA (not on Apple's GPUs)"
    mode.add_argument("--jit", dest="mode", action="store_const", const="jit", help=text)
    text = "compute in float16 and keep the weights in float32: for GPUs, a CPU is slower so"
    group.add_argument("--mixed-precision", action="store_const", const=True, help=text)
    text = "run so many steps in one call (1); a call is not cut short by --steps"
    group.add_argument("--steps-per-execution", metavar="N", type=_whole(1, 10_000), help=text)
    group.add_argument(
        "--optimizer", metavar="NAME", type=_typed(_optimizer), help="adam, sgd, ... as Keras names them (adam)"
    )
    text = "step size of the optimizer; the workload's own for Adam, else Keras' own, unless given"
    group.add_argument("--learning-rate", metavar="X", type=_typed(_learning_rate), help=text)


def _add_showing(group: Any) -> None:
    _add_runs_dir(group)
    _add_theme(group)
    group.add_argument("--headless", action="store_true", help="no screen: progress on stderr, a summary on stdout")
    group.add_argument("--json", action="store_true", help="the summary as one JSON object; implies --headless")


def _add_workloads(commands: Any) -> None:
    text = "what can be trained, and what each shows"
    listing = commands.add_parser("workloads", help=text, description=text.capitalize() + ".", allow_abbrev=False)
    listing.set_defaults(run=_workloads)
    listing.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _add_bench(commands: Any) -> None:
    text = "is the GPU worth it? time workloads on CPU and GPU, eager, as a graph and with XLA"
    own = commands.add_parser("bench", help=text, description=text.capitalize() + ".", allow_abbrev=False)
    own.set_defaults(run=_bench)
    own.add_argument("workloads", metavar="WORKLOAD", nargs="*", help="what to time; all unless given")
    own.add_argument("--devices", metavar="LIST", type=_words, default="cpu,gpu", help="cpu,gpu")
    own.add_argument(
        "--modes", metavar="LIST", type=_words, default="graph", help="of graph,eager,jit; graph unless given"
    )
    own.add_argument("--batch-sizes", metavar="LIST", type=_wholes, default=[], help="e.g. 32,256; each one's own")
    own.add_argument("--size", metavar="N", type=_whole(1, 32768), help="matmul: rows and columns (2048)")
    own.add_argument("--rounds", metavar="N", type=_whole(1, 100), default=3, help="processes a configuration (3)")
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _add_replay(commands: Any) -> None:
    text = "open a run in the same screen; one that is still being written is followed, read only"
    replay = commands.add_parser("replay", help=text, description=text.capitalize() + ".", allow_abbrev=False)
    replay.set_defaults(run=_replay)
    replay.add_argument("which", metavar="RUN", nargs="?", help="a run folder, or part of a run's name; the newest")
    replay.add_argument("--json", action="store_true", help="no screen: the run as one JSON object, as train prints it")
    _add_runs_dir(replay)
    _add_theme(replay)


def _add_doctor(commands: Any) -> None:
    text = "check the installation and the machine: is TensorFlow slow because something is wrong with them?"
    about = f"C{text[1:]} Exit code 1 where a check fails."
    own = commands.add_parser("doctor", help=text, description=about, allow_abbrev=False)
    own.set_defaults(run=_doctor)
    form = own.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    form.add_argument("--screen", action="store_true", help="the same as a screen")
    text = "print the line of sudoers that permits powermetrics (macOS) and nothing else; nothing is written"
    form.add_argument("--sudoers", action="store_true", help=text)
    own.add_argument("--data", metavar="DIR", type=_path, help="a folder of data: how fast its disk is read")
    _add_runs_dir(own)
    _add_theme(own)


def _add_selftest(commands: Any) -> None:
    text = "check the numbers on this machine: train with known delays and compare; a minute or two"
    own = commands.add_parser("selftest", help=text, description=text.capitalize() + ".", allow_abbrev=False)
    own.set_defaults(run=_selftest)
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _add_runs_dir(group: Any) -> None:
    group.add_argument("--runs-dir", metavar="DIR", type=_path, help="where run folders are kept")


def _add_theme(group: Any) -> None:
    text = f"colours of the screen: {' or '.join(THEMES)}; remembered, as is the palette's choice (ctrl+p)"
    group.add_argument("--theme", choices=THEMES, help=text)


# -- the commands -------------------------------------------------------------------------------------


def _launch(parser: argparse.ArgumentParser) -> int:
    """The launcher; the help where no screen can be shown."""
    from tfwatch.terminal import why_no_screen

    if why_no_screen(os.environ):
        parser.print_help()
        return 0
    from tfwatch.commands.launch import launch
    from tfwatch.runs.library import default_runs_dir

    return launch(default_runs_dir())


def _train(args: argparse.Namespace) -> int:
    from tfwatch.commands.train import Order, train
    from tfwatch.core.knobs import Knobs
    from tfwatch.training.plan import Plan
    from tfwatch.workloads import Settings, settle

    settings = settle(args.workload, {field.name: getattr(args, field.name) for field in fields(Settings)})
    knobs = Knobs(args.prefetch, args.workers, args.storage_latency, args.fast_form)
    return train(
        Order(
            plan=Plan(args.workload, settings, knobs, tuple(args.switch)),
            runs_dir=_runs_dir(args),
            headless=args.headless or args.json,
            as_json=args.json,
            theme=args.theme,
            keep_awake=args.keep_awake,
            gpu_sensor=args.gpu_sensor,
        )
    )


def _workloads(args: argparse.Namespace) -> int:
    from tfwatch.commands.workloads import list_workloads

    return list_workloads(args.json)


def _bench(args: argparse.Namespace) -> int:
    from tfwatch.commands.bench import Wish, bench

    return bench(
        Wish(args.workloads, args.devices, args.modes, args.batch_sizes, args.size, args.rounds), as_json=args.json
    )


def _replay(args: argparse.Namespace) -> int:
    from tfwatch.commands.replay import Wish, replay

    return replay(Wish(args.which, _runs_dir(args), args.theme, args.json))


def _doctor(args: argparse.Namespace) -> int:
    from tfwatch.commands.doctor import Wish, doctor, print_sudoers, show_doctor

    if args.sudoers:
        return print_sudoers()
    wish = Wish(_runs_dir(args), args.data, args.json, args.theme)
    return show_doctor(wish) if args.screen else doctor(wish)


def _selftest(args: argparse.Namespace) -> int:
    from tfwatch.commands.selftest import selftest

    return selftest(args.json)


def _runs_dir(args: argparse.Namespace) -> Path:
    from tfwatch.runs.library import default_runs_dir

    return args.runs_dir or default_runs_dir()


# -- reading values -----------------------------------------------------------------------------------


def _typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader for argparse, which shows the sentence of an ArgumentTypeError and hides that of a ValueError."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


def _setting(text: str) -> Any:
    from tfwatch.core.knobs import parse_setting

    return parse_setting(text)


def _latency(text: str) -> float:
    from tfwatch.core.knobs import parse_latency

    return parse_latency(text)


def _switch(text: str) -> Any:
    from tfwatch.training.plan import parse_switch

    return parse_switch(text)


def _optimizer(text: str) -> str:
    from tfwatch.workloads import OPTIMIZERS

    if text.lower() not in OPTIMIZERS:
        raise ValueError(f"{text!r} is no optimizer: there are {', '.join(OPTIMIZERS)}")
    return text.lower()


def _learning_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= _HIGHEST_RATE:
        raise ValueError(f"{text!r} is no learning rate: give a number above 0, up to {_HIGHEST_RATE}")
    return rate


def _gpu_sensor(text: str) -> str:
    if text not in GPU_SENSORS:
        raise ValueError(f"{text!r} is no GPU sensor: there are {', '.join(GPU_SENSORS)}")
    return text


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _wholes(text: str) -> list[int]:
    return [_whole(1, 65536)(word) for word in _words(text)]


def _path(text: str) -> Path:
    # Path.expanduser raises where there is no such user.
    return Path(os.path.expanduser(text))
