"""The Python that runs now: the callback, the user's line, and the function that it calls.

All frames of other threads are read here.
"""

from __future__ import annotations

import gc
import linecache
import operator
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate, chain, islice, repeat, takewhile
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.errors import raise_interrupt
from tfwatch.core.user_code import is_tfwatchs, is_users, split_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType

    #: The innermost frame of each thread.
    Frames: TypeAlias = Mapping[int, FrameType]

_CALLBACK_LIST = "callback_list.py"
#: The files through which a thread of tf.data or of a `PyDataset` calls the user's Python.
_CALLERS = (os.path.join("ops", "script_ops.py"), "py_dataset_adapter.py")
#: The innermost files of threads that wait for another one.
_WAITING = ("threading.py", "selectors.py", os.path.join("concurrent", "futures", "thread.py"))
#: The files of AutoGraph's copies of functions, whose lines are not the user's.
_GENERATED = "__autograph_generated_file"
_TENSORFLOW = re.compile(r"[/\\](tensorflow|keras)[/\\]")
#: The file of functions that the standard library makes, as those of a named tuple.
_MADE = "<string>"
_CALL = re.compile(r"([\w.]+)\(")
#: Functions that TensorFlow and Keras wrap around their own, and AutoGraph's around the user's.
_WRAPPERS = frozenset({"error_handler", "op_dispatch_handler", "wrapper", "wrapped", "inner"})
_WRAPPER_FILE = os.path.join("autograph", "impl", "api.py")
_DEEPEST = 8
#: Functions of Keras' that a sample in `fit` names in its place.
_IN_FIT = frozenset({"evaluate", "predict", "save", "save_weights"})


@dataclass(frozen=True, slots=True)
class RunningCode:
    """The code that a thread runs; each text is empty where there is none.

    callback: the class of the Keras callback. call: the function of a library that the user's line
    calls, e.g. `predict` or `gc.collect`. place: the innermost line of the user's code, e.g.
    `train.py:41 in load_chunk`. for_data: a thread of the input pipeline, or a call of TensorFlow,
    runs it. in_tensorflow: that line is in a function of TensorFlow or Keras.
    """

    callback: str = ""
    call: str = ""
    place: str = ""
    for_data: bool = False
    in_tensorflow: bool = field(default=False, compare=False)

    @property
    def function(self) -> str:
        """The place as `load_chunk (train.py:41)`; empty without one."""
        at, name = split_place(self.place)
        return f"{name} ({at})" if name else at


def code_of_training(thread: int, frames: Frames | None = None) -> RunningCode:
    """Return what the training thread runs. frames: of each thread; None reads them."""
    innermost = (thread_frames() if frames is None else frames).get(thread)
    if innermost is None:
        return RunningCode()
    stack = with_callers(innermost)
    files = (frame.f_code.co_filename for frame in stack)
    called = takewhile(lambda file: not is_users(file), files)
    in_tensorflow = any(map(_TENSORFLOW.search, called))
    lists = (f for f in reversed(stack) if f.f_code.co_filename.endswith(_CALLBACK_LIST))
    # The outermost list is that of the training: a callback may evaluate with callbacks.
    callbacks = (variable_of(frame, "callback") for frame in lists)
    name = next((type(one).__name__ for one in callbacks if one is not None), "")
    callback = "" if name == "Watch" else name
    return RunningCode(callback, *_users_line(stack), in_tensorflow=in_tensorflow)


def codes_of_data(frames: Frames | None = None) -> list[RunningCode]:
    """Return what each thread runs that TensorFlow or a `PyDataset` has called."""
    frames = thread_frames() if frames is None else frames
    stacks = map(_called_for_data, frames.values())
    found = (RunningCode("", *_users_line(stack), for_data=True) for stack in stacks)
    return [code for code in found if code.place]


def is_alone_in_python(thread: int, frames: Frames | None = None) -> bool:
    """Return whether all other threads wait, and none wants Python's lock."""
    frames = thread_frames() if frames is None else frames
    others = (frame.f_code.co_filename for id_, frame in frames.items() if id_ != thread)
    return all(file.endswith(_WAITING) or is_tfwatchs(file) for file in others)


def _called_for_data(frame: FrameType) -> list[FrameType]:
    """Return the frames below the call of tf.data or a `PyDataset`, the innermost first; none
    without that call."""
    stack = with_callers(frame)
    called = (n for n, one in enumerate(stack) if one.f_code.co_filename.endswith(_CALLERS))
    return stack[: next(called, 0)]


# -- the user's line ---------------------------------------------------------------------------


def _users_line(stack: list[FrameType]) -> tuple[str, str]:
    """Return the call and the place of the innermost frame of the user's."""
    for n, frame in enumerate(stack):
        code = frame.f_code
        if place := users_place(code.co_filename, frame.f_lineno, code.co_name):
            return _called_function(frame, stack[:n]), place
    return "", ""


def _called_function(frame: FrameType, inside: list[FrameType]) -> str:
    """Return the function that a line of the user's calls. inside: the frames of libraries below
    it, the innermost first."""
    called = (one.f_code for one in reversed(inside))
    names = (code.co_name for code in islice(called, _DEEPEST) if not _is_wrapper(code))
    name = next(names, "_")
    if name == "fit":
        name = next((code.co_name for code in called if code.co_name in _IN_FIT), name)
    return _written_call(frame) if name.startswith(("_", "<")) else name


def _is_wrapper(code: CodeType) -> bool:
    file = code.co_filename
    return code.co_name in _WRAPPERS or is_tfwatchs(file) or file.endswith(_WRAPPER_FILE)


@lru_cache(maxsize=4096)
def users_place(file: str, line: int, name: str) -> str:
    """Return a line as `train.py:41 in rows`; empty if it is not the user's."""
    base = os.path.basename(file)
    is_written = file not in ("", _MADE) and not base.startswith(_GENERATED) and is_users(file)
    return f"{base}:{line} in {name}" if is_written else ""


# -- a function in C ---------------------------------------------------------------------------


def _written_call(frame: FrameType) -> str:
    """Return the call that a frame waits for, as its line has it: a function in C has no frame.
    Empty where the line has several calls, or none.

    A function of a module keeps its module, as `gc.collect`; of an object, its name remains.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    calls: list[str] = _CALL.findall(line)
    if len(calls) != 1:
        return ""
    dotted = calls[0]
    root, _, rest = dotted.partition(".")
    if not rest or isinstance(frame.f_globals.get(root), ModuleType):
        return dotted
    return dotted.rpartition(".")[2]


# -- the frames of threads, without a deadlock or a crash in Python 3.11 ---------------------------

#: Python 3.11 creates frame objects while it holds the lock that each thread needs to begin or end.
#: A garbage collection that this starts may pass the interpreter to such a thread: both wait
#: forever, and the training with them (https://github.com/python/cpython/issues/106883). Seen in
#: 3.11.2 and 3.11.7; not in 3.10, 3.12 and 3.13. So it is with a caller and the variables of a
#: frame: the thread goes on meanwhile, and Python reads freed memory.
DEADLOCKS = sys.version_info[:2] == (3, 11)


def thread_frames() -> dict[int, FrameType]:
    """Return the current frame of each other thread, by thread identifier.

    Where `DEADLOCKS`, no garbage collection starts. The calling thread's own frame is left out: a
    reference to it is a cycle, which keeps everything that the others' frames hold alive until a
    collection.
    """
    frames: dict[int, FrameType] = _without_collection(sys._current_frames)
    frames.pop(threading.get_ident(), None)
    return frames


def with_callers(frame: FrameType) -> list[FrameType]:
    """Return a frame of another thread and its callers, the innermost first."""
    callers: Iterator[Any] = accumulate(chain[Any]((frame,), repeat("f_back")), getattr)
    frames: list[FrameType] = _without_collection(
        partial(list, takewhile(partial(operator.is_not, None), callers))
    )
    return frames


def variable_of(frame: FrameType, name: str) -> Any:
    """Return a variable of a frame of another thread; None without one."""
    return _without_collection(partial(getattr, frame, "f_locals")).get(name)


def _without_collection(read: Callable[[], Any]) -> Any:
    """Return what `read` returns, a function in C. Where `DEADLOCKS`, no garbage collection starts
    in it."""
    if not DEADLOCKS:
        return read()
    while True:
        if got := _call_atomically(False, gc.isenabled, read):
            return got.pop()
        try:
            got = _call_atomically(True, gc.isenabled, gc.disable, read, gc.enable)
        except Exception as error:  # a user's audit hook may raise anything
            raise_interrupt(error)
            gc.enable()
            raise
        if got:
            return got.pop(2)


#: `operator.call`, which Python 3.10 lacks.
_CALL_IT = operator.methodcaller("__call__")


def _call_atomically(expected: bool, *functions: Callable[[], Any]) -> list[Any]:
    """Return the result of each function, or nothing where the first result is not the expected
    one.

    Python can switch threads between two lines of Python, but not between these functions: they and
    their callers are C. So no other thread's `gc.disable()` comes in between, and none is undone.
    """
    return list(takewhile(partial(operator.is_not, not expected), map(_CALL_IT, functions)))
