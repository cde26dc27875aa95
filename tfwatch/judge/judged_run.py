"""The judgement of a whole run, for the JSON object, the summary and the screen of a run that is
over."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.errors import fails_open
from tfwatch.core.events import ExperimentEnded
from tfwatch.judge import troubles
from tfwatch.judge.effects.comparison import Comparison, compare, find_better_settings
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.ranking import find_losses
from tfwatch.judge.findings.situation import Situation, batch_source
from tfwatch.judge.forecasts.evidence import Evidence, build_evidence, stage_table_at
from tfwatch.judge.forecasts.forecast import forecasts
from tfwatch.judge.log_lines import find_meanings
from tfwatch.judge.machine import MachineFigures, machine_of_run
from tfwatch.judge.profile.step_parts import profile_of_run
from tfwatch.judge.regime import regime_of
from tfwatch.judge.steps.stalls import Stall, find_stalls
from tfwatch.judge.steps.steady_steps import Breakdown, steady_breakdown
from tfwatch.judge.steps.time_breakdown import TimeBreakdown, make_time_breakdown

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.regime import Regime
    from tfwatch.judge.stages import StageTable
    from tfwatch.runs.snapshot import Snapshot


class JudgedRun:
    """A run that was read once, and its judgement. Each part is made when it is first asked for.

    `split` and the losses are those of the last setting; `time_breakdown` and `machine` are figures
    over the whole run.
    """

    def __init__(self, run: Snapshot) -> None:
        self.run = run

    @cached_property
    def setting_steps(self) -> Rows:
        """The steps of the last setting: those of the present regime."""
        rows = self.run.steps
        return rows[int(np.searchsorted(rows["start_ns"], self.regime.begin_ns)) :]

    @cached_property
    def split(self) -> Breakdown | None:
        """The parts of the steady steps of the last setting; None without any."""
        return steady_breakdown(self.setting_steps)

    @cached_property
    def switches(self) -> list[Comparison]:
        """Every switch that took effect, with the steps before and after it."""
        run = self.run
        steps, accelerated = run.steps_total, run.manifest.accelerated
        return compare(run.events, steps, run.steps_between, accelerated=accelerated)

    @cached_property
    def stalls(self) -> list[Stall]:
        """The stalls; a wait that has not ended may be one, and is no step."""
        run, rows = self.run, self.run.steps
        waits = np.concatenate([rows, run.open_phase.wait]) if run.open_phase else rows
        return find_stalls(waits, run.events)

    @cached_property
    def time_breakdown(self) -> TimeBreakdown:
        """Every second of the run by what it went to."""
        run = self.run
        return make_time_breakdown(
            run.epochs, run.events, run.length_s, run.open_phase.phase if run.open_phase else None
        )

    @cached_property
    def machine(self) -> MachineFigures:
        """The machine in figures."""
        return machine_of_run(self.run)

    @cached_property
    def pipeline(self) -> StageTable | None:
        """The stages of the input pipeline as they were read last."""
        return self._evidence.stages

    @cached_property
    def regime(self) -> Regime:
        """The present regime, or the last one."""
        run = self.run
        doing = run.open_phase.phase if run.open_phase else None
        return regime_of(run.steps, run.events, run.length_s, doing)

    @cached_property
    def losses(self) -> tuple[Finding, ...]:
        """The losses of the last regime, the largest first; the limit of its steps where there is
        none. Empty without steps."""
        return find_losses(self.situation)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings in rank: why the run failed, its losses, and what happened beside them."""
        named = {one.where.partition(", ")[0] for one in self.losses if one.kind == "callback"}
        found = troubles.beside(self.run, self.machine)
        beside = (one for one in found if one.where.partition(", ")[0] not in named)
        return (*troubles.failure(self.run), *self.losses, *beside)

    @cached_property
    def situation(self) -> Situation:
        """The last setting as the finding is made from it."""
        evidence, run = self._evidence, self.run
        return Situation(
            run.manifest,
            split=self.split,
            knobs=evidence.knobs,
            regime=self.regime,
            forecasts={(one.knob, one.value): one for one in forecasts(evidence)},
            profile=profile_of_run(run),
            stages=evidence.stages,
            cores_free=evidence.cores_free,
            cores_used=evidence.cores_used,
            machine=self.machine,
            others=self.machine.others,
            log=frozenset(one.name for one in find_meanings(run.log)),
            stalls=tuple(self.stalls),
            median_step_ms=self.split.step.median if self.split else None,
            origin=batch_source(run.manifest, run.stages_found),
            better=find_better_settings(
                self.switches,
                run.events.of(ExperimentEnded),
                autopilot_runs(run.events),
            ),
            live=False,
            is_whole=True,
        )

    @cached_property
    def _evidence(self) -> Evidence:
        run, at_ns = self.run, round(self.run.length_s * 1e9)
        table = stage_table_at(run, at_ns)
        return build_evidence(run, self.switches, table, run.steps_total, at_ns)


class EndedRunJudge:
    """Judges a run that is over in a thread of its own: ten million steps take seconds."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._found: tuple[Finding, ...] | None = None

    def __call__(self, run: Snapshot) -> tuple[Finding, ...] | None:
        """Return its losses, as in the summary and `--json`; the first call starts the thread.

        None until they are known.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._look, args=(run,), daemon=True, name="tfwatch-ending"
            )
            self._thread.start()
        return self._found

    def _look(self, run: Snapshot) -> None:
        with fails_open(self._report_failure):
            self._found = JudgedRun(run).losses

    def _report_failure(self, why: str) -> None:
        self._found = (Finding("not-judged", "VERDICT n/a", why),)
