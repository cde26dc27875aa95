"""The autopilot: makes one move after another, keeps what is proved to help, and stops when no gain
is left.

`search` decides; this module requests the switches, waits for them and publishes events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tfwatch.core.errors import fails_open
from tfwatch.core.events import (
    AUTOPILOT,
    AutopilotBegan,
    AutopilotEnded,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
)
from tfwatch.core.knobs import COPY_KNOBS, PREFETCH, WORKERS
from tfwatch.judge.effects.comparison import LEAST, effect_between
from tfwatch.judge.effects.interval import UNKNOWN
from tfwatch.judge.forecasts.evidence import cores_of, evidence_now
from tfwatch.judge.forecasts.forecast import forecast
from tfwatch.judge.steps.steady_steps import breakdown, steady
from tfwatch.tuner.client import Interrupt, RefusedError, settling_steps
from tfwatch.tuner.search import (
    BASE,
    BUDGET,
    MOST,
    AutopilotSearch,
    Move,
    SearchLimits,
    Stop,
    longer_begins_ms,
)

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.tuner.client import Driver
    from tfwatch.tuner.search import MakeForecast

#: The share of the available memory for buffers.
SHARE = 0.25
#: A search takes at most so many steps of the run for each settled one.
_MOST_FOR_ONE = 5
#: After so many steps of the run fewer than `BASE` do for the current setting.
_MOST_OF_BASE = 150
#: Bytes where the available memory is unknown.
_UNKNOWN = 256 * 2**20
#: The knobs that it switches.
_KNOBS = frozenset({PREFETCH, WORKERS, *COPY_KNOBS})


@dataclass(frozen=True, slots=True)
class Autopilot:
    """Finds the best values of the knobs, with buffers of a quarter of the free memory at most.

    random_draws: it tries workers also where they need consent, as a map draws random numbers.
    """

    name: ClassVar[str] = "autopilot"
    random_draws: bool = False

    def run(self, driver: Driver) -> None:
        """Run the autopilot. The run continues with the settings that are proved to help.

        Raises:
            Interrupt: the request is over before the start.
        """
        _AutopilotJob(driver, random_draws=self.random_draws).run()


class _AutopilotJob:
    def __init__(self, driver: Driver, *, random_draws: bool) -> None:
        self._driver, self._random_draws = driver, random_draws
        self._began = 0
        self._memory_bytes = math.nan
        self._search: AutopilotSearch | None = None
        #: The knobs of moves that were not kept, and may still be in effect.
        self._tried_knobs: set[str] = set()
        self._first_rows: Rows | None = None
        #: The first step of the setting that moves are compared with, and the last one before they
        #: began; 0 until then.
        self._base_first, self._base_last = 1, 0

    def run(self) -> None:
        self._begin()
        self._end(*self._outcome())

    def _begin(self) -> None:
        """Wait for a first step and for earlier requests, and take the memory limit."""
        self._driver.wait(lambda now: now.steps_total > 0 and not self._driver.is_switching)
        self._began = self._driver.snapshot.steps_total
        samples = self._driver.snapshot.samples
        available = float(samples["memory_available_bytes"][-1]) if len(samples) else math.nan
        self._memory_bytes = SHARE * available if math.isfinite(available) else _UNKNOWN
        self._driver.publish(AutopilotBegan(self._driver.now_ns(), self._began))

    def _outcome(self) -> tuple[str, str]:
        """Search to the end. Returns cause and reason; a failure undoes the open move."""
        failures: list[str] = []
        with fails_open(failures.append):
            try:
                stop = self._search_all()
                self._restore()
            except Interrupt as over:
                self._restore()
                return "over" if over.ends_run else "user", over.reason
            return stop.cause, stop.reason
        self._restore()
        return "failed", failures[0]

    def _search_all(self) -> Stop:
        switches = self._driver.snapshot.events.of(PipelineSwitched)
        settled = switches[-1].step + settling_steps(self._driver.knobs) if switches else 1
        self._base_first = max(settled, self._began - BUDGET, 1)
        rows = self._current_rows(self._base_first)
        if len(rows) < LEAST:
            few = f"fewer than {LEAST} of {BUDGET} steps were steady"
            return Stop("budget", f"{few}: epochs are short, and buffers fill most of the time")
        search = AutopilotSearch(self._driver.knobs, rows, self._limits())
        self._search, self._first_rows, make_forecast = search, rows, self._forecaster()
        while isinstance(action := search.next(make_forecast, self._steps_left()), Move):
            if self._try(search, action):
                make_forecast = self._forecaster()
        left = self._left_alone() if action.cause == "nothing_left" else ""
        return replace(action, reason=f"{action.reason}{left}")

    def _left_alone(self) -> str:
        """Return the reason why no workers were tried; empty where they could be."""
        if WORKERS in self._limits().switchable:
            return ""
        why = self._driver.snapshot.manifest.why_not_switchable(WORKERS)
        return f" (workers: {why or 'they change with an epoch, by w or tfwatch set'})"

    def _forecaster(self) -> MakeForecast:
        """Return the function that forecasts a switch from the present settings."""
        return partial(forecast, evidence_now(self._driver.snapshot))

    # -- a move -----------------------------------------------------------------------------------

    def _try(self, search: AutopilotSearch, move: Move) -> bool:
        """Make a move, judge it and publish the verdict. Returns whether it is kept; what is not
        is undone with the next move, or at the end."""
        self._driver.look()  # a run that is over gets no move
        before, after = search.now, None
        self._publish_made(move)
        undone = {knob: search.knobs[knob] for knob in self._tried_knobs}
        self._tried_knobs |= move.settings.keys()
        try:
            asked = {**undone, **move.settings}
            first = self._driver.switch(asked, AUTOPILOT, random_draws=self._random_draws)
            self._tried_knobs = set(move.settings)
            is_kept, after = self._judged(search, move, first)
            reason = search.reason
        except RefusedError as refusal:
            search.exclude(move)
            is_kept, reason = False, str(refusal)
        self._publish_judged(move, before, after, is_kept, reason)
        if is_kept:
            self._tried_knobs = set()
            self._base_first, self._base_last = first, 0
            search.measure(self._current_rows(first))
        return is_kept

    def _judged(
        self, search: AutopilotSearch, move: Move, first: int
    ) -> tuple[bool, Breakdown | None]:
        """Wait for a clear verdict. Returns it with the parts of the measured steps.

        Raises:
            Interrupt: the job is over, and no gain is proved by the steps until then.
        """
        total = first
        self._base_last = self._base_last or first - 1
        while True:
            try:
                total = self._next_total(total)
            except Interrupt as over:
                rows = self._driver.settled_rows(first)
                longer_ms = self._longer_begins_ms(first)
                if over.ends_run and search.judge(move, rows, longer_ms, last=True):
                    return True, breakdown(steady(rows))
                raise
            rows = self._driver.settled_rows(first)
            is_last = len(rows) >= MOST or self._steps_left() <= 0
            kept = search.judge(move, rows, self._longer_begins_ms(first), last=is_last)
            if kept is not None:
                return kept, breakdown(steady(rows))

    def _longer_begins_ms(self, first: int) -> float | None:
        """Return how much longer epochs take to begin since the switch at a step: see
        `longer_begins_ms`."""
        rows_between, total = self._driver.rows_between, self._driver.snapshot.steps_total
        return longer_begins_ms(
            rows_between(self._base_first, self._base_last), rows_between(first, total)
        )

    def _next_total(self, seen: int) -> int:
        """Wait for more steps than these. Returns their number."""
        return self._driver.wait(lambda now: now.steps_total > seen).steps_total

    def _steps_left(self) -> int:
        """Return how many settled steps the search may still take. A pipeline settles in each
        epoch: of 25 steps five or fewer are settled then."""
        taken = self._driver.snapshot.steps_total - self._began
        settled = len(self._driver.settled_rows(self._began))
        if settled < LEAST:
            return BUDGET - taken
        return BUDGET - max(settled, taken // _MOST_FOR_ONE)

    def _restore(self) -> None:
        """Request the kept settings of knobs that were only tried, unless the user switched
        them."""
        for knob in sorted(self._tried_knobs):
            assert self._search is not None
            self._driver.ask_final(knob, self._search.knobs[knob], AUTOPILOT)
        self._tried_knobs = set()

    # -- measuring --------------------------------------------------------------------------------

    def _current_rows(self, first: int) -> Rows:
        """Return the steady steps of the current setting from a step on; wait until they are
        enough, as long as the budget lasts: in short epochs, buffers fill most of the time."""
        while True:
            rows = steady(self._driver.settled_rows(first))
            total = self._driver.snapshot.steps_total
            is_patient = total - max(first, self._began) < _MOST_OF_BASE
            least = BASE if is_patient else LEAST
            if len(rows) >= least or self._steps_left() <= 0:
                return rows
            self._next_total(total)

    def _limits(self) -> SearchLimits:
        manifest = self._driver.snapshot.manifest
        asks = self._random_draws and manifest.needs_consent(WORKERS)
        more = {WORKERS} if asks else set()
        waits = {WORKERS} if manifest.workers_from_epoch else set()
        return SearchLimits(
            memory_bytes=self._memory_bytes,
            batch_bytes=manifest.batch_bytes,
            cores=cores_of(manifest),
            switchable=(_KNOBS & frozenset(manifest.switchable) | more) - waits,
            accelerated=manifest.accelerated,
            copy_in_call_ms=manifest.copy_in_call_ms(self._driver.knobs),
        )

    # -- the end ----------------------------------------------------------------------------------

    def _end(self, cause: str, reason: str) -> None:
        search, step = self._search, self._driver.snapshot.steps_total
        estimate = UNKNOWN
        if search and search.changed and self._first_rows is not None:
            accelerated = self._driver.snapshot.manifest.accelerated
            effect = effect_between(self._first_rows, search.rows, search.changed, accelerated)
            estimate = effect.estimate if effect else UNKNOWN
        known = search.knobs if search and cause != "over" else self._driver.knobs
        self._driver.publish(
            AutopilotEnded(
                self._driver.now_ns(),
                step,
                cause,
                reason,
                step - self._began,
                before_ms=search.first.step.mean if search else None,
                after_ms=search.now.step.mean if search else None,
                knobs=dict(known),
                **estimate.event_fields(),
            )
        )

    # -- events -----------------------------------------------------------------------------------

    def _publish_made(self, move: Move) -> None:
        known = move.forecast
        self._driver.publish(
            MoveMade(
                self._driver.now_ns(),
                self._driver.snapshot.steps_total,
                move.changes,
                forecast_ms=known.step_ms if known and known.is_known else None,
            )
        )

    def _publish_judged(
        self, move: Move, before: Breakdown, after: Breakdown | None, is_kept: bool, reason: str
    ) -> None:
        self._driver.publish(
            MoveJudged(
                self._driver.now_ns(),
                self._driver.snapshot.steps_total,
                move.changes,
                before.step.mean,
                after_ms=after.step.mean if after else None,
                steps=after.steps if after else 0,
                kept=is_kept,
                reason=reason,
            )
        )
