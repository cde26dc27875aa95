"""The workers of a `PyDataset` in a `fit`, threads or processes, which change between two epochs.

Keras' own enqueuer makes the batches with the new settings, as with those in the script: in order,
each once.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import weakref
from contextlib import suppress
from dataclasses import replace
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import keras

from tfwatch.core.knobs import (
    AS_WRITTEN,
    AUTO,
    LARGEST,
    LEAST_AUTO_WORKERS,
    MULTIPROCESSING,
    OFF,
    ON,
    WORKERS,
    Knobs,
    number_of,
)
from tfwatch.core.user_code import is_users
from tfwatch.tfdata.code_edits import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from tfwatch.runs.requests import SwitchRequest

#: The batches that each worker may keep ready, at least: with fewer some workers wait.
_QUEUED = 2
_PARTIAL_EPOCHS = "steps_per_epoch: an epoch does not begin the PyDataset again"
_ENDLESS = "its PyDataset has no length, so that no epoch begins it again"
_OWN_BEGIN = "its on_epoch_begin changes the PyDataset, and workers begin before it is called"
_NOT_FORKED = (
    "processes begin by {}, and need a PyDataset that can be pickled: set use_multiprocessing in"
    " the script"
)
_RANDOM = "the PyDataset's __getitem__ draws random numbers ({})"
#: Names in Python code that draw random numbers; all with `random` do too.
_DRAWS = {
    *("choice", "choices", "integers", "normal", "permutation", "permuted", "rand", "randint"),
    *("randn", "rng", "sample", "shuffle", "standard_normal", "uniform"),
}
#: Their functions are not looked into: a call that draws says so by its name.
_LIBRARIES = {"keras", "numpy", "tensorflow"}
#: So many functions are looked into at most.
_MOST_FUNCTIONS = 300


class PyDatasetSettings:
    """The settings of the `PyDataset` that the epochs of a `fit` read.

    written: the knobs with the settings that the script gave. place: as `Manifest.batch_place`.
    draws: what `__getitem__` draws, and would draw otherwise in parallel; empty where it draws
    nothing, where the script has workers that draw in any order, and once the user accepts it.
    """

    def __init__(self, epochs: Any) -> None:
        self._epochs = weakref.ref(epochs)
        dataset = epochs.data_adapter.py_dataset
        self._workers, has_processes = int(dataset.workers), bool(dataset.use_multiprocessing)
        self.written = replace(
            AS_WRITTEN,
            workers=str(min(self._workers, LARGEST)) if self._workers > 1 else OFF,
            multiprocessing=ON if has_processes and self._workers > 0 else OFF,
        )
        self._why_not = _find_obstacle(epochs, dataset)
        self.place = _find_place(dataset)
        self.class_name = type(dataset).__name__ if self.place else ""
        is_serial = {self.written.workers, self.written.multiprocessing} == {OFF}
        name = _name_of_draw(dataset) if is_serial else ""
        self.draws = _RANDOM.format(name) if name else ""

    def reasons(self) -> dict[str, str]:
        """Return why each knob cannot be switched; empty where it can."""
        no_processes = self._why_not or self._why_no_processes()
        return {WORKERS: self._why_not or self.draws, MULTIPROCESSING: no_processes or self.draws}

    @property
    def asks(self) -> bool:
        """True if workers are switched once the user accepts other random draws."""
        return bool(self.draws and not self._why_not)

    def allow_random_draws(self) -> None:
        """Let workers draw other random numbers."""
        self.draws = ""

    def refusal(self, request: SwitchRequest) -> str:
        """Return the reason to refuse a request; empty if there is none."""
        return self._why_not if request.value == OFF else self.reasons()[request.knob]

    def _why_no_processes(self) -> str:
        method = (
            multiprocessing.get_start_method(allow_none=True)
            or multiprocessing.get_all_start_methods()[0]
        )
        is_forked = self.written.multiprocessing == ON or method == "fork"
        return "" if is_forked else _NOT_FORKED.format(method)

    def apply(self, knobs: Knobs) -> None:
        """Have the next epoch read with these settings, as Keras does where the script gives them.

        Call it between two epochs.

        Raises:
            Exception: Keras' or the `PyDataset`'s own; the settings stay as they were.
        """
        epochs = self._epochs()
        if epochs is None:
            return
        adapter = epochs.data_adapter
        before = adapter.enqueuer
        try:
            adapter.enqueuer = self._make_enqueuer(adapter, knobs)
            epochs._distributed_dataset = adapter.get_tf_dataset()
        except BaseException:
            adapter.enqueuer = before
            raise

    def _make_enqueuer(self, adapter: Any, knobs: Knobs) -> Any:
        workers, has_processes = self._count_workers(knobs.workers), knobs.multiprocessing == ON
        if workers <= 1 and not has_processes:
            return None
        make = sys.modules[type(adapter).__module__].OrderedEnqueuer
        return make(
            adapter.py_dataset,
            workers=workers,
            use_multiprocessing=has_processes,
            max_queue_size=max(int(adapter.py_dataset.max_queue_size), _QUEUED * workers),
            shuffle=adapter.shuffle,
        )

    def _count_workers(self, value: str) -> int:
        if value == AUTO:
            return max(os.cpu_count() or 1, LEAST_AUTO_WORKERS)
        return 1 if value == OFF else number_of(value) or max(self._workers, 1)


def _find_obstacle(epochs: Any, dataset: Any) -> str:
    """Return the reason why no epoch can read the `PyDataset` in another way; empty if it can."""
    if dataset.num_batches is None:
        return _ENDLESS
    if epochs.steps_per_epoch:
        return _PARTIAL_EPOCHS
    own = getattr(type(dataset), "on_epoch_begin", None)
    return "" if own is getattr(keras.utils.PyDataset, "on_epoch_begin", None) else _OWN_BEGIN


def _find_place(dataset: Any) -> str:
    """Return the line of `__getitem__`; empty where that is no function of the user's."""
    code = getattr(type(dataset).__getitem__, "__code__", None)
    if not isinstance(code, CodeType) or not is_users(code.co_filename):
        return ""
    return place_of(code.co_filename, code.co_firstlineno)


# -- random numbers --------------------------------------------------------------------------------


def _name_of_draw(dataset: Any) -> str:
    """Return the name by which `__getitem__`, or what it calls, draws random numbers; empty where
    no name says so.

    Looks into namespaces alone: to ask an object for an attribute may run its code, or import.
    """
    held = list(vars(dataset).values())
    kinds = list(dict.fromkeys(map(type, held)))
    waiting: list[Any] = [*held, *(one for kind in kinds for one in _members(kind, {"__call__"}))]
    waiting.append(type(dataset).__getitem__)
    seen: set[CodeType] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.pop()
        # Not `isinstance`: it asks an object for its class, and a proxy of the user's may raise.
        is_function = type(function) is FunctionType
        if not is_function or _is_of_library(function.__module__) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        names = dict.fromkeys(_names_in(function.__code__))
        if drawn := next((name for name in names if "random" in name or name in _DRAWS), ""):
            return drawn
        known = [*map(function.__globals__.get, names), *_closed_over(function)]
        owners = (type(dataset), *kinds, *known)
        waiting += [*known, *(one for owner in owners for one in _members(owner, names.keys()))]
    return ""


def _names_in(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in(one)


def _closed_over(function: FunctionType) -> Iterator[Any]:
    """Yield the values of a function's closure; one that is not set yet has none."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):
            yield cell.cell_contents


def _members(owner: Any, names: Set[str]) -> Iterator[Any]:
    """Yield what a module, or a class with its bases, has under these names."""
    is_class, is_module = (issubclass(type(owner), kind) for kind in (type, ModuleType))
    for place in owner.__mro__ if is_class else [owner] * is_module:
        own = object.__getattribute__(place, "__dict__")
        if not _is_of_library(own.get("__module__" if is_class else "__name__")):
            for name in sorted(own.keys() & names):
                one = own[name]
                yield one.__func__ if type(one) in (classmethod, staticmethod) else one


def _is_of_library(module: object) -> bool:
    return str(module).partition(".")[0] in _LIBRARIES
