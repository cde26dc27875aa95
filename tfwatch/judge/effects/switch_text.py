"""Comparisons and forecasts in words: `faster` and `slower` for measured steps, `about` for
forecasts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import (
    CACHE,
    DEVICE_PREFETCH,
    PREFETCH,
    WORKERS,
    knob_name,
)
from tfwatch.judge.effects.comparison import ENOUGH_STEPS
from tfwatch.judge.effects.experiment import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.core.events import SwitchFailed, SwitchMissed
    from tfwatch.core.knobs import KnobChange
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.experiment import Answer
    from tfwatch.judge.forecasts.forecast import Forecast, Record
    from tfwatch.judge.steps.verdict import Breakdown

#: Steps that differ by less than this share show no difference.
_SAME = 0.02
#: Cells of the words before a bar.
LABEL = 16


def _waiting_text(switch: Comparison) -> str:
    return f"requested, waits for {'a later epoch' if switch.epochs else 'the current batch'}"


def outcome_text(switch: Comparison) -> str:
    """Return `1.68 x faster (1.61 to 1.74) over 600 steps`, or the reason for no ratio."""
    if switch.step is None:
        return _waiting_text(switch)
    done = switch.after.steps if switch.after else 0
    if switch.beside:
        return f"switched together with {knob_name(switch.beside)}: no ratio of its own"
    if switch.ratio is None and switch.settled:
        return "not enough steps before it to compare"
    if switch.ratio is None:
        return f"{done} of {ENOUGH_STEPS} steps"
    over = (
        f"over {units.count(done)} steps"
        if switch.settled
        else f"so far, {done} of {ENOUGH_STEPS} steps"
    )
    return f"{claim_text(switch)}{',' if switch.compute_drift is not None else ''} {over}"


def versus_text(switch: Comparison) -> str:
    """Return `1.68 x faster than off`, `not clear vs off`; the interval has no room beside a
    knob."""
    if switch.compute_drift is not None:
        return _drift_text(switch.compute_drift)
    old = switch.old
    return _ratio_text(switch.estimate, switch.answer, f" than {old}", f" from {old}", f" vs {old}")


def claim_text(switch: Comparison) -> str:
    """Return `1.68 x faster (1.61 to 1.74)`, `not clear (0.94 to 1.08)`.

    Where only compute changed, and the knob cannot change it: `compute drifted by 9 %, not the data
    wait`. Where no faster or slower step is proved, but another data wait: `data wait 9.3 → 0.6 ms,
    step not clear (0.94 to 1.38)`.
    """
    step = effect_text(switch.estimate, switch.compute_drift)
    if (
        switch.answer in ("faster", "slower")
        or switch.compute_drift is not None
        or not switch.has_other_wait
    ):
        return step
    return f"data {part_texts(switch)[0]} ms, step: {step}"


def effect_text(known: Estimate | None, compute_drift: float | None) -> str:
    """Return `claim_text` of an effect."""
    if compute_drift is not None:
        return f"{_drift_text(compute_drift)}, not the data wait"
    return estimate_text(known)


def estimate_text(known: Estimate | None) -> str:
    """Return `1.68 x faster (1.61 to 1.74)`: the ratio with its interval, turned over where it is
    below 1."""
    if known is None:
        return "not clear"
    turned = (
        Estimate(1 / known.ratio, 1 / known.high, 1 / known.low)
        if known.answer == "slower"
        else known
    )
    return (
        f"{_ratio_text(known, known.answer)} ({units.times(turned.low)} to"
        f" {units.times(turned.high)})"
    )


def _ratio_text(
    known: Estimate | None, answer: Answer, differs: str = "", same: str = "", versus: str = ""
) -> str:
    if known is None or answer == "unclear":
        return f"not clear{versus}"
    if answer == "same":
        return f"no difference{same}"
    return f"{speed(known.ratio)}{differs}"


def _drift_text(share: float) -> str:
    return f"compute drifted by {units.percent(abs(share))}"


def speed(ratio: float) -> str:
    """Return `1.68 x faster`, `20 x faster`, `1.20 x slower` or `no difference`."""
    if abs(ratio - 1) < _SAME:
        return "no difference"
    return f"{units.times(ratio)} x faster" if ratio > 1 else f"{units.times(1 / ratio)} x slower"


def setting_text(knob: str, value: str) -> str:
    """Return `prefetch off`."""
    return f"{knob_name(knob)} {value}"


def missed_switch_text(switch: SwitchMissed) -> str:
    """Return the sentence of a switch that the run ended before."""
    return (
        f"{switch.change.words} at step {units.count(switch.step)}: the run ended before it was in"
        " effect"
    )


def failed_switch_text(switch: SwitchFailed) -> str:
    """Return the sentence of a switch that failed, with the setting in effect since."""
    where = f"at step {units.count(switch.step)}"
    stands = f"; {setting_text(switch.knob, switch.now)} continues"
    return f"{switch.change.words} {where} failed: {switch.reason}{stands}"


def side_label(switch: Comparison, value: str) -> str:
    """Return the label of a side's bar, `prefetch off`."""
    return setting_text(switch.knob, value).strip()


def changes_text(changes: Sequence[KnobChange]) -> str:
    """Return `workers off → auto, prefetch off → 4`."""
    return ", ".join(change.words for change in changes)


def comparison_line(switch: Comparison) -> str:
    """Return `prefetch off → 4 at step 3 477: 1.68 x faster (1.61 to 1.74)`, or the outcome so
    far."""
    result = (
        claim_text(switch) if switch.settled and switch.ratio is not None else outcome_text(switch)
    )
    where = f" at step {units.count(switch.step)}" if switch.step is not None else ""
    return f"{switch.change.words}{where}: {result}"


def missing_side_text(switch: Comparison, value: str) -> str:
    """Return the reason why a side has no bar."""
    if switch.step is None:
        return _waiting_text(switch) if value == switch.new else "in effect until then"
    return "no steady steps yet" if value == switch.new else "no steady steps before it"


def part_texts(switch: Comparison) -> list[str]:
    """Return `wait 9.6 → 0.2`, and the same of compute and host, ms; without figures where a side
    is missing."""
    before, after = switch.before, switch.after
    if before is None or after is None:
        return ["wait", "compute", "host"]
    pairs = ((before.wait, after.wait), (before.compute, after.compute), (before.host, after.host))
    figures = [
        f"{units.number(switch.typical(old))} → {units.number(switch.typical(new))}"
        for old, new in pairs
    ]
    return [
        f"{name} {figure}"
        for name, figure in zip(("wait", "compute", "host"), figures, strict=True)
    ]


def longest_ms(switch: Comparison) -> float:
    """Return the longer side's step, the full width of a bar."""
    sides = [side for side in (switch.before, switch.after) if side]
    return max((switch.typical(side.step) for side in sides), default=0.0)


def cells(side: Breakdown, step_ms: float, longest: float, width: int) -> tuple[int, int, int]:
    """Return the cells of wait, compute and host in a bar whose `width` is `longest` milliseconds.

    The bar is as long as `step_ms` and split like the means.
    """
    if longest <= 0 or side.step.mean <= 0:
        return (0, 0, 0)
    total = round(width * min(step_ms / longest, 1.0))
    wait = min(total, round(total * side.wait.mean / side.step.mean))
    host = min(total - wait, round(total * side.host.mean / side.step.mean))
    return wait, total - wait - host, host


#: A forecast change below this share of a step reads as no gain.
WORTH = 0.05
#: Two means that differ by more than this share are explained.
_DIFFERS = 0.1
#: An interval wider than this, high over low, is shown beside the forecast.
_WIDE = 1.4


def forecast_note(known: Forecast) -> str:
    """Return what stands beside a knob: `13.9 ms  no gain`, or the reason for no forecast."""
    if not known.is_known:
        return known.why
    return f"{units.milliseconds(known.typical_ms)}  {_gain(known)}"


def expected_gain_text(known: Forecast, shown_ms: float = math.nan) -> str:
    """Return `23.4 to about 13.8 ms, 1.7 x (the rest is compute)`, with a wide prediction interval.

    The ratio is that of these two. shown_ms: the mean of fewer steps in the finding beside it;
    where it differs, the text says that the first figure is that of all steps so far.
    """
    so_far = " so far" if abs(shown_ms / (known.ratio * known.typical_ms) - 1) > _DIFFERS else ""
    within = f" ({interval_text(known)})" if interval_text(known) else ""
    now, then = units.in_one_unit(known.ratio * known.typical_ms, known.typical_ms)
    return f"{now}{so_far} to about {then}{within}, {_gain(known)} ({known.why})"


def interval_text(known: Forecast) -> str:
    """Return `13.2 to 78.4`, a wide prediction interval in milliseconds; empty for a narrow one and
    in bursts."""
    if not known.is_known or known.high_ms <= _WIDE * known.low_ms or known.in_bursts:
        return ""
    return " to ".join(units.in_one_unit(known.low_ms, known.high_ms)).removesuffix(" ms")


def has_usable_gain(known: Forecast) -> bool:
    """Return whether a gain is expected within the memory limit."""
    return has_expected_gain(known) and not known.is_over_memory_limit


def has_expected_gain(known: Forecast) -> bool:
    """Return whether a gain is expected, at any cost of memory."""
    return known.is_known and known.ratio >= 1 + WORTH


def best(forecasts: Iterable[Forecast]) -> Forecast | None:
    """Return the switch with the largest usable gain; None where there is none.

    Among nearly equal gains, the cheapest knob wins.
    """
    usable = [one for one in forecasts if has_usable_gain(one)]
    worthwhile = [one for one in usable if not _may_be_slower(one)]
    most = max((one.ratio for one in worthwhile), default=0.0)
    near = [one for one in worthwhile if one.ratio >= most * (1 - WORTH)]
    return min(
        near,
        key=lambda one: _ORDER.index(one.knob) if one.knob in _ORDER else len(_ORDER),
        default=None,
    )


def _may_be_slower(known: Forecast) -> bool:
    """Return whether a copy ahead may cost more than it hides: copy and launching race (1.3 x as
    long on one H200)."""
    return known.knob == DEVICE_PREFETCH and not known.measured and known.high_ms >= known.now_ms


def record_text(record: Record) -> str:
    """Return `4 forecasts: median error 3 %, 4 within the 90 % prediction interval`; empty without
    a checked one."""
    count = len(record.checked)
    if not count:
        return ""
    error = units.percent(record.median_error)
    if count == 1:
        return (
            f"1 forecast: error {error}, {'within' if record.inside else 'outside'} the 90 %"
            " prediction interval"
        )
    return (
        f"{count} forecasts: median error {error}, {record.inside} within the 90 % prediction"
        " interval"
    )


def last_forecast_text(record: Record | None) -> str:
    """Return `forecast 13.8 ms, measured 13.9 ms`, of several `median forecast error 4 % (5
    switches)`."""
    if not record or not record.checked:
        return ""
    newest, count = record.checked[-1], len(record.checked)
    if count > 1:
        return f"median forecast error {units.percent(record.median_error)} ({count} switches)"
    forecast_ms, measured_ms = (
        units.milliseconds(newest.forecast.step_ms),
        units.milliseconds(newest.measured_ms),
    )
    return f"forecast {forecast_ms}, measured {measured_ms}"


#: The cheapest knob first.
_ORDER = (PREFETCH, WORKERS, CACHE)


def _gain(known: Forecast) -> str:
    return "no gain" if abs(known.ratio - 1) < WORTH else f"{units.times(known.ratio, 1)} x"
