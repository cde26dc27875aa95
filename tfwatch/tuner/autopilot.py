"""Feeds the device by itself: turns one knob after another, keeps what helps, and stops when there is no more to gain.

What comes next and whether it helped is decided in `analysis.walk`; here it is asked, waited for and told.

The autopilot's moves as events.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from tfwatch.analysis.tuning import autopilot_moves
from tfwatch.analysis.tuning.autopilot_moves import LEAST, MOST, Limits, Move, Stop
from tfwatch.analysis.tuning.autopilot_search import AutopilotSearch
from tfwatch.analysis.tuning.estimator import Measurement, measure
from tfwatch.analysis.tuning.evidence import cores_of
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
from tfwatch.core.knobs import KnobChange, as_value
from tfwatch.tuner.driver import POLL_S, Interrupt, RefusedError, make_forecaster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.rows import Rows
    from tfwatch.runs.control import Autopilot
    from tfwatch.runs.reader import Snapshot
    from tfwatch.tuner.driver import Driver

_Event = TypeVar("_Event", PipelineSwitched, SwitchFailed)
#: Of the memory that is available, buffers may take this share where the order names none.
SHARE = 0.25
#: Bytes where nobody knows what is available.
_UNKNOWN = 256 * 2**20
#: Looks at the run until a step that was done is seen by, and steps that are spared for that at most.
_LOOKS, _MOST_SPARED = 3, 60
#: What it turns. Simulated latency is what the storage is taken to be, and a shuffle buffer is a promise of order.
_TURNS = frozenset({"prefetch", "workers", "fast_form", "cache"})


def run(driver: Driver, request: Autopilot) -> None:
    """Carry the order out and tell what came of it. The run goes on with what was found to help.

    Raises:
        Interrupt: the order is over before it began.
    """
    _AutopilotJob(driver, request).run()


class _SpentError(Exception):
    """The steps that it may take are used up."""


class _AutopilotJob:
    def __init__(self, driver: Driver, request: Autopilot) -> None:
        self._driver = driver
        self._request = request
        self._began = driver.snapshot.steps_total
        self._memory_bytes = self._had_bytes = self._peak_bytes = math.nan
        self._search_state: AutopilotSearch | None = None
        self._open_move: Move | None = None
        self._seen = self._unseen = 0

    def run(self) -> None:
        self._begin()
        cause, reason = self._outcome()
        self._end(cause, reason)

    def _outcome(self) -> tuple[str, str]:
        """Search to the end: its cause and its reason. Whatever fails, the open move is taken back."""
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
        """Wait for a first step and for what was asked for before, and say what memory may be used."""
        self._driver.wait(lambda snapshot: snapshot.steps_total > 0 and not self._driver.is_switching)
        self._began = self._driver.snapshot.steps_total
        available = self._sampled("memory_available_bytes")
        share = SHARE * available if math.isfinite(available) else _UNKNOWN
        self._memory_bytes = share if self._request.memory_bytes is None else self._request.memory_bytes
        self._driver.publish(AutopilotBegan(self._driver.now_ns(), self._began, self._memory_bytes))

    def _search(self) -> Stop:
        try:
            first = self._first()
        except _SpentError:
            few = f"of {autopilot_moves.BUDGET} steps fewer than {LEAST} were ordinary ones"
            return Stop("budget", f"{few}: where epochs are short, buffers fill most of the time")
        self._search_state = search = AutopilotSearch(self._driver.knobs, first)
        self._had_bytes, self._seen = self._sampled("process_bytes"), self._driver.snapshot.steps_total
        make_forecast = make_forecaster(self._driver)
        while True:
            action = search.next(make_forecast, self._limits())
            if isinstance(action, Stop):
                return action
            try:
                kept = self._try(search, action)
            except _SpentError:
                return Stop(
                    "budget", f"its {autopilot_moves.BUDGET} steps were used up before another switch could be judged"
                )
            if kept:
                make_forecast = make_forecaster(self._driver)

    # -- a move -----------------------------------------------------------------------------------

    def _try(self, search: AutopilotSearch, move: Move) -> bool:
        """Make a move, wait for what comes of it and tell; says whether it is kept."""
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
        except _SpentError:
            reason = "the steps were used up before it took effect"
            publish_judged(self._driver, move, before, None, False, reason)
            self._take_back(reason)
            raise
        publish_judged(self._driver, move, before, after, kept, reason)
        if not kept:
            self._take_back(reason)
        self._open_move = None
        return kept

    def _settled(self, move: Move, search: AutopilotSearch) -> int:
        """Ask for a move and wait for it to take effect. Returns the first step to judge it by."""
        known_events = len(self._driver.snapshot.events)
        turned, setting_of = move.settings_after(search.knobs), self._driver.knobs
        # Also what was taken back before and does not stand yet: where that was refused, it never would.
        due = {change.knob for change in move.changes} | {
            knob for knob in _TURNS & turned.keys() if turned[knob] != setting_of[knob]
        }
        for knob in sorted(due):
            self._driver.ask(knob, as_value(knob, turned[knob]), AUTOPILOT)
        self._wait(lambda _: self._driver.knobs == turned or bool(self._since(known_events, SwitchFailed)), move)
        for failed in self._since(known_events, SwitchFailed):
            raise RefusedError(failed.reason)
        # A knob whose last move is taken back in the same switch as it is turned again is not switched at all.
        steps = [switched.step for switched in self._since(known_events, PipelineSwitched)]
        return max(steps, default=self._driver.snapshot.steps_total) + autopilot_moves.settling_steps(turned)

    def _since(self, known_events: int, kind: type[_Event]) -> list[_Event]:
        """The events of a kind after so many."""
        return [event for event in self._driver.snapshot.events[known_events:] if isinstance(event, kind)]

    def _judged(self, search: AutopilotSearch, move: Move, first: int) -> tuple[bool, str, Measurement | None]:
        """Wait until it is clear. Returns whether the move is kept, what that rests on, and what came."""
        seen = 0
        while True:
            total = self._driver.wait(lambda snapshot, seen=seen: snapshot.steps_total > seen).steps_total  # type: ignore[misc]
            seen, rows = total, self._counted(first)
            if self._is_over_memory():
                search.exclude(move)
                return False, f"memory: {units.gigabytes(self._peak_bytes)} more than before", measure(rows)
            last = len(rows) >= MOST or self._is_spent(move)
            verdict = search.judge(move, rows, last=last)
            if verdict is not None:
                return verdict, search.reason, measure(rows)

    def _wait(self, until: Callable[[Snapshot], bool], move: Move) -> None:
        """Look until something holds.

        Raises:
            _SpentError: no steps are left to make the move in, or to take it back.
        """
        self._driver.wait(lambda snapshot: until(snapshot) or self._is_spent(move))
        if not until(self._driver.snapshot):
            raise _SpentError

    def _is_spent(self, move: Move) -> bool:
        """Whether what is left of its steps is what it takes to take a move back."""
        assert self._search_state is not None
        done = self._driver.snapshot.steps_total
        self._unseen, self._seen = max(self._unseen, done - self._seen), done
        spared = _LOOKS * POLL_S * 1e3 / max(self._search_state.now.step_ms, 1e-3)
        spared = max(min(spared, _MOST_SPARED), min(self._unseen, 2 * _MOST_SPARED))
        limits = self._limits()
        return limits.steps <= limits.buffered_steps(move.settings_after(self._search_state.knobs)) + math.ceil(spared)

    def _take_back(self, why: str) -> None:
        """Ask for what stood before the open move. It comes with the next move, or by itself."""
        changes = self._back()
        if changes:
            publish_made(self._driver, Move(changes, why), undoes=True)
        self._ask_final(changes)

    def _back(self) -> tuple[KnobChange, ...]:
        """What takes the open move back, and it is open no more; not what somebody else turned since."""
        move, self._open_move = self._open_move, None
        return tuple(change.back for change in move.changes if not self._driver.is_changed_by_user(change.knob)) if move else ()

    def _ask_final(self, changes: tuple[KnobChange, ...]) -> None:
        for change in changes:
            self._driver.ask_final(change.knob, as_value(change.knob, change.new), AUTOPILOT)

    # -- what it sees -----------------------------------------------------------------------------

    def _first(self) -> Measurement:
        """The newest steps of the present setting that count: those that there are, or as many as it takes.

        Raises:
            _SpentError: that takes more steps than there are: where epochs are short, buffers fill most of the time.
        """
        switches = self._driver.snapshot.events.of(PipelineSwitched)
        since = switches[-1].step + autopilot_moves.settling_steps(self._driver.knobs) if switches else 1
        while True:
            total = self._driver.snapshot.steps_total
            found = measure(self._counted(max(since, total - autopilot_moves.BUDGET))[-MOST:])
            if found is not None and found.steps >= LEAST:
                return found
            if total - self._began >= autopilot_moves.BUDGET:
                raise _SpentError
            self._driver.wait(lambda snapshot, total=total: snapshot.steps_total > total)  # type: ignore[misc]

    def _counted(self, first: int) -> Rows:
        """The rows from a step on, without those in which a pipeline that begins anew settles."""
        return self._driver.settled_rows(first, autopilot_moves.settling_steps(self._driver.knobs))

    def _limits(self) -> Limits:
        snapshot, manifest = self._driver.snapshot, self._driver.snapshot.manifest
        latest, per_epoch = snapshot.latest, manifest.steps_per_epoch
        switches = [
            made for made in snapshot.events.of(PipelineSwitched) if made.by == AUTOPILOT and made.knob != "cache"
        ]
        return Limits(
            memory_bytes=self._memory_bytes,
            batch_bytes=manifest.batch_bytes,
            cores=cores_of(manifest),
            switchable=_TURNS & frozenset(manifest.switchable),
            accelerated=manifest.accelerated,
            steps=autopilot_moves.BUDGET - (snapshot.steps_total - self._began),
            epoch_steps=max(2 * per_epoch - latest.epoch_step, 0) if latest and per_epoch else None,
            switch_steps=max((made.step - made.asked_step for made in switches), default=0),
        )

    def _sampled(self, column: str) -> float:
        samples = self._driver.snapshot.samples
        return float(samples[column][-1]) if len(samples) else math.nan

    def _is_over_memory(self) -> bool:
        """Whether the process took more than the limit since the start, by its newest sample."""
        grown = self._sampled("process_bytes") - self._had_bytes
        if math.isfinite(grown):
            self._peak_bytes = max(grown, self._peak_bytes) if math.isfinite(self._peak_bytes) else grown
        return grown > self._memory_bytes

    # -- the end ---------------------------------------------------------------------------------

    def _cancel(self, cause: str) -> str:
        """The order is over before its end: what was not judged yet is taken back, unless somebody turned that knob."""
        if cause not in ("key", "cancelled"):
            # A run that ends obeys no more, but one that it restarts as begins with what is asked now.
            self._ask_final(self._back())
            return "over"
        self._take_back("it was not judged yet")
        return "user"

    def _end(self, cause: str, reason: str) -> None:
        search, step = self._search_state, self._driver.snapshot.steps_total
        self._driver.publish(
            AutopilotEnded(
                self._driver.now_ns(),
                step,
                cause,
                reason,
                step - self._began,
                search.first.step_ms if search else None,
                search.now.step_ms if search else None,
                search.first.wait_share if search else None,
                search.now.wait_share if search else None,
                self._peak_bytes if math.isfinite(self._peak_bytes) else None,
                dict(search.knobs) if search else self._driver.knobs,
            )
        )


def publish_made(driver: Driver, move: Move, *, undoes: bool = False) -> None:
    """A move is asked for; undoes: it takes back the one before."""
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


def publish_judged(
    driver: Driver, move: Move, before: Measurement, after: Measurement | None, kept: bool, reason: str
) -> None:
    """A move is kept, or it is not, and why not. after: None where too few steps were seen."""
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
