"""`tfwatch ab` from its order to what it prints, over a training without TensorFlow that obeys."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.commands.fakes import FakeTrainer, factories
from tfwatch.commands.training.train import ExperimentOptions, ab
from tfwatch.core.events import ExperimentEnded, PipelineSwitched, SwitchAsked
from tfwatch.core.knobs import Knobs, describe, show
from tfwatch.core.rows import Phase
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tfwatch.commands.factories import Factories
    from tfwatch.training.request import Plan

OPTIONS = ExperimentOptions("cnn", Settings(steps=400, seed=1), Knobs(), "prefetch", ("off", 4))


class ObedientTrainer(FakeTrainer):
    """Obeys at once; its rows say that steps with prefetch took half as long. interrupted: at which step, if any."""

    interrupted = 0

    def _step(self, step: int) -> None:
        for request in self._control.take():
            old, new = show(getattr(self._control.knobs, request.knob)), show(request.value)
            now, words = (
                self._writer.now_ns(),
                {"knob": request.knob, "old": old, "new": new, "by": request.by},
            )
            self._writer.event(SwitchAsked(now, request.knob, old, new, step - 1, request.by))
            self._control.knobs = self._control.knobs.with_value(request.knob, request.value)
            self._writer.event(
                PipelineSwitched(now, asked_step=step - 1, step=step, took_ms=1.0, **words)
            )
        knobs = self._control.knobs
        compute_ms = 4.0 if knobs.prefetch == 4 or knobs.device_prefetch == 2 else 9.0
        start_ns = max(0, self._writer.now_ns() - 10**7)
        self._writer.step(start_ns, step, 0, 0, 0.5, 1.0, compute_ms + 0.001 * (step % 7), 0.5)
        self._writer.status = (Phase.HOST, start_ns, step, 0, "")
        self._writer.progress.append((step * 32, step, 0, step, 1.0, 0.5))
        if step == self.interrupted:
            os.kill(os.getpid(), signal.SIGINT)


def obedient(interrupted: int = 0, plans: list[Plan] | None = None) -> Factories:
    def trainer(plan: Plan, writer: Any, control: Any, _clock: Any) -> ObedientTrainer:
        if plans is not None:
            plans.append(plan)
            writer.describe(knobs=describe(plan.knobs), switchable=["prefetch", "device_prefetch"])
        made = ObedientTrainer(writer, control, "", 100_000)
        made.interrupted = interrupted
        return made

    return replace(factories(), trainer=trainer)


def test_it_ends_with_the_answer_in_the_summary(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ab(OPTIONS, tmp_path, factories=obedient()) == 0
    out, _ = capfd.readouterr()
    assert "prefetch off vs 4: 2.00 x faster (" in out
    assert "; kept 4\n" in out
    assert "prefetch off > 4" not in out
    (folder,) = list_runs(tmp_path)
    run = open_run(folder)
    assert len(run.steps) < 400
    assert run.ended
    assert run.ended.cause == "finished"
    assert out.startswith("cnn: finished, ")


def test_device_prefetch_is_tested_where_the_device_has_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plans: list[Plan] = []
    asked = replace(OPTIONS, knob="device_prefetch", values=("off", 2))
    assert ab(asked, tmp_path, factories=obedient(plans=plans)) == 0
    assert plans[0].tested_knob == "device_prefetch"  # the trainer asks the device
    assert "device prefetch off vs 2: 2.00 x faster (" in capfd.readouterr().out


def test_json_is_one_document_with_the_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ab(OPTIONS, tmp_path, as_json=True, factories=obedient()) == 0
    document = json.loads(capfd.readouterr().out)
    (found,) = document["experiments"]
    assert (found["knob"], found["settings"], found["answer"], found["kept"]) == (
        "prefetch",
        ["off", "4"],
        "faster",
        "4",
    )
    assert found["speedup_low"] < found["speedup"] < found["speedup_high"]
    assert round(found["speedup"], 2) == 2.0
    assert document["switches"] == []


def test_an_interrupted_ab_test_prints_its_result_so_far(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ab(OPTIONS, tmp_path, factories=obedient(interrupted=45)) == 130
    assert (
        "prefetch off vs 4: not clear: the training was stopped first (" in capfd.readouterr().out
    )
    (folder,) = list_runs(tmp_path)
    run = open_run(folder)
    (ended,) = (event for event in run.events if isinstance(event, ExperimentEnded))
    assert ended.cause == "stopped"
    assert run.ended
    assert run.ended.cause == "stopped"
