"""`tfwatch doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "check the installation and the machine: is TensorFlow slow because of them?"
    about = f"{options.sentence(text)} Exit code 1 where a check fails."
    own = commands.add_parser("doctor", help=text, description=about, allow_abbrev=False)
    own.set_defaults(run=_run)
    form = own.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    form.add_argument("--screen", action="store_true", help="show the result on a screen")
    text = "print the sudoers line that permits powermetrics (macOS); nothing is changed"
    form.add_argument("--sudoers", action="store_true", help=text)
    own.add_argument(
        "--data", metavar="DIR", type=options.typed(options.path), help="a data folder, whose read speed is measured"
    )
    options.add_runs_dir(own)
    options.add_theme(own)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.system.doctor import DoctorOptions, doctor, print_sudoers, show_doctor

    if args.sudoers:
        return print_sudoers()
    doctor_options = DoctorOptions(options.runs_dir(args), args.data, args.json, options.of_config(args, "theme"))
    return show_doctor(doctor_options) if args.screen else doctor(doctor_options)
