"""The autopilot: makes one move after another, keeps those that help, and stops when no gain is
left.

`judge.autopilot.search` decides; this module requests the switches, waits for them and
publishes events.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from tfwatch.core import units
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
    from collections.abc import Callable

    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.before_after import SwitchEffect
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.tuner.driver import Driver
    from tfwatch.tuner.jobs import Autopilot

_Event = TypeVar("_Event", PipelineSwitched, SwitchFailed)
#: The share of the available memory for buffers where the request has no limit.
SHARE = 0.25
#: Bytes where the available memory is unknown.
_UNKNOWN = 256 * 2**20
#: Looks at the run until a completed step is visible; the most steps reserved for that.
_LOOKS, _MOST_SPARED = 3, 60
#: The ends after which what was kept must be proved as a whole: nobody asked for them.
_JUDGED = ("not_starving", "nothing_left", "budget")
#: The knobs that it switches.
_KNOBS = frozenset({PREFETCH, WORKERS, CACHE, DEVICE_PREFETCH})


def run(driver: Driver, request: Autopilot) -> None:
    """Run the autopilot. The run continues with the settings that helped.

    Raises:
        Interrupt: the request is over before the start.
    """
    _AutopilotJob(driver, request).run()


class _BudgetSpentError(Exception):
    """The budget of steps is used up."""


class _AutopilotJob:
    def __init__(self, driver: Driver, request: Autopilot) -> None:
        self._driver = driver
        self._request = request
        self._began = driver.snapshot.steps_total
        self._memory_bytes = self._had_bytes = self._peak_bytes = math.nan
        self._search_state: AutopilotSearch | None = None
        self._open_move: Move | None = None
        self._first_rows: Rows | None = None
        self._kept_rows: Rows | None = None
        self._seen = self._unseen = 0

    def run(self) -> None:
        self._begin()
        cause, reason = self._outcome()
        self._end(cause, reason)

    def _outcome(self) -> tuple[str, str]:
        """Search to the end. Returns cause and reason; a failure undoes the open move."""
        failures: list[str] = []
        with fails_open(failures.append):
            try:
                stop = self._search()
            except Interrupt as over:
                return self._cancel(over.cause), over.reason
            return stop.cause, stop.reason
        self._take_back("the autopilot failed")
        return "failed", failures[0]

    def _begin(self) -> None:
        """Wait for a first step and for earlier requests, and publish the memory limit."""
        self._driver.wait(
            lambda snapshot: snapshot.steps_total > 0 and not self._driver.is_switching
        )
        self._began = self._driver.snapshot.steps_total
        available = self._sampled("memory_available_bytes")
        share = SHARE * available if math.isfinite(available) else _UNKNOWN
        self._memory_bytes = (
            share if self._request.memory_bytes is None else self._request.memory_bytes
        )
        self._driver.publish(AutopilotBegan(self._driver.now_ns(), self._began, self._memory_bytes))

    def _search(self) -> Stop:
        try:
            first = self._first()
        except _BudgetSpentError:
            few = f"fewer than {LEAST} of {BUDGET} steps were steady"
            return Stop("budget", f"{few}: epochs are short, and buffers fill most of the time")
        self._search_state = search = AutopilotSearch(self._driver.knobs, first)
        self._had_bytes, self._seen = (
            self._sampled("process_bytes"),
            self._driver.snapshot.steps_total,
        )
        make_forecast = make_forecaster(self._driver)
        while True:
            action = search.next(make_forecast, self._limits())
            if isinstance(action, Stop):
                return action
            try:
                kept = self._try(search, action)
            except _BudgetSpentError:
                return Stop(
                    "budget",
                    f"all {BUDGET} steps were used before another move was judged",
                )
            if kept:
                make_forecast = make_forecaster(self._driver)

    # -- a move -----------------------------------------------------------------------------------

    def _try(self, search: AutopilotSearch, move: Move) -> bool:
        """Make a move, judge it and publish the result. Returns whether it is kept."""
        before = search.now
        publish_made(self._driver, move)
        self._open_move = move
        try:
            first = self._settled(move, search)
            kept, reason, after = self._judged(search, move, first)
        except RefusedError as refusal:
            search.exclude(move)
            kept, reason, after = False, str(refusal), None
            self._open_move = move if move.beside else None
        except _BudgetSpentError:
            reason = "all steps were used before it took effect"
            publish_judged(self._driver, move, before, None, False, reason)
            self._take_back(reason)
            raise
        publish_judged(self._driver, move, before, after, kept, reason)
        if not kept:
            self._take_back(reason)
        self._open_move = None
        return kept

    def _settled(self, move: Move, search: AutopilotSearch) -> int:
        """Request a move and wait until it is in effect. Returns the first step to judge it by."""
        known_events = len(self._driver.snapshot.events)
        turned, setting_of = move.settings_after(search.knobs), self._driver.knobs
        # Also an undone move that is not in effect yet: where it was refused, it never would be.
        due = {change.knob for change in move.changes} | {
            knob for knob in _KNOBS & turned.keys() if turned[knob] != setting_of[knob]
        }
        for knob in sorted(due):
            self._driver.ask(knob, turned[knob], AUTOPILOT)
        self._wait(
            lambda _: self._driver.knobs == turned or bool(self._since(known_events, SwitchFailed)),
            move,
        )
        for failed in self._since(known_events, SwitchFailed):
            raise RefusedError(failed.reason)
        # A knob whose last move is undone in the same switch as its next one is not switched.
        steps = [switched.step for switched in self._since(known_events, PipelineSwitched)]
        return max(steps, default=self._driver.snapshot.steps_total) + settling_steps(turned)

    def _since(self, known_events: int, kind: type[_Event]) -> list[_Event]:
        """Return the events of a kind after the known ones."""
        return [
            event
            for event in self._driver.snapshot.events[known_events:]
            if isinstance(event, kind)
        ]

    def _judged(
        self, search: AutopilotSearch, move: Move, first: int
    ) -> tuple[bool, str, Measurement | None]:
        """Wait for a clear verdict. Returns whether the move is kept, the reason, and the
        measurement."""
        seen = 0
        while True:
            total = self._driver.wait(
                lambda snapshot, seen=seen: snapshot.steps_total > seen  # type: ignore[misc]
            ).steps_total
            seen, rows = total, self._counted(first)
            if self._is_over_memory():
                search.exclude(move)
                return (
                    False,
                    f"over the memory limit: {units.gigabytes(self._peak_bytes)} more than before",
                    measure(rows),
                )
            last = len(rows) >= MOST or self._is_spent(move)
            verdict = search.judge(move, rows, last=last)
            if verdict:
                self._kept_rows = rows
            if verdict is not None:
                return verdict, search.reason, measure(rows)

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
        assert self._search_state is not None
        done = self._driver.snapshot.steps_total
        self._unseen, self._seen = max(self._unseen, done - self._seen), done
        spared = _LOOKS * POLL_S * 1e3 / max(self._search_state.now.step_ms, 1e-3)
        spared = max(min(spared, _MOST_SPARED), min(self._unseen, 2 * _MOST_SPARED))
        limits = self._limits()
        return limits.steps <= limits.buffered_steps(
            move.settings_after(self._search_state.knobs)
        ) + math.ceil(spared)

    def _take_back(self, why: str) -> None:
        """Request the settings before the open move. They take effect with the next move, or
        alone."""
        changes = self._back()
        if changes:
            publish_made(self._driver, Move(changes, why), undoes=True)
        self._ask_final(changes)

    def _back(self) -> tuple[KnobChange, ...]:
        """Close the open move. Returns the changes that undo it, without knobs that the user
        switched since."""
        move, self._open_move = self._open_move, None
        return (
            tuple(
                change.back
                for change in move.changes
                if not self._driver.is_changed_by_user(change.knob)
            )
            if move
            else ()
        )

    def _ask_final(self, changes: tuple[KnobChange, ...]) -> None:
        for change in changes:
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
            self._driver.wait(lambda snapshot, total=total: snapshot.steps_total > total)  # type: ignore[misc]

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

    def _sampled(self, column: str) -> float:
        samples = self._driver.snapshot.samples
        return float(samples[column][-1]) if len(samples) else math.nan

    def _is_over_memory(self) -> bool:
        """Return whether the process has grown by more than the limit, by its newest sample."""
        grown = self._sampled("process_bytes") - self._had_bytes
        if math.isfinite(grown):
            self._peak_bytes = (
                max(grown, self._peak_bytes) if math.isfinite(self._peak_bytes) else grown
            )
        return grown > self._memory_bytes

    # -- the end ---------------------------------------------------------------------------------

    def _cancel(self, cause: str) -> str:
        """Undo the move that was not judged yet, unless the user switched its knob. Returns the
        cause of the end."""
        if cause not in ("key", "cancelled"):
            return "over"
        self._take_back("it was not judged yet")
        return "user"

    def _end(self, cause: str, reason: str) -> None:
        search, effect = self._search_state, self._effect()
        is_left = bool(search and search.changed) and (
            cause not in _JUDGED or (effect is not None and _is_proved(effect))
        )
        if search and search.changed and not is_left:
            self._restore(search)
            reason = "the gain of all moves together is not proved"
        step, last = (
            self._driver.snapshot.steps_total,
            search and (search.now if is_left else search.first),
        )
        known = effect.estimate if effect and is_left else UNKNOWN
        self._driver.publish(
            AutopilotEnded(
                self._driver.now_ns(),
                step,
                cause,
                reason,
                step - self._began,
                search.first.step_ms if search else None,
                last.step_ms if last else None,
                search.first.wait_share if search else None,
                last.wait_share if last else None,
                self._peak_bytes if math.isfinite(self._peak_bytes) else None,
                self._left_knobs(is_left),
                **known.event_fields(),
            )
        )

    def _left_knobs(self, is_left: bool) -> dict[str, str]:
        """Return the settings that the run continues with."""
        search = self._search_state
        if search is None:
            return self._driver.knobs
        return dict(search.knobs if is_left else search.start)

    def _restore(self, search: AutopilotSearch) -> None:
        """Request the settings of the start for all knobs that the user did not switch since."""
        changes = tuple(
            KnobChange(knob, search.knobs[knob], search.start[knob])
            for knob in sorted(search.changed)
            if not self._driver.is_changed_by_user(knob)
        )
        if changes:
            publish_made(self._driver, Move(changes, "the gain is not proved"), undoes=True)
        self._ask_final(changes)

    def _effect(self) -> SwitchEffect | None:
        """Return the steps of the final setting against those before the first move; None where no
        move was kept."""
        search = self._search_state
        if search is None or not search.changed:
            return None
        if self._first_rows is None or self._kept_rows is None:
            return None
        accelerated = self._driver.snapshot.manifest.accelerated
        return effect_between(self._first_rows, self._kept_rows, search.changed, accelerated)


def _is_proved(effect: SwitchEffect) -> bool:
    """Return whether the gain clears 2 % with its whole interval."""
    return effect.estimate.low > 1 + LEAST_GAIN


def publish_made(driver: Driver, move: Move, *, undoes: bool = False) -> None:
    """Publish a requested move. undoes: it undoes the one before."""
    forecast = move.forecast if move.forecast and move.forecast.is_known else None
    driver.publish(
        MoveMade(
            driver.now_ns(),
            driver.snapshot.steps_total,
            move.knob,
            move.old,
            move.new,
            move.why,
            forecast.step_ms if forecast else None,
            forecast.low_ms if forecast else None,
            forecast.high_ms if forecast else None,
            undoes,
            move.beside,
        )
    )


def _switchable(manifest: Manifest) -> frozenset[str]:
    """Return the knobs that it may switch."""
    waits = {WORKERS} if manifest.workers_from_epoch else set()
    return (_KNOBS & frozenset(manifest.switchable)) - waits


def publish_judged(
    driver: Driver,
    move: Move,
    before: Measurement,
    after: Measurement | None,
    kept: bool,
    reason: str,
) -> None:
    """Publish the verdict of a move. after: None where there were not enough steps."""
    forecast = move.forecast if move.forecast and move.forecast.is_known else None
    driver.publish(
        MoveJudged(
            driver.now_ns(),
            driver.snapshot.steps_total,
            move.knob,
            move.old,
            move.new,
            before.step_ms,
            after.step_ms if after else None,
            after.steps if after else 0,
            kept,
            reason,
            forecast.step_ms if forecast else None,
            move.beside,
        )
    )
