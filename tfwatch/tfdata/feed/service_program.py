"""The program of a process of the tf.data service: a dispatcher, or a worker.

    python -m tfwatch.tfdata.feed.service_program PARENT dispatcher HOST PORT
    python -m tfwatch.tfdata.feed.service_program PARENT worker HOST DISPATCHER

It prints its address once it listens, and ends when its parent process has ended, also by SIGKILL.
TensorFlow's servers listen on every interface. With HOST `localhost` the listening socket is bound to the loopback
device, so that no other machine reaches it; where the system cannot do that, the program ends with the reason.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_S = 0.2
#: A worker that was silent for so long is lost to the dispatcher, which then gives its task to no other one.
_SILENT_MS = 5_000
_HEARTBEAT_MS = 1_000


def main(words: Sequence[str]) -> None:
    """Serve until the parent ends."""
    parent, role, host, where = int(words[0]), words[1], words[2], words[3]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which ends its children
    _leave_gpus_alone()
    server, address = _dispatcher(host, int(where)) if role == "dispatcher" else _worker(host, where)
    if host == "localhost":
        _confine()
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    while server and os.getppid() == parent:
        time.sleep(_LOOK_S)
    # The destructor of a server waits for its clients, and for a dispatcher that no longer responds.
    os._exit(0)


def _confine() -> None:
    """Bind the listening sockets of this process to the loopback device."""
    import psutil

    option = getattr(socket, "SO_BINDTODEVICE", None)
    if option is None:
        sys.exit("this system cannot keep the tf.data service to this machine")
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            try:
                with socket.socket(fileno=os.dup(connection.fd)) as server:
                    server.setsockopt(socket.SOL_SOCKET, option, b"lo\0")
            except OSError as error:
                sys.exit(f"the tf.data service cannot be kept to this machine: {error.strerror}")


def _leave_gpus_alone() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def _dispatcher(host: str, port: int) -> tuple[Any, str]:
    from tensorflow.data.experimental import service

    config = service.DispatcherConfig(port=port, worker_timeout_ms=_SILENT_MS)
    server = service.DispatchServer(config)
    return server, f"{host}:{server.target.rpartition(':')[2]}"


def _worker(host: str, dispatcher: str) -> tuple[Any, str]:
    from tensorflow.data.experimental import service

    config = service.WorkerConfig(
        dispatcher_address=dispatcher,
        worker_address=f"{host}:%port%",
        heartbeat_interval_ms=_HEARTBEAT_MS,
        dispatcher_timeout_ms=60_000,
    )
    server = service.WorkerServer(config)
    return server, str(server._address).replace("%port%", "")


if __name__ == "__main__":
    main(sys.argv[1:])
