"""A/B tests: short blocks of settings in random order, until the answer is clear or the budget
spent.

Each block begins with an empty pipeline, and judges a setting by its first half second, or about
ten steps: a later gain of a deep buffer or of tf.data's autotuning is not included.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.errors import fails_open
from tfwatch.core.events import (
    EXPERIMENT,
    WITH_THE_RUN,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
)
from tfwatch.core.knobs import PREFETCH, knob_name
from tfwatch.core.rows import step_ms
from tfwatch.judge.autopilot.measurement import settling_steps
from tfwatch.judge.effects.experiment import ExperimentState, block_means, counted_steps, evaluate
from tfwatch.runs.requests import StopRequest
from tfwatch.tuner.driver import Interrupt, RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.events import PipelineSwitched
    from tfwatch.core.rows import Rows
    from tfwatch.tuner.driver import Driver
    from tfwatch.tuner.jobs import Experiment

#: A test ends without an answer after this many steps, and not before this time: rows come ten
#: times a second.
BUDGET_STEPS = 600
_LEAST_S = 30.0
#: The fewest steps of a block, and its length where the budget allows it: the first switch of an
#: epoch takes 20 to 60 ms, and the first batches of new buffers are left out of each block.
BLOCK = 10
_BLOCK_MS = 400.0
#: The recent steps that give the length of a block.
_RECENT = 50
#: The rounds that a budget of steps should last for: the answer `same` takes 8 of them.
_ROUNDS = 12
#: The steps of a run before its first block.
_WARM = 10
#: The causes of a complete test, with any answer.
_DONE = ("clear", "budget")


def run(driver: Driver, request: Experiment) -> None:
    """Run an A/B test and publish its answer. The run keeps the better setting.

    Raises:
        RefusedError: it cannot begin, for the reason in the message. Interrupt: the request is over
        before the start.
    """
    cause = ""
    try:
        cause = _carry_out(driver, request)
    finally:
        # With any answer: nothing else ends a training that runs only for its test.
        if request.ends and cause in _DONE:
            driver.send(StopRequest(EXPERIMENT))
        elif request.ends:
            driver.send(StopRequest("command"))


def _carry_out(driver: Driver, request: Experiment) -> str:
    knob = request.knob
    if len(set(request.values)) < max(2, len(request.values)):
        raise RefusedError(
            f"{', '.join(request.values)} are not different settings of {knob_name(knob)}"
        )
    # An earlier request takes effect first. Only a run that trains knows its device, and so a
    # prefetch to it.
    driver.wait(lambda snapshot: snapshot.steps_total >= _WARM and not driver.is_switching)
    manifest = driver.snapshot.manifest
    if knob not in manifest.switchable:
        raise RefusedError(f"{knob_name(knob)} cannot be switched in this run")
    if any(manifest.epochs_until(knob, value) for value in request.values):
        raise RefusedError(
            f"{knob_name(knob)} has no A/B test in this run: it takes effect with an epoch"
        )
    return _ExperimentJob(driver, request).run()


class _SpentError(Exception):
    """The budget is spent."""


class _ExperimentJob:
    def __init__(self, driver: Driver, request: Experiment) -> None:
        self._driver = driver
        self._request = request
        self._random = random.Random(request.seed)
        self._values = list(request.values)
        self._began = driver.snapshot.steps_total
        self._began_ns = driver.now_ns()
        self._first_setting = driver.setting_of(request.knob)
        self._now = self._first_setting
        self._coming: str | None = None
        self._next = 0
        self._blocks: list[list[Rows]] = [[] for _ in request.values]
        self._found = evaluate(block_means(self._times()))
        rows = driver.rows(max(1, self._began - _RECENT))
        self._step_ms = float(np.median(step_ms(rows, np.float64))) if len(rows) else _BLOCK_MS
        self._block_steps = self._steps_of_block()

    def run(self) -> str:
        """Run the test. Returns the cause of its end, as in `ExperimentEnded`."""
        budget = self._request.steps or BUDGET_STEPS
        self._driver.publish(
            ExperimentBegan(
                self._driver.now_ns(),
                self._request.knob,
                self._values,
                self._began,
                budget,
                self._request.seed,
            )
        )
        cause, reason = self._outcome()
        self._end(cause, reason)
        return cause

    def _outcome(self) -> tuple[str, str]:
        """Measure to the end. Returns its cause, and the reason of a failure."""
        failures: list[str] = []
        with fails_open(failures.append):
            return self._measure()
        self._blocks = [[] for _ in self._values]  # they may hold the rows that made it fail
        return "failed", failures[0]

    def _measure(self) -> tuple[str, str]:
        try:
            while not self._standing().clear:
                self._round()
        except _SpentError:
            return "budget", ""
        except Interrupt as over:
            return over.cause, ""
        except RefusedError as refusal:
            return "failed", str(refusal)
        return "clear", ""

    # -- blocks -----------------------------------------------------------------------------------

    def _round(self) -> None:
        order = list(range(len(self._values)))
        self._random.shuffle(order)
        for value in order:
            self._blocks[value].append(self._block(value))
            self._publish_block(value)

    def _block(self, value: int) -> Rows:
        """Run a block of a setting. Returns its rows after the settling steps."""
        if self._now != self._values[value]:
            switched = self._switched(value)
            self._now = self._values[value]
            self._next = switched.step + self._settle()
        self._next = self._next or self._driver.snapshot.steps_total + 1
        rows = self._rows()
        while missing := max(
            0, self._block_steps - (len(counted_steps([rows])[0]) if len(rows) else 0)
        ):
            self._check_budget()
            enough = max(self._next - 1, self._driver.snapshot.steps_total) + missing
            left_s = (enough - self._driver.snapshot.steps_total) * self._step_ms / 1e3
            self._driver.wait(
                lambda snapshot, enough=enough: snapshot.steps_total >= enough,  # type: ignore[misc]
                left_s,
            )
            rows = self._rows()
        self._next = int(rows["step"][-1]) + 1
        return rows

    def _steps_of_block(self) -> int:
        """Return the steps of a block: as many as last `_BLOCK_MS`, within the budget."""
        steps = math.ceil(_BLOCK_MS / max(self._step_ms, 1e-3))
        if self._request.steps:
            steps = min(
                steps, self._request.steps // (_ROUNDS * len(self._values)) - self._settle()
            )
        return max(BLOCK, steps)

    def _rows(self) -> Rows:
        """Return the block's rows so far, without those in which an epoch's new pipeline
        settles."""
        return self._driver.settled_rows(self._next, self._settle())

    def _switched(self, value: int) -> PipelineSwitched:
        """Switch to a setting and wait for it."""
        self._driver.ask(self._request.knob, self._request.values[value], EXPERIMENT)
        self._coming = self._values[value]
        try:
            switched = self._driver.wait_switched(self._request.knob, self._request.values[value])
        except RefusedError:
            self._coming = None
            raise
        self._coming = None
        return switched

    def _settle(self) -> int:
        prefetch = (
            self._now if self._request.knob == PREFETCH else self._driver.setting_of(PREFETCH)
        )
        return settling_steps({PREFETCH: prefetch or "off"})

    def _check_budget(self) -> None:
        spent = self._driver.snapshot.steps_total - self._began
        lasted_s = (self._driver.now_ns() - self._began_ns) / 1e9
        if spent >= (self._request.steps or BUDGET_STEPS) and (
            self._request.steps or lasted_s >= _LEAST_S
        ):
            raise _SpentError

    # -- the answer --------------------------------------------------------------------------------

    def _times(self) -> list[list[NDArray[np.float64]]]:
        """Return the step times that count of every complete round, by setting."""
        rounds = min(len(blocks) for blocks in self._blocks)
        return [counted_steps(blocks[:rounds]) for blocks in self._blocks]

    def _standing(self) -> ExperimentState:
        rounds = min(len(blocks) for blocks in self._blocks)
        if self._found.rounds != rounds:
            self._found = evaluate(block_means(self._times()))
        return self._found

    def _publish_block(self, value: int) -> None:
        blocks, rows = self._blocks[value], self._blocks[value][-1]
        times, standing = counted_steps(blocks)[-1], self._standing()
        self._driver.publish(
            ExperimentBlock(
                self._driver.now_ns(),
                sum(map(len, self._blocks)),
                len(blocks),
                self._values[value],
                int(rows["step"][0]),
                int(rows["step"][-1]),
                len(times),
                float(times.mean()),
                self._values[standing.value],
                **standing.estimate.event_fields(),
            )
        )

    def _end(self, cause: str, reason: str) -> None:
        times = self._times()
        table = block_means(times)
        state = evaluate(table)
        kept = self._ask_best(cause, state)
        step = self._driver.snapshot.steps_total
        self._driver.publish(
            ExperimentEnded(
                self._driver.now_ns(),
                self._request.knob,
                self._values,
                self._began,
                step,
                cause,
                state.estimate.answer,
                self._values[state.value],
                self._values[0],
                state.rounds,
                sum(len(block) for blocks in times for block in blocks),
                step - self._began,
                kept,
                step_ms=dict(zip(self._values, _means(table), strict=True)) if len(table) else {},
                reason=reason,
                **state.estimate.event_fields(),
            )
        )

    def _ask_best(self, cause: str, state: ExperimentState) -> str:
        """Request the better setting for the rest of the run. Returns it; empty where the user
        switched the knob."""
        if self._driver.is_changed_by_user(self._request.knob):
            return ""
        at = state.fastest
        first = (
            self._values.index(self._first_setting) if self._first_setting in self._values else None
        )
        if cause == "failed" or (first is not None and first not in state.beaten):
            at = first if first is not None else 0
        if {self._driver.setting_of(self._request.knob), self._coming or self._values[at]} != {
            self._values[at]
        }:
            self._driver.ask_final(self._request.knob, self._request.values[at], EXPERIMENT)
        return (self._now or "") if cause in WITH_THE_RUN else self._values[at]


def _means(step_ms: NDArray[np.float64]) -> list[float]:
    """Return the geometric mean of each column, as the ratios use it."""
    return [float(mean) for mean in np.exp(np.log(step_ms).mean(axis=0))]
