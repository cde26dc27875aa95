"""The switch to vectorised maps: it waits for their proof, which a thread of its own makes while training goes on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open
from tfwatch.core.events import SwitchAsked, SwitchMissed
from tfwatch.core.refusals import Refusal
from tfwatch.watch.session import call_at_exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.control.requests import Control, Request
    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.rebuilding.vectorised_proof import ProvableMaps
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

_FAST = "fast_pipeline"
#: Seconds that the end of a training, and that of the process, wait for the thread to leave TensorFlow: it looks for a
#: stop after each batch, and a trace takes 0.2 s. The process dies of a TensorFlow function that runs as it ends.
_LEAVE_S, _LEAVE_AT_EXIT_S = 5.0, 60.0


class ProvedSwitch:
    """The request for vectorised maps that waits for their proof.

    The training thread calls everything but the thread's own work.
    """

    def __init__(self, control: Control, writer: RunWriter, script: ScriptPipeline) -> None:
        self._control, self._writer, self._script = control, writer, script
        self._waiting: tuple[SwitchAsked, Request] | None = None
        self._lock = threading.Lock()
        self._proving: _ProofThread | None = None

    def refusal(self, request: Request, knobs: Knobs) -> str:
        """Return the reason to refuse a request; empty if there is none. knobs: those of the next epoch."""
        if request.knob == "cache" and request.value and knobs.fast_pipeline:
            return Refusal.CACHE_OF_VECTORISED.words
        if request.knob != _FAST or not request.value:
            return ""
        if why := self._script.why_no_fast:
            self._describe_refused(why)
            return why
        if knobs.cache:
            self._waiting = None
            return Refusal.VECTORISED_CACHE.words
        return ""

    def cancelled_by(self, request: Request) -> list[tuple[str, str, str]]:
        """Return the waiting switch that a request cancels: (knob, value, the same value)."""
        if self._waiting is None or request.knob != _FAST or request.value:
            return []
        with self._lock:
            self._waiting = None
        return [(_FAST, "off", "off")]

    def resumed(self, request: Request) -> SwitchAsked | None:
        """Return the switch that waited for its proof, which is there; None for any other request."""
        if self._waiting is None or request.knob != _FAST or not self._script.is_proved:
            return None
        (asked, _), self._waiting = self._waiting, None
        return asked

    def defer(self, asked: SwitchAsked, request: Request) -> bool:
        """Have a switch wait for its proof, and return whether that is needed: not for a workload's fast pipeline."""
        maps = self._script.maps
        if asked.knob != _FAST or asked.new != "on" or maps is None:
            return False
        if maps.proof is not None:
            self._writer.describe(proof=maps.proof.words)
            return False
        is_new, self._waiting = self._waiting is None, (asked, request)
        if is_new:
            self._start(maps)
        return True

    def _start(self, maps: ProvableMaps) -> None:
        if self._proving is not None:
            self._proving.leave(0.0)
        self._proving = _ProofThread(maps, self._finish)
        try:
            self._proving.start()
        except RuntimeError as error:  # the system has no thread left
            maps.why_not = f"no proof: {error}"
            self._finish()

    def _finish(self) -> None:
        """Have the training thread look at the request again."""
        with self._lock:
            if self._waiting is not None:
                self._control.ask_again(self._waiting[1])

    def _describe_refused(self, why: str) -> None:
        """Record the reason that a proof found."""
        self._waiting, manifest = None, self._writer.manifest()
        switchable = [knob for knob in manifest.switchable if knob != _FAST]
        self._writer.describe(switchable=switchable, fixed={**manifest.fixed, _FAST: why}, proof="")

    def close(self) -> None:
        """End with the training."""
        if self._waiting is not None:
            asked = self._waiting[0]
            self._writer.event(SwitchMissed(self._writer.now_ns(), asked.knob, asked.old, asked.new, asked.step))
        self._waiting = None
        if self._proving is not None:
            self._proving.leave(_LEAVE_S)


class _ProofThread:
    """The thread that proves maps equal."""

    def __init__(self, maps: ProvableMaps, done: Callable[[], None]) -> None:
        self._maps, self._done = maps, done
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-proof", daemon=True)
        self._forget: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._forget = call_at_exit(lambda: self.leave(_LEAVE_AT_EXIT_S))

    def leave(self, timeout_s: float) -> None:
        """Stop the thread at its next batch, and wait for that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._forget()

    def _run(self) -> None:
        with fails_open(self._refuse):
            self._maps.prove(self._stopping.is_set)
        if not self._stopping.is_set():
            self._done()

    def _refuse(self, why: str) -> None:
        self._maps.why_not = f"its proof failed ({why})"
