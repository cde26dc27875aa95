"""Raise an error in each function of tfwatch that a training calls, and compare the training with a
bare one.

    python -m tests.bench.faults [--only PART ...] [--at N ...] [--always] [--error NAME]
    [--interrupts N]
                                 [--threads] [--sample N] [--seed N] [--function PART]

PART: of a training's name, e.g. `fit` or `track`; of a function's. `--at N`: the calls that raise,
the first unless given; `--always`: every call does, of functions and methods that a module or a
class holds. NAME: RuntimeError, MemoryError or OSError (a full disk). `--interrupts N` raises
KeyboardInterrupt at N random lines of tfwatch's in the training thread instead: the training has to
end with it. `--threads`: functions that other threads call. `--sample N` takes N functions at
random. Compared are losses, weights and updates, and those of a bare `fit` of the same model
afterwards. Prints the functions tried and the differences, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import faulthandler
import functools
import importlib
import io
import json
import pkgutil
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tfwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CellType, FrameType

ROOT = str(Path(tfwatch.__file__).parent)
#: Seconds after which a training counts as hanging; a worker starts again after so many faults.
LIMIT_S, MOST = 180, 250
#: Nothing can be around these: what Keras calls straight, the boundaries themselves, and the way of
#: the batches.
ENTRIES = frozenset(
    {
        *(f"fails_open.__{name}__" for name in ("init", "enter", "exit")),
        *(f"_Boundary.__{name}__" for name in ("init", "enter", "exit")),
        *(f"Watch.on_{name}" for name in ("train_begin", "train_end", "epoch_begin", "epoch_end")),
        *(f"Watch.on_test_{name}" for name in ("begin", "batch_end", "end")),
        "Watch._boundary",
        "CollectionTimes.__call__",  # Python prints and drops what a collector's callback raises
        "failure_ends_recording.<locals>.guarded",
        "bookkeeping.<locals>.decorate.<locals>.guarded",
        *("TrainFunction.__call__", "Recorder._adopt", "on_host"),
        *(
            "StepByStepRunner.__call__",
            "StepByStepRunner._next",
            "StepByStepRunner._run",
            "BatchStep.__call__",
        ),
        *("UnfusedRunner.__call__", "UntimedRunner.__call__", "BatchStep._plain", "BatchSpec.pack"),
        *(
            "InGraphRunner.__call__",
            "InGraphRunner._execute",
            "FusedSteps.__call__",
            "SingleStep.__call__",
        ),
        *(
            "Fetch.next",
            "Fetch._begin",
            "RequestedSwitches.take_over",
            "CurrentPipeline.resume",
            "Fetch.source",
            "Fetch.successor",
        ),
        *(
            f"CurrentPipeline.{name}"
            for name in ("next", "take_over", "has_successor", "iterator", "batches_given")
        ),
        *("RequestedSwitches.hand_back", "CurrentPipeline.hand_back"),
        *(
            "SwitchablePipeline.has_successor",
            "SwitchablePipeline.iterator",
            "_flat_next.<locals>.take",
        ),
        *("track", "Track.__init__", "Track.__iter__", "Track._begin", "Track._end", "Track.close"),
        *("is_in_function", "_TrackedIterator.__init__", "_TrackedIterator.__next__"),
        *(
            "_recorded.<locals>.__iter__",
            "_recorded.<locals>.train_on_batch",
            "_timed.<locals>.__next__",
        ),
        *("_noticed.<locals>.apply", "_noticed.<locals>.gradient", "_located.<locals>.method"),
        *("_Fits.watched.<locals>.fit", "FunctionCalls._timed.<locals>.call"),
        "Calls._time.<locals>.timed",
    }
)


@dataclass(frozen=True)
class Fault:
    """A fault: the function, by file and qualified name, and the call that raises; 0 is every call.

    A function of `line N` is the N-th line of tfwatch's that the training thread runs.
    """

    file: str
    function: str
    at: int

    @property
    def name(self) -> str:
        """A short name."""
        return f"{self.file}:{self.function} #{self.at or 'all'}"


ERRORS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("injected"),
    "MemoryError": lambda: MemoryError("injected"),
    "OSError": lambda: OSError(errno.ENOSPC, "injected"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt(),
}


# -- injection -------------------------------------------------------------------------------------


def _own_file(frame: FrameType) -> str:
    file = frame.f_code.co_filename
    return file[len(ROOT) + 1 :] if file.startswith(ROOT) else ""


def _qualified(frame: FrameType) -> str:
    return str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))


class Tracer:
    """Traces the calls of all threads; `see` takes each frame of tfwatch's that begins, and may
    raise."""

    def __init__(self, see: Callable[[FrameType], Any]) -> None:
        self._see = see

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            called = [frame]
            del frame  # else it is an exception of the trace function, which ends fit
            return self._see(called.pop())
        return None

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Trace this thread, and those that begin."""
        threading.settrace(self)
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)


def called_in(train: Callable[[Any], Any], *, threads: bool) -> Counter[tuple[str, str]]:
    """Return the functions of tfwatch that the training thread calls, or other threads, with the
    number of calls."""
    seen: Counter[tuple[str, str]] = Counter()
    elsewhere: Counter[tuple[str, str]] = Counter()

    def see(frame: FrameType) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        (seen if is_main else elsewhere)[_own_file(frame), _qualified(frame)] += 1

    train(Tracer(see).on)
    return elsewhere if threads else seen


def raising(fault: Fault, make: Callable[[], BaseException]) -> Callable[[], Any]:
    """Return a context in which a function raises."""
    if fault.function == "line":
        return _interrupted(fault.at, make)
    if not fault.at:
        return functools.partial(_replaced, fault, make)
    calls = [0]

    def see(frame: FrameType) -> None:
        if _qualified(frame) == fault.function and _own_file(frame) == fault.file:
            calls[0] += 1
            if calls[0] == fault.at:
                raise make()

    return Tracer(see).on


def _interrupted(at: int, make: Callable[[], BaseException]) -> Callable[[], Any]:
    lines = [0]

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[0] += 1
            if lines[0] == at:
                WHERE.append(f"{_own_file(frame)}:{frame.f_lineno} {_qualified(frame)}")
                raise make()
        return line

    return Tracer(
        lambda _: line if threading.current_thread() is threading.main_thread() else None
    ).on


#: Where the interrupts came.
WHERE: list[str] = []


def lines_in(train: Callable[[Any], Any]) -> int:
    """Return the number of lines of tfwatch's that the training thread runs."""
    lines = [0]

    def line(frame: FrameType, event: str, _: Any) -> Any:
        lines[0] += event == "line"
        return line

    train(
        Tracer(lambda _: line if threading.current_thread() is threading.main_thread() else None).on
    )
    return lines[0]


@contextlib.contextmanager
def _replaced(fault: Fault, make: Callable[[], BaseException]) -> Iterator[None]:
    def fail(*_: Any, **__: Any) -> Any:
        raise make()

    undo: list[Callable[[], None]] = []
    for owner, name, value in list(_holders(fault)):
        if cell := _guarded(value):
            undo.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
            cell.cell_contents = fail
            continue
        kind = type(value)
        new: Any = kind(fail) if isinstance(value, (property, staticmethod, classmethod)) else fail
        if isinstance(value, functools.cached_property):
            new = property(fail)
        undo.append(functools.partial(setattr, owner, name, value))
        setattr(owner, name, new)
    try:
        yield
    finally:
        for back in undo:
            back()


def _guarded(value: Any) -> CellType | None:
    """Return where a decorator of tfwatch's holds the function that it guards; None for one
    without."""
    wrapped = getattr(value, "__wrapped__", None)
    cells = getattr(value, "__closure__", None) or ()
    return next(
        (cell for cell in cells if wrapped is not None and cell.cell_contents is wrapped), None
    )


def _holders(fault: Fault) -> Iterator[tuple[Any, str, Any]]:
    for module in [module for name, module in sys.modules.items() if name.startswith("tfwatch")]:
        for name, value in list(vars(module).items()):
            if _is_function(value, fault):
                yield module, name, value
            if isinstance(value, type) and value.__module__ == module.__name__:
                for part, inner in list(vars(value).items()):
                    if _is_function(inner, fault):
                        yield value, part, inner


def _is_function(value: Any, fault: Fault) -> bool:
    value = (
        getattr(value, "fget", None)
        or getattr(value, "func", None)
        or getattr(value, "__func__", value)
    )
    value = getattr(value, "__wrapped__", value)
    code = getattr(value, "__code__", None)
    if code is None or not str(code.co_filename).endswith(f"/{fault.file}"):
        return False
    return str(getattr(value, "__qualname__", "")) == fault.function


# -- one fault -------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """The result of a training: equal only if two trainings were equal bit for bit."""

    error: str
    result: Any


def run(train: Callable[[Any], Any], context: Callable[[], Any]) -> tuple[Outcome, str]:
    """Train, and return the outcome and what was printed."""
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            outcome = Outcome("", train(context))
        except BaseException as error:  # noqa: BLE001  the very thing that is compared
            outcome = Outcome(f"{type(error).__name__}: {error}", None)
    return outcome, printed.getvalue()


def difference(got: Outcome, printed: str, stock: Outcome, *, interrupt: bool) -> str:
    """Return how a training with a fault differs from stock; empty where it does not."""
    wanted = "KeyboardInterrupt: " if interrupt else stock.error
    if got.error != wanted:
        return f"raised {got.error or 'nothing'}"
    if not interrupt and got.result != stock.result:
        return f"trained otherwise: {got.result} for {stock.result}"
    return (
        "a traceback is printed: " + printed.strip().splitlines()[-1]
        if "Traceback" in printed
        else ""
    )


# -- workers ---------------------------------------------------------------------------------------


def work(name: str, faults: list[Fault], error: str) -> None:
    """Try faults, and print a line of JSON for each, before and after."""
    from tests.bench.faulted_trainings import TRAININGS

    faulthandler.register(signal.SIGUSR1, all_threads=True)
    out = sys.stdout
    training = TRAININGS[name]()
    stock, _ = run(training.stock, contextlib.nullcontext)
    again, _ = run(training.after, contextlib.nullcontext)
    interrupt = error == "KeyboardInterrupt"
    for number, fault in enumerate(faults):
        print(json.dumps({"begin": number}), file=out, flush=True)
        WHERE.clear()
        got, printed = run(training.watched, raising(fault, ERRORS[error]))
        differs = difference(got, printed, stock, interrupt=interrupt)
        rest, _ = run(training.after, contextlib.nullcontext)
        if not differs and rest != again:
            differs = f"the next training differs: {rest} for {again}"
        if differs and rest != again:
            training = TRAININGS[name]()
            run(training.stock, contextlib.nullcontext)
        said = printed.strip()[-600:] if differs else ""
        print(
            json.dumps({"done": number, "differs": differs, "said": said, "where": WHERE[:]}),
            file=out,
            flush=True,
        )


def find(name: str, *, lines: bool, threads: bool) -> Any:
    """Return the functions that a training calls, or the number of its lines."""
    from tests.bench.faulted_trainings import TRAININGS

    training = TRAININGS[name]()
    run(training.stock, contextlib.nullcontext)
    if not training.is_fresh:
        run(training.watched, contextlib.nullcontext)
    if lines:
        return lines_in(training.watched)
    return [[*key, count] for key, count in called_in(training.watched, threads=threads).items()]


def _child(name: str, work: dict[str, Any]) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.bench.faults", "--worker", name, json.dumps(work)]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=subprocess.PIPE, text=True)


def _answer(child: subprocess.Popen[str]) -> dict[str, Any] | None:
    """Return the next line of a child; None where it hangs or has ended."""

    def give_up() -> None:
        child.send_signal(signal.SIGUSR1)  # it writes the stacks of its threads
        threading.Event().wait(2)
        child.kill()

    timer = threading.Timer(LIMIT_S, give_up)
    timer.start()
    try:
        line = child.stdout.readline() if child.stdout else ""
    finally:
        timer.cancel()
    return json.loads(line) if line.strip() else None


def try_faults(name: str, faults: list[Fault], error: str) -> list[tuple[Fault, str, str]]:
    """Try faults in children; return those with a difference, and what was printed."""
    found = []
    at = 0
    while at < len(faults):
        part = faults[at : at + MOST]
        child = _child(name, {"faults": [asdict(fault) for fault in part], "error": error})
        done = -1
        while (answer := _answer(child)) is not None:
            done = answer.get("done", done)
            if answer.get("differs"):
                where = " ".join(answer["where"])
                found.append((part[done], answer["differs"], f"{where} {answer['said']}"))
                print(f"  {part[done].name} {where}: {answer['differs']}", flush=True)
        child.kill()
        rest = child.stderr.read()[-6000:] if child.stderr else ""
        child.wait()
        if done + 1 < len(part):
            fault = part[done + 1]
            found.append((fault, "hangs, or ends the process", rest))
            print(f"  {fault.name}: hangs, or ends the process\n{rest}", flush=True)
            done += 1
        at += done + 1
    return found


def faults_of(name: str, options: argparse.Namespace) -> list[Fault]:
    """Return the faults to try in a training."""
    child = _child(
        name, {"find": True, "lines": bool(options.interrupts), "threads": options.threads}
    )
    found = json.loads(child.communicate()[0] or "null")
    chance = random.Random(options.seed)
    if options.interrupts:
        return [Fault("", "line", chance.randint(1, found)) for _ in range(options.interrupts)]
    faults = [
        Fault(file, function, at)
        for file, function, calls in found
        if function not in ENTRIES and "<" not in function.rpartition(".")[2]
        for at in ([0] if options.always else options.at)
        if at <= calls
    ]
    return chance.sample(faults, min(len(faults), options.sample or len(faults)))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description="raise errors in tfwatch, and compare trainings with bare ones"
    )
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--function", default="")
    parser.add_argument("--at", nargs="*", type=int, default=[1])
    parser.add_argument("--always", action="store_true")
    parser.add_argument("--error", choices=[*ERRORS], default="RuntimeError")
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--worker", nargs=2)
    options = parser.parse_args()
    for module in pkgutil.walk_packages(tfwatch.__path__, "tfwatch."):
        if module.name.startswith(("tfwatch.watch.", "tfwatch.tfdata.")) and options.worker:
            importlib.import_module(module.name)
    if options.worker:
        name, text = options.worker
        given = json.loads(text)
        if given.get("find"):
            print(json.dumps(find(name, lines=given["lines"], threads=given["threads"])))
        else:
            work(name, [Fault(**fault) for fault in given["faults"]], given["error"])
        return 0
    from tests.bench.faulted_trainings import NAMES

    error = "KeyboardInterrupt" if options.interrupts else options.error
    differences = 0
    for name in [name for name in NAMES if any(part in name for part in options.only)]:
        faults = [fault for fault in faults_of(name, options) if options.function in fault.name]
        print(
            f"{name}: {len(faults)} faults of {len({fault.function for fault in faults})}"
            " functions",
            flush=True,
        )
        differences += len(try_faults(name, faults, error))
    print(f"{differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _scratch:
        sys.exit(main())
