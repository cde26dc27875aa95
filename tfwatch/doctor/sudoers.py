"""The line of sudoers that permits powermetrics as tfwatch runs it. It is printed; nothing is written."""

from __future__ import annotations

import re

from tfwatch.sensors.gpu_powermetrics import COMMAND

#: Characters with a meaning of their own in a command's arguments (sudoers manual, "Other special characters").
_SPECIAL = re.compile(r"([,:=\\*?\[\]!])")
#: A name in capitals would be an alias, and others need quotes: their number serves as well.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,63}")
_AROUND = """\
# Lets {user} run one command as root without a password, so that tfwatch shows watts and clocks of this Mac's GPU.
# The line below pins the whole command. Never permit /usr/bin/powermetrics alone, as is often advised: with its
# option -o, whatever runs in your name could then write any file as root.
#
# Check and install it (tfwatch writes no file itself):
#   tfwatch doctor --sudoers > tfwatch.sudoers
#   visudo -cf tfwatch.sudoers
#   sudo install -o root -g wheel -m 0440 tfwatch.sudoers /etc/sudoers.d/tfwatch
# See that it is permitted:
#   sudo -n -l {command}
# Remove it:
#   sudo rm /etc/sudoers.d/tfwatch
{line}
"""


def sudoers(user: str, uid: int) -> str:
    """A whole file for /etc/sudoers.d: the line for a user, and how to check, install and remove it."""
    who = user if _NAME.fullmatch(user) else f"#{uid}"
    return _AROUND.format(user=who, command=" ".join(COMMAND), line=line(who))


def line(who: str) -> str:
    """The line itself, without its end."""
    return f"{who} ALL=(root) NOPASSWD: {' '.join(map(_escaped, COMMAND))}"


def _escaped(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)
