"""The program of the child of `tfwatch run`: runs a script as Python itself would, with hooks for
Keras and TensorFlow.

    python bootstrap.py LAUNCH ANNOUNCEMENTS DESCRIPTORS SCRIPT [ARGS], or ... -m MODULE [ARGS]

LAUNCH: what is asked of the runs, see `tfwatch.runs.script_process.Launch`.
ANNOUNCEMENTS: the file that the folder of each run is appended to, for the live screen; empty
without one.
DESCRIPTORS: `master,pipe` of the relay that reads the script's output; empty without one.
It loads neither TensorFlow nor Keras. A failure of tfwatch is one sentence on stderr, and the
script runs unwatched.
"""

from __future__ import annotations

import _thread
import builtins
import os
import pkgutil
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The folder of the package: frames of its files are left out of the script's traceback.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(words: Sequence[str]) -> None:
    """Run a script or a module; what it raises passes through, as does its SystemExit."""
    launch, announcements, descriptors, *script = words
    if not _is_safe_path():
        del sys.path[0]  # the folder of this file, which Python puts first
    _install_hook(launch, announcements, descriptors)
    own = len(sys.orig_argv) - len(words) - 1
    sys.orig_argv[own:] = script
    sys.modules["__main__"] = _new_main()
    try:
        if script[0] == "-m":
            if not _is_safe_path():
                sys.path.insert(0, os.getcwd())
            _run_as_main(script[1], ["-m", *script[2:]], True)
        else:
            _run_script(script)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook = _without_own_frames(sys.excepthook)
        raise


def _is_safe_path() -> bool:
    """Return whether Python leaves out the folder of the script: `-P`, or `-I`."""
    return bool(getattr(sys.flags, "safe_path", sys.flags.isolated))


def _install_hook(launch: str, announcements: str, descriptors: str) -> None:
    """Install the hook. What tfwatch imports is that of the script's environment, and what is not
    there that of tfwatch's own, whose folder leaves `sys.path` again."""
    found = sys.path
    sys.path = [*found, os.path.dirname(_PACKAGE)]
    try:
        _load_package()
        from tfwatch.runs.script_process import Launch, announce_in
        from tfwatch.watch.script.import_hook import ImportHook
        from tfwatch.watch.script.unseen import hide_own_threads

        at_first_run = reader_after_relay(descriptors) if descriptors else None
        asked = Launch.from_text(launch)
        ImportHook(asked.runs_dir).install()
        hide_own_threads()
        announce_in(announcements, at_first_run, asked)
    except ImportError as error:
        todo = f"{sys.executable} needs keras, msgspec, numpy and psutil"
        sys.stderr.write(f"tfwatch: this script runs unwatched: {error}: {todo}\n")
    except Exception as error:  # noqa: BLE001  the script runs, whatever is wrong with tfwatch
        sys.stderr.write(f"tfwatch: this script runs unwatched: {type(error).__name__}: {error}\n")
    finally:
        sys.path = found


def _load_package() -> None:
    """Load this tfwatch, also where the script's environment has another one."""
    place = os.path.join(_PACKAGE, "__init__.py")
    spec = spec_from_file_location("tfwatch", place, submodule_search_locations=[_PACKAGE])
    if spec and spec.loader:
        sys.modules["tfwatch"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["tfwatch"])


def _new_main() -> ModuleType:
    """Return a `__main__` as Python makes it."""
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins)
    if sys.version_info < (3, 14):
        main.__dict__.update(__annotations__={})
    return main


def _run_as_main(module: str, argv: list[str], alter_argv: bool) -> None:
    """Run a module as `-m` does: Python itself calls this function of runpy."""
    import runpy

    sys.argv = argv
    run: Callable[..., object] = getattr(runpy, "_run_module_as_main")  # noqa: B009  not among the typed names
    run(module, alter_argv)


def _run_script(words: Sequence[str]) -> None:
    """Run a file; or a folder or an archive with a `__main__.py`."""
    path = os.path.join(os.getcwd(), words[0])
    if pkgutil.get_importer(path) is not None:
        sys.path.insert(0, path)
        _run_as_main("__main__", list(words), False)
        return
    if not _is_safe_path():
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    sys.argv = list(words)
    _execute(path)


def _execute(path: str) -> None:
    main = sys.modules["__main__"].__dict__
    compiled = path.endswith(".pyc")
    loader = (SourcelessFileLoader if compiled else SourceFileLoader)("__main__", path)
    main.update(__file__=path, __loader__=loader)
    if sys.version_info < (3, 15):
        main.update(__cached__=None)
    # Python writes no cache of a script, which `get_code` of a source file would.
    source = None if compiled else loader.get_data(path)
    code = (
        loader.get_code("__main__")
        if source is None
        else compile(source, path, "exec", dont_inherit=True)
    )
    if code is not None:
        exec(code, main)


def _without_own_frames(hook: Callable[..., object]) -> Callable[..., object]:
    """Return an excepthook that cuts tfwatch's frames, and then calls the script's."""

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _cut_all(error)
        sys.last_traceback = error.__traceback__
        hook(kind, error, error.__traceback__)

    return excepthook


def _cut_all(error: BaseException) -> None:
    """Cut the frames of an error, and of those that it names as its causes and parts."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _cut(one.__traceback__)
            waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _cut(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE + os.sep):
            kept.append(trace)
        trace = trace.tb_next
    rest: TracebackType | None = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


# -- the output of a script whose relay was killed -------------------------------------------------

#: The bytes that are dropped at once.
_CHUNK = 64 * 2**10


def reader_after_relay(descriptors: str) -> Callable[[], None]:
    """Return a function that starts a thread which drops the output once the relay was killed: the
    script's next print would raise, or wait for ever.

    No program that this process starts inherits the descriptors.

    descriptors: `master,pipe`, the other end of its pseudo terminal, and a pipe that ends with the
    relay.
    """
    master, relay = (int(number) for number in descriptors.split(","))
    for fd in (master, relay):
        os.set_inheritable(fd, False)
    files = _OpenFile(master), _OpenFile(relay)

    def start() -> None:
        _thread.start_new_thread(_read_after_relay, files)

    return start


class _OpenFile:
    """A descriptor and the file it was opened for: a program may close it, and reuse its number."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._identity = _identity(fd)

    def is_ours(self) -> bool:
        with suppress(OSError):
            return _identity(self.fd) == self._identity
        return False


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _read_after_relay(master: _OpenFile, relay: _OpenFile) -> None:
    with suppress(OSError):
        if relay.is_ours():
            os.read(relay.fd, 1)  # returns nothing, once the relay has ended
            while master.is_ours() and os.read(master.fd, _CHUNK):
                pass


if __name__ == "__main__":
    main(sys.argv[1:])
