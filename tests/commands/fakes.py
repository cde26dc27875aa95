"""A training without TensorFlow, and an app without a screen. As a program: a whole session around them.

python -m tests.commands.fakes RUNS_DIR BEHAVIOUR [STEPS]     with the real screen
python -m tests.commands.fakes train ...                      says this line, and ends with 1
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.commands.factories import Factories
from tfwatch.commands.training.train import train
from tfwatch.core.events import EpochStarted, RunEnded, TrainingFailed
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Phase
from tfwatch.screens.dialogs.leave import Leave
from tfwatch.training.request import Plan, TrainRequest
from tfwatch.training.trainer import Outcome
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.clock import Clock
    from tfwatch.core.start_knobs import RestartOffer
    from tfwatch.runs.control.requests import Control
    from tfwatch.runs.writer import RunWriter

STEP_S = 0.01


class FakeTrainer:
    """Steps of 10 ms until `steps` are done, a file `enough` beside the run appears, or a stop is asked.

    What else it does is its `behaviour`.

    hang: never ends after the first step. weightless: its weights cannot be saved. fail: raises. bad-input: refuses.
    abort: dies after 50 steps as C++ does.
    """

    def __init__(self, writer: RunWriter, control: Control, behaviour: str, steps: int) -> None:
        self.done = threading.Event()
        self.outcome: Outcome | None = None
        self.after_step: Callable[[int, Control], None] = lambda *_: None
        self._writer = writer
        self._control = control
        self._behaviour = behaviour
        self._steps = steps
        self._never = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def save_weights(self, path: Path) -> str:
        if self._behaviour == "weightless":
            return "no space left"
        path.write_text(f"weights after {self._writer.status[2]} steps")
        return ""

    def _run(self) -> None:
        os.write(1, b"native code speaks\n")
        sys.stdout.write("Python prints\n")
        self._writer.event(EpochStarted(self._writer.now_ns(), 0, 1, self._steps))
        for step in range(1, self._steps + 1):
            if self._behaviour == "hang" and step > 1:
                self._never.wait()
            if self._control.stop.wait(STEP_S) and self._behaviour != "hang":
                return self._end(Outcome("stopped" if self._control.was_stopped else "finished"))
            self._step(step)
            if self._behaviour == "fail":
                return self._end(Outcome("failed", "ValueError: no", "Traceback\nValueError: no\n"))
            if self._behaviour == "abort" and step == 50:
                os.abort()
            if self._behaviour == "bad-input":
                return self._end(Outcome("bad-input", "every file is broken"))
            if self._writer.folder and (self._writer.folder.parent / "enough").exists():
                break
        return self._end(Outcome("finished"))

    def _step(self, step: int) -> None:
        now = self._writer.now_ns()
        self._writer.step(max(0, now - 10**7), step, 0, 0, 4.0, 1.0, 5.0, 1.0)
        self._writer.status = (Phase.WAIT, now, step, 0, "")
        self._writer.progress.append((step * 32, step, 0, step, 1.0, 0.5))
        self.after_step(step, self._control)

    def _end(self, outcome: Outcome) -> None:
        now, step = self._writer.now_ns(), self._writer.status[2]
        if outcome.cause == "failed":
            self._writer.event(TrainingFailed(now, step, outcome.message, outcome.traceback))
        cause = "failed" if outcome.cause == "bad-input" else outcome.cause
        self._writer.phase(Phase.ENDED)
        self._writer.event(RunEnded(now, cause, step, outcome.message))
        self.outcome = outcome
        self.done.set()


class FakeSensors:
    """Senses nothing."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class FakeApp:
    """Draws nothing: paints, and is left as `behaviour` says: a `Leave` by name, raise or vanish; else never.

    choose: what is done with the start knobs that a restart offers, before it is left.
    """

    def __init__(
        self, behaviour: str, painted: Callable[[], None], choose: Callable[[], None]
    ) -> None:
        self._behaviour = behaviour
        self._painted = painted
        self._choose = choose
        self._left: asyncio.Future[Leave] | None = None

    def run(self) -> Leave | None:
        return asyncio.run(self._main())

    def exit_with(self, leave: Leave) -> None:
        if self._left and not self._left.done():
            self._left.set_result(leave)

    def suspend(self) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    async def _main(self) -> Leave | None:
        self._left = asyncio.get_running_loop().create_future()
        self._painted()
        if self._behaviour == "raise":
            raise RuntimeError("the screen broke")
        if self._behaviour == "vanish":
            return None
        await asyncio.to_thread(self._choose)
        if self._behaviour in Leave.__members__:
            self.exit_with(Leave[self._behaviour])
        return await self._left


def factories(
    behaviour: str = "", steps: int = 20, app: str | None = None, **others: Any
) -> Factories:
    """The parts of a session whose training behaves like this; with the real screen unless `app` says how it acts."""
    after_step = others.pop("after_step", lambda *_: None)
    choose: Callable[[RestartOffer], None] = others.pop("choose", lambda _: None)

    def trainer(_plan: Plan, writer: RunWriter, control: Control, _clock: Clock) -> FakeTrainer:
        made = FakeTrainer(writer, control, behaviour, steps)
        made.after_step = after_step
        return made

    def screen(*_: Any, painted: Callable[[], None], restart: RestartOffer, **__: Any) -> FakeApp:
        return FakeApp(app or "", painted, lambda: choose(restart))

    made = Factories(trainer=trainer, sensors=lambda *_: FakeSensors(), **others)
    return made if app is None else replace(made, app=screen)


def order(runs_dir: Path, **options: Any) -> TrainRequest:
    """An order to train cnn."""
    return TrainRequest(Plan("cnn", Settings(), Knobs()), runs_dir, **options)


if __name__ == "__main__":
    if sys.argv[1] == "train":  # the command of a restart, which this program became
        sys.exit(f"became {' '.join(sys.argv[1:])}")
    sys.exit(
        train(
            order(Path(sys.argv[1])), factories(sys.argv[2], int((sys.argv[3:] or ["100000"])[0]))
        )
    )
