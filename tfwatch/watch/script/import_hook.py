"""Waits for a script to import Keras and TensorFlow, and has its trainings recorded; hides tfwatch
from the script's debugger. It imports none of them."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_once, warn_user
from tfwatch.watch.script.unseen import hide_own_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from tfwatch.watch.loops.found_loops import BatchCalls, FoundLoops

_LEGACY = "tf_keras"
_KERAS, _TENSORFLOW = "keras", "tensorflow"
_DEBUGGER = "bdb"
_WATCHED = (_TENSORFLOW, _KERAS, _LEGACY)


class ImportHook:
    """Patches Keras and TensorFlow once they are imported, in this process alone.

    runs_dir: where the runs are recorded; None is the default folder.
    """

    def __init__(self, runs_dir: str | None) -> None:
        self._runs_dir = runs_dir
        self._pid = os.getpid()
        self._patches = ExitStack()
        self._loops: FoundLoops | None = None
        self._calls: BatchCalls | None = None

    def install(self) -> None:
        """Wait for the imports; what is imported already is patched now."""
        sys.meta_path.insert(0, self)
        for name in _WATCHED:
            if name in sys.modules:
                self._adopt(name, sys.modules[name])

    def uninstall(self) -> None:
        """Put everything back, and end the runs of loops."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._patches.close()
        self.end_loops()
        if self._loops:
            self._loops.is_over = True

    def end_loops(self) -> None:
        """End the runs of the loops so far."""
        from tfwatch.watch.loops.tracked_loop import all_runs

        for run in list(all_runs):
            run.end(meant=True)
        if self._calls:
            self._calls.end()

    # -- the import system calls these ----------------------------------------------------------

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing itself: have the loader of these libraries report that they are loaded."""
        if name not in (*_WATCHED, _DEBUGGER) or os.getpid() != self._pid:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                with _not_watched():
                    self._report_load(spec.loader)
                return spec
        return None

    def _report_load(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._adopt(module.__name__, module)

        loader.exec_module = exec_module

    # -- a library is loaded --------------------------------------------------------------------

    def _adopt(self, name: str, module: Any) -> None:
        if name == _TENSORFLOW:
            with fails_open(
                lambda why: warn_user(f"loops of this script's own are not recorded: {why}")
            ):
                self._use_tensorflow(module)
        elif name == _DEBUGGER:
            with fails_open(lambda _: None):  # then it shows tfwatch's frames too
                hide_own_frames(module)
        else:
            with _not_watched():
                self._use_keras(module)

    def _use_tensorflow(self, module: Any) -> None:
        from tfwatch.watch.script.patches import patch_stages, patch_tensorflow

        self._patches.enter_context(patch_tensorflow(module, self._found_loops()))
        with fails_open(
            lambda why: warn_user(f"the lines of this script's pipelines are unknown: {why}")
        ):
            self._patches.enter_context(patch_stages(module))

    def _use_keras(self, module: Any) -> None:
        from tfwatch.runs.script_process import launched
        from tfwatch.watch.loops.found_loops import BatchCalls
        from tfwatch.watch.script.patches import find_refusal, patch_keras
        from tfwatch.watch.script.trial import end_trial, patch_trial
        from tfwatch.watch.tensorflow_info import NO_LEGACY

        if module.__name__ == _LEGACY:
            warn_once(NO_LEGACY)
            return

        trial = launched().trial
        if refusal := find_refusal(module):
            if trial:
                end_trial(refusal)
            warn_user(f"a fit of this script is not watched: {refusal}")
            return
        loops = self._found_loops()
        self._calls = BatchCalls(loops)
        self._patches.enter_context(patch_keras(module, self._runs_dir, loops, self._calls))
        if trial:
            self._patches.enter_context(patch_trial(module, trial))

    def _found_loops(self) -> FoundLoops:
        from tfwatch.watch.loops.found_loops import FoundLoops

        if self._loops is None:
            self._loops = FoundLoops(Path(self._runs_dir) if self._runs_dir else None)
        return self._loops


def _not_watched() -> fails_open:
    return fails_open(lambda why: warn_user(f"this script runs unwatched: {why}"))
