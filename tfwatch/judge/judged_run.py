"""The judgement of a whole run, for the JSON object, the summary and the screen of a run that is
over."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open
from tfwatch.core.events import EpochStarted, ExperimentEnded
from tfwatch.judge.effects.comparison import find_better_settings
from tfwatch.judge.findings import banner
from tfwatch.judge.findings.between_epochs import find_slow_epoch_end
from tfwatch.judge.findings.machine import Hardware, summarise_hardware
from tfwatch.judge.findings.situation import Banner, MeasuredSetting, Tone, build_situation
from tfwatch.judge.findings.starving_cost import DataWaitCost, cost_of_data_wait
from tfwatch.judge.forecasts.evidence import Evidence, build_evidence, last_table
from tfwatch.judge.forecasts.follower import build_evidence_tables_of_run, stages_found
from tfwatch.judge.forecasts.forecast import Record, forecasts, record
from tfwatch.judge.steps.fits import fits_end_epochs
from tfwatch.judge.steps.summary import LastSetting, Summary, summarise
from tfwatch.judge.steps.time_breakdown import (
    TimeBreakdown,
    make_time_breakdown,
    mean_time_spent,
)
from tfwatch.judge.steps.verdict import Conditions, breakdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.judge.findings.bottleneck import StageTable
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.evidence import EvidenceTables
    from tfwatch.judge.steps.time_breakdown import TimeSpent
    from tfwatch.runs.reading.opened import Run


class JudgedRun:
    """A run that was read once, and its judgement. Each part is made when it is first asked for.

    The verdict, what the steps are bound by and the finding are those of `setting`, the last
    setting that counts; `summary.steady`, `time_breakdown`, `hardware` and `lost` are figures over
    the whole run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def summary(self) -> Summary:
        """All steps in figures."""
        run = self.run
        open_wait = run.open_phase.wait if run.open_phase else None
        conditions = Conditions.of(run.manifest)
        return summarise(run.steps, run.events, conditions, open_wait, run.plausible_steps)

    @cached_property
    def time_breakdown(self) -> TimeBreakdown:
        """Every second of the run by what it went to."""
        run = self.run
        return make_time_breakdown(
            run.epochs, run.events, run.length_s, run.open_phase.phase if run.open_phase else None
        )

    @cached_property
    def hardware(self) -> Hardware:
        """The machine in figures."""
        run = self.run
        return summarise_hardware(
            run.samples, run.plausible_steps, run.events, run.manifest.accelerated, run.gpus
        )

    @cached_property
    def record(self) -> Record:
        """The forecasts of the run's switches against the measured steps."""
        return record(self._tables, self.summary.switches)

    @cached_property
    def lost(self) -> DataWaitCost:
        size = self.run.manifest.batch_size
        examples = self.summary.steps * size if size else None
        return cost_of_data_wait(
            self.time_breakdown.total, self.run.length_s, examples, self.hardware.energy
        )

    @cached_property
    def pipeline(self) -> StageTable | None:
        """The stages of the input pipeline as they were read last."""
        return last_table(self._tables, self.run.stages, self.setting.judgement.breakdown)

    @property
    def setting(self) -> LastSetting:
        """The last setting that counts."""
        return self.summary.setting

    @cached_property
    def finding(self) -> Banner | None:
        """The finding of the last setting: the limit and the advice. None where it has too few
        steps."""
        if self.setting.judgement.bound is None:
            return None
        return self.between_epochs or banner.describe_bound(self.situation)

    @cached_property
    def between_epochs(self) -> Banner | None:
        """The finding that more is lost between the epochs than in their steps; None where it is
        not so."""
        return banner.describe_between_epochs(self.situation)

    @cached_property
    def fits_end_epochs(self) -> bool:
        """True where the script's own code runs between most epochs: see `fits.fits_end_epochs`."""
        began = (event for event in reversed(self.run.events) if isinstance(event, EpochStarted))
        return fits_end_epochs(next(began, None))

    @cached_property
    def situation(self) -> Situation:
        """The last setting as the finding is made from it."""
        evidence = self._evidence
        setting = MeasuredSetting(
            judgement=self.setting.judgement,
            knobs=evidence.knobs,
            epoch_spent=self._epoch_spent,
            callback=self.summary.callback,
            has_shuffle_fill=self.summary.has_shuffle_fill,
            slow_epoch_end=find_slow_epoch_end(self.run.events),
            fits_end_epochs=self.fits_end_epochs,
            forecasts={(one.knob, one.value): one for one in forecasts(evidence)},
            stages=evidence.stages,
            cores_free=evidence.cores_free,
        )
        experiments = (event for event in self.run.events if isinstance(event, ExperimentEnded))
        return replace(
            build_situation(self.run.manifest, stages_found(self.run.events), setting),
            better=find_better_settings(self.summary.switches, experiments),
        )

    @cached_property
    def _tables(self) -> EvidenceTables:
        return build_evidence_tables_of_run(self.run)

    @property
    def _examples_s(self) -> float | None:
        """The examples a second in the steady steps of the last setting; None where unknown."""
        split, size = self.setting.judgement.breakdown, self.run.manifest.batch_size
        return 1e3 * size / split.step.mean if split and size and split.step.mean > 0 else None

    @property
    def _evidence(self) -> Evidence:
        """The evidence at the end of the last setting's steps."""
        setting, switches = self.setting, self.summary.switches
        if setting.undecided is None:
            last, at_ns = len(self.run.steps), round(self.run.length_s * 1e9)
        else:
            last, at_ns = setting.undecided.stretches[-1][1], setting.undecided.at_ns
            switches = [
                switch for switch in switches if switch.step is not None and switch.step <= last
            ]
        evidence = build_evidence(self._tables, switches, last, at_ns)
        if setting.undecided is None and len(setting.stretches) <= 1:
            return evidence
        # One block of an A/B test is too short to forecast from: all those of the setting are.
        return replace(evidence, rows=setting.newest, breakdown=breakdown(setting.newest))

    @property
    def _epoch_spent(self) -> TimeSpent:
        """The mean whole epoch since the last setting began; of all whole ones, or of all, where
        none is that new."""
        time_breakdown = self.time_breakdown
        whole = list(zip(time_breakdown.epochs, time_breakdown.begins_ns, strict=True))
        if not self._is_last_epoch_whole:
            del whole[-1:]
        newest = [one for one, at_ns in whole if at_ns >= self.setting.begin_ns]
        return mean_time_spent(newest or [one for one, _ in whole] or time_breakdown.epochs)

    @property
    def _is_last_epoch_whole(self) -> bool:
        """Return False for an epoch that was broken off, and for one that `--steps` ends after a
        few steps."""
        epochs, ended = self.time_breakdown.epochs, self.run.ended
        is_finished = ended is not None and ended.cause == "finished"
        return is_finished and (len(epochs) < 2 or epochs[-1].steps >= epochs[-2].steps)


class EndedFinding:
    """Judges a run that is over in a thread of its own: ten million steps take seconds.

    whole: reads all of the run.
    """

    def __init__(self, whole: Callable[[], Run]) -> None:
        self._whole = whole
        self._thread: threading.Thread | None = None
        self._found: Banner | None = None

    def __call__(self) -> Banner | None:
        """Return the finding of the last setting, as in the summary and `--json`; the first call
        starts the thread.

        None until it is known, and where the setting has too few steps.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True, name="tfwatch-ending")
            self._thread.start()
        return self._found

    def _look(self) -> None:
        with fails_open(self._report_failure):
            self._found = JudgedRun(self._whole()).finding

    def _report_failure(self, why: str) -> None:
        self._found = Banner("VERDICT n/a", why, "", Tone.WARN)
