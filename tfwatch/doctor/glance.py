"""What can be told of this machine at once, without trying anything."""

from __future__ import annotations

import psutil

from tfwatch.doctor.facts import Facts, Machine
from tfwatch.doctor.installed import Installed
from tfwatch.doctor.summary import machine_line
from tfwatch.doctor.system import interpreter


def glance() -> str:
    """The machine in one line: its processor, its memory and the TensorFlow that is installed."""
    installed = Installed.here()
    machine = Machine(psutil.virtual_memory().total)
    return machine_line(Facts(interpreter=interpreter(installed.system), installed=installed, machine=machine))
