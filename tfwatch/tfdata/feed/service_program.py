"""The program of a process of the tf.data service: a dispatcher, a worker, or a check that a dispatcher responds.

    python -m tfwatch.tfdata.feed.service_program PARENT dispatcher HOST PORT DIRECTORY
    python -m tfwatch.tfdata.feed.service_program PARENT worker HOST DISPATCHER [PORT]
    python -m tfwatch.tfdata.feed.service_program PARENT check HOST DISPATCHER

A server prints its address once it listens, and ends when its parent process has ended, also by SIGKILL. The check
prints the number of workers and their addresses. Where one cannot start, the last line on stderr is the reason. A PORT
after DISPATCHER is that of a worker which ended: trainings wait until one listens there again. A dispatcher keeps its
journal in DIRECTORY: another with the same port and directory goes on where it ended.
TensorFlow's servers listen on every interface. With HOST `localhost` the listening socket is bound to the loopback
device, so that no other machine reaches it; where the system cannot do that, the program ends with the reason.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_S = 0.2
_RESPONSE_S = 5
#: A worker that was silent for so long is lost to the dispatcher, which then gives its task to no other one.
_SILENT_MS = 5_000
_HEARTBEAT_MS = 1_000


def main(words: Sequence[str]) -> None:
    """Serve until the parent ends."""
    parent, role, host, where = int(words[0]), words[1], words[2], words[3]
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the training, which ends its children
    more = words[4] if words[4:] else ""
    if role != "dispatcher":
        workers = _find_workers(where)
    if role == "check":
        sys.stdout.write(" ".join([str(len(workers)), *workers]) + "\n")
        return
    server, address = _start(role, host, where, more)
    _serve(parent, address)
    if role == "dispatcher":
        shutil.rmtree(more, ignore_errors=True)
    # The destructor of a server waits for its clients, and for a dispatcher that no longer responds.
    os._exit(0 if server else 1)


def _start(role: str, host: str, where: str, more: str) -> tuple[Any, str]:
    _leave_gpus_alone()
    try:
        started = (
            _dispatcher(host, int(where), more)
            if role == "dispatcher"
            else _worker(host, where, int(more or 0))
        )
    except Exception as error:  # noqa: BLE001 -- whatever the reason, it becomes the user's sentence
        sys.exit(" ".join(str(error).split()) or type(error).__name__)
    if host == "localhost":
        _confine()
    return started


def _serve(parent: int, address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno()
    )  # hours of logs would fill the disk
    while os.getppid() == parent:
        time.sleep(_LOOK_S)


def _find_workers(address: str) -> list[str]:
    """Ask a dispatcher for the addresses of its workers, and end with the reason where none responds.

    TensorFlow itself would ask for an hour. The response holds a message for each worker, its address first.
    """
    import grpc
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            ask = channel.unary_unary("/tensorflow.data.DispatcherService/GetWorkers")
            response = Empty.FromString(ask(b"", timeout=_RESPONSE_S))
            workers = (Empty.FromString(worker.data) for worker in UnknownFieldSet(response))
            return [UnknownFieldSet(worker)[0].data.decode() for worker in workers]
        except grpc.RpcError as error:
            is_other = error.code() == grpc.StatusCode.UNIMPLEMENTED
            why = "it is another service" if is_other else error.details().rpartition(": ")[2]
            sys.exit(f"no dispatcher of the tf.data service responds at {address}: {why}")


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


def _dispatcher(host: str, port: int, directory: str) -> tuple[Any, str]:
    if port:
        _refuse_used(port)
    from tensorflow.data.experimental import service

    config = service.DispatcherConfig(
        port=port, worker_timeout_ms=_SILENT_MS, work_dir=directory, fault_tolerant_mode=True
    )
    server = service.DispatchServer(config)
    return server, f"{host}:{server.target.rpartition(':')[2]}"


def _refuse_used(port: int) -> None:
    """End where another process listens: gRPC would share the port with it."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("", port))
        except OSError as error:
            sys.exit(f"port {port}: {os.strerror(error.errno or 0)}")


def _worker(host: str, dispatcher: str, port: int) -> tuple[Any, str]:
    from tensorflow.data.experimental import service

    config = service.WorkerConfig(
        dispatcher_address=dispatcher,
        port=port,
        worker_address=f"{host}:%port%",
        heartbeat_interval_ms=_HEARTBEAT_MS,
        dispatcher_timeout_ms=60_000,
    )
    server = service.WorkerServer(config)
    return server, str(server._address).replace("%port%", "")


if __name__ == "__main__":
    main(sys.argv[1:])
