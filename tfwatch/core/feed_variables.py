"""The variables by which a command passes the tf.data service to the process that trains."""

from __future__ import annotations

from typing import Final

#: The number of workers to start on this machine.
WORKERS: Final = "TFWATCH_FEED_WORKERS"
#: The HOST:PORT of a dispatcher that runs.
ADDRESS: Final = "TFWATCH_FEED"
