"""The autopilot: makes one move after another, keeps what is proved to help, and stops when no gain
is left.

`judge.autopilot.search` decides; this module requests the switches, waits for them and publishes
events.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tfwatch.core.errors import fails_open
from tfwatch.core.events import (
    AUTOPILOT,
    AutopilotBegan,
    AutopilotEnded,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
    SwitchFailed,
)
from tfwatch.core.knobs import CACHE, DEVICE_PREFETCH, PREFETCH, WORKERS, KnobChange
from tfwatch.judge.autopilot.measurement import Measurement, measure, settling_steps
from tfwatch.judge.autopilot.moves import BUDGET, LEAST, MOST, Move, SearchLimits, Stop
from tfwatch.judge.autopilot.search import LEAST_GAIN, AutopilotSearch
from tfwatch.judge.effects.comparison import LONGEST, effect_between
from tfwatch.judge.effects.experiment import UNKNOWN
from tfwatch.judge.forecasts.evidence import cores_of
from tfwatch.tuner.driver import POLL_S, Interrupt, RefusedError, make_forecaster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.before_after import SwitchEffect
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.tuner.driver import Autopilot, Driver

#: The share of the available memory for buffers where the request has no limit.
SHARE = 0.25
#: Bytes where the available memory is unknown.
_UNKNOWN = 256 * 2**20
#: Looks at the run until a completed step is visible; the most steps reserved for that.
_LOOKS, _MOST_SPARED = 3, 60
#: The knobs that it switches.
_KNOBS = frozenset({PREFETCH, WORKERS, CACHE, DEVICE_PREFETCH})
#: The ends after which what was kept must be proved as a whole: nobody asked for them.
_JUDGED = ("not_starving", "nothing_left", "budget")
#: The most steps that are measured for that proof, and those between two looks at it.
PROOF, _LOOK_EVERY = 200, 20


def run(driver: Driver, request: Autopilot) -> None:
    """Run the autopilot. The run continues with the settings that are proved to help.

    Raises:
        Interrupt: the request is over before the start.
    """
    _AutopilotJob(driver, request).run()


class _BudgetSpentError(Exception):
    """The budget of steps is used up."""


class _Verdict(NamedTuple):
    """Of a move. after: None where there were not enough steps."""

    kept: bool
    reason: str
    after: Measurement | None = None


class _AutopilotJob:
    def __init__(self, driver: Driver, request: Autopilot) -> None:
        self._driver = driver
        self._request = request
        self._began = driver.snapshot.steps_total
        self._memory_bytes = math.nan
        self._search: AutopilotSearch | None = None
        self._open_move: Move | None = None
        self._first_rows: Rows | None = None
        self._kept_rows: Rows | None = None
        self._seen = self._unseen = 0

    def run(self) -> None:
        self._begin()
        self._end(*self._outcome())

    def _begin(self) -> None:
        """Wait for a first step and for earlier requests, and publish the memory limit."""
        self._driver.wait(lambda now: now.steps_total > 0 and not self._driver.is_switching)
        self._began = self._seen = self._driver.snapshot.steps_total
        samples = self._driver.snapshot.samples
        available = float(samples["memory_available_bytes"][-1]) if len(samples) else math.nan
        share = SHARE * available if math.isfinite(available) else _UNKNOWN
        limit = self._request.memory_bytes
        self._memory_bytes = share if limit is None else limit
        self._driver.publish(AutopilotBegan(self._driver.now_ns(), self._began, self._memory_bytes))

    def _outcome(self) -> tuple[str, str]:
        """Search to the end. Returns cause and reason; a failure undoes the open move."""
        failures: list[str] = []
        with fails_open(failures.append):
            try:
                stop = self._search_all()
                self._prove()
            except Interrupt as over:
                return self._cancel(over.cause), over.reason
            return stop.cause, stop.reason
        self._take_back()
        return "failed", failures[0]

    def _search_all(self) -> Stop:
        try:
            first = self._first()
        except _BudgetSpentError:
            few = f"fewer than {LEAST} of {BUDGET} steps were steady"
            return Stop("budget", f"{few}: epochs are short, and buffers fill most of the time")
        self._search = search = AutopilotSearch(self._driver.knobs, first)
        try:
            while True:
                action = search.next(make_forecaster(self._driver, search.knobs), self._limits())
                if isinstance(action, Stop):
                    return action
                self._try(search, action)
        except _BudgetSpentError:
            return Stop("budget", f"all {BUDGET} steps were used before another move was judged")

    # -- a move -----------------------------------------------------------------------------------

    def _try(self, search: AutopilotSearch, move: Move) -> None:
        """Make a move, judge it, publish the verdict, and undo what is not kept."""
        before = search.now
        self._publish_made(move)
        self._open_move = move
        try:
            verdict = self._judged(search, move, self._settled(move, search))
        except RefusedError as refusal:
            search.exclude(move)
            verdict = _Verdict(False, str(refusal))
            self._open_move = move if move.beside else None
        except _BudgetSpentError:
            verdict = _Verdict(False, "all steps were used before it took effect")
            self._publish_judged(move, before, verdict)
            self._take_back()
            raise
        self._publish_judged(move, before, verdict)
        if not verdict.kept:
            self._take_back()
        self._open_move = None

    def _settled(self, move: Move, search: AutopilotSearch) -> int:
        """Request a move and wait until it is in effect. Returns the first step to judge it by."""
        known = len(self._driver.snapshot.events)
        turned, now = move.settings_after(search.knobs), self._driver.knobs
        # Also an undone move that is not in effect yet: where it was refused, it never would be.
        due = {change.knob for change in move.changes}
        due |= {knob for knob in _KNOBS & turned.keys() if turned[knob] != now[knob]}
        for knob in sorted(due):
            self._driver.ask(knob, turned[knob], AUTOPILOT)
        self._wait(lambda _: self._driver.knobs == turned or bool(self._failures(known)), move)
        for failed in self._failures(known):
            raise RefusedError(failed.reason)
        # A knob whose last move is undone in the same switch as its next one is not switched.
        new = self._driver.snapshot.events[known:]
        steps = [event.step for event in new if isinstance(event, PipelineSwitched)]
        return max(steps, default=self._driver.snapshot.steps_total) + settling_steps(turned)

    def _failures(self, known: int) -> list[SwitchFailed]:
        """Return the switches that failed after this many events."""
        new = self._driver.snapshot.events[known:]
        return [event for event in new if isinstance(event, SwitchFailed)]

    def _judged(self, search: AutopilotSearch, move: Move, first: int) -> _Verdict:
        """Wait for a clear verdict."""
        seen = 0
        while True:
            seen, rows = self._next_total(seen), self._counted(first)
            kept = search.judge(move, rows, last=len(rows) >= MOST or self._is_spent(move))
            if kept is not None:
                self._kept_rows = rows if kept else self._kept_rows
                return _Verdict(kept, search.reason, measure(rows))

    def _next_total(self, seen: int) -> int:
        """Wait for more steps than these. Returns their number."""
        return self._driver.wait(lambda now: now.steps_total > seen).steps_total

    def _wait(self, until: Callable[[Snapshot], bool], move: Move) -> None:
        """Look at the run until a condition holds.

        Raises:
            _BudgetSpentError: no steps are left to make the move, or to undo it.
        """
        self._driver.wait(lambda snapshot: until(snapshot) or self._is_spent(move))
        if not until(self._driver.snapshot):
            raise _BudgetSpentError

    def _is_spent(self, move: Move) -> bool:
        """Return whether the rest of the budget is only enough to undo a move."""
        assert self._search is not None
        done = self._driver.snapshot.steps_total
        self._unseen, self._seen = max(self._unseen, done - self._seen), done
        spared = _LOOKS * POLL_S * 1e3 / max(self._search.now.step_ms, 1e-3)
        spared = max(min(spared, _MOST_SPARED), min(self._unseen, 2 * _MOST_SPARED))
        limits, after = self._limits(), move.settings_after(self._search.knobs)
        return limits.steps <= limits.buffered_steps(after) + math.ceil(spared)

    def _take_back(self) -> None:
        """Request the settings before the open move. They take effect with the next move, or
        alone."""
        move, self._open_move = self._open_move, None
        self._restore((change.back for change in move.changes) if move else ())

    def _restore(self, changes: Iterable[KnobChange]) -> None:
        """Request earlier settings, but for knobs that the user has switched since."""
        own = [one for one in changes if not self._driver.is_changed_by_user(one.knob)]
        if own:
            self._publish_made(Move(tuple(own)), undoes=True)
        for change in own:
            self._driver.ask_final(change.knob, change.new, AUTOPILOT)

    # -- measuring --------------------------------------------------------------------------------

    def _first(self) -> Measurement:
        """Measure the current setting by its newest steps; wait for enough of them.

        Raises:
            _BudgetSpentError: the budget is too small: with short epochs, buffers fill most of the
            time.
        """
        switches = self._driver.snapshot.events.of(PipelineSwitched)
        since = switches[-1].step + settling_steps(self._driver.knobs) if switches else 1
        while True:
            total = self._driver.snapshot.steps_total
            measured = measure(self._counted(max(since, total - BUDGET))[-MOST:])
            if measured is not None and measured.steps >= LEAST:
                self._first_rows = self._counted(max(since, total - LONGEST))
                return measured
            if total - self._began >= BUDGET:
                raise _BudgetSpentError
            self._next_total(total)

    def _counted(self, first: int) -> Rows:
        """Return the rows from a step on, without those in which a new pipeline settles."""
        return self._driver.settled_rows(first, settling_steps(self._driver.knobs))

    def _limits(self) -> SearchLimits:
        snapshot, manifest = self._driver.snapshot, self._driver.snapshot.manifest
        latest, per_epoch = snapshot.latest, manifest.steps_per_epoch
        made = [
            one
            for one in snapshot.events.of(PipelineSwitched)
            if one.by == AUTOPILOT and one.knob != CACHE
        ]
        return SearchLimits(
            memory_bytes=self._memory_bytes,
            batch_bytes=manifest.batch_bytes,
            cores=cores_of(manifest),
            switchable=_switchable(manifest),
            accelerated=manifest.accelerated,
            steps=BUDGET - (snapshot.steps_total - self._began),
            epoch_steps=max(2 * per_epoch - latest.epoch_step, 0) if latest and per_epoch else None,
            switch_steps=max((one.step - one.asked_step for one in made), default=0),
        )

    # -- the end ---------------------------------------------------------------------------------

    def _cancel(self, cause: str) -> str:
        """Undo the move that was not judged yet, unless the user switched its knob. Returns the
        cause of the end."""
        if cause not in ("key", "cancelled"):
            return "over"
        self._take_back()
        return "user"

    def _end(self, cause: str, reason: str) -> None:
        search, effect = self._search, self._effect(self._kept_rows)
        is_left = search is not None and bool(search.changed)
        if search and is_left and cause in _JUDGED and not self._is_proved(effect):
            changes = (KnobChange(k, search.knobs[k], search.start[k]) for k in search.changed)
            self._restore(sorted(changes, key=lambda one: one.knob))
            reason, is_left = "the gain of all moves together is not proved", False
        last, knobs = None, self._driver.knobs
        if search:
            last = search.now if is_left else search.first
            knobs = search.knobs if is_left else search.start
        step = self._driver.snapshot.steps_total
        self._driver.publish(
            AutopilotEnded(
                self._driver.now_ns(),
                step,
                cause,
                reason,
                step - self._began,
                before_ms=search.first.step_ms if search else None,
                after_ms=last.step_ms if last else None,
                before_share=search.first.wait_share if search else None,
                after_share=last.wait_share if last else None,
                knobs=dict(knobs),
                **(effect.estimate if effect and is_left else UNKNOWN).event_fields(),
            )
        )

    def _prove(self) -> None:
        """Measure on with the final settings until their gain is proved, for `PROOF` steps at
        most."""
        search = self._search
        if search is None or not search.changed or self._is_proved(self._effect(self._kept_rows)):
            return
        last = self._driver.snapshot.steps_total + PROOF
        self._driver.wait(lambda now: self._driver.knobs == search.knobs or now.steps_total >= last)
        total = self._driver.snapshot.steps_total
        first = total + settling_steps(search.knobs)
        while total < last and not self._is_proved(self._effect(self._kept_rows)):
            total = self._next_total(min(total + _LOOK_EVERY, last) - 1)
            rows = self._counted(first)
            self._kept_rows = rows if len(rows) > LEAST else self._kept_rows

    def _effect(self, after: Rows | None) -> SwitchEffect | None:
        """Compare steps of the final settings with those before the first move; None for too
        few."""
        if self._search is None or self._first_rows is None or after is None:
            return None
        accelerated = self._driver.snapshot.manifest.accelerated
        return effect_between(self._first_rows, after, self._search.changed, accelerated)

    def _is_proved(self, effect: SwitchEffect | None) -> bool:
        """Return whether the step, or the data wait in it, is shorter by 2 % with its whole
        interval."""
        if effect is None or self._search is None:
            return False
        saved_ms = -effect.wait.high_ms if effect.estimate.ratio > 1 + LEAST_GAIN else 0.0
        is_fed = saved_ms > LEAST_GAIN * self._search.first.step_ms
        return effect.estimate.low > 1 + LEAST_GAIN or is_fed

    # -- events -----------------------------------------------------------------------------------

    def _publish_made(self, move: Move, *, undoes: bool = False) -> None:
        """Publish a requested move. undoes: it undoes the one before."""
        forecast = move.forecast
        self._driver.publish(
            MoveMade(
                self._driver.now_ns(),
                self._driver.snapshot.steps_total,
                *(move.knob, move.old, move.new),
                forecast_ms=forecast.step_ms if forecast and forecast.is_known else None,
                undoes=undoes,
                beside=move.beside,
            )
        )

    def _publish_judged(self, move: Move, before: Measurement, verdict: _Verdict) -> None:
        """Publish the verdict of a move."""
        forecast, after = move.forecast, verdict.after
        self._driver.publish(
            MoveJudged(
                self._driver.now_ns(),
                self._driver.snapshot.steps_total,
                *(move.knob, move.old, move.new, before.step_ms),
                after_ms=after.step_ms if after else None,
                steps=after.steps if after else 0,
                kept=verdict.kept,
                reason=verdict.reason,
                forecast_ms=forecast.step_ms if forecast and forecast.is_known else None,
                beside=move.beside,
            )
        )


def _switchable(manifest: Manifest) -> frozenset[str]:
    """Return the knobs that it may switch."""
    waits = {WORKERS} if manifest.workers_from_epoch else set()
    return (_KNOBS & frozenset(manifest.switchable)) - waits
