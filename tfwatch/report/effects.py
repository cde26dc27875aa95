"""The facts of the changes of a run and of their effects: switches, A/B tests, autopilot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.knobs import option_name
from tfwatch.report.facts import if_any, mapping, number, record, text, texts, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANSWERS = ("faster", "slower", "same", "unclear")


def by_name(knobs: Mapping[str, str]) -> dict[str, str]:
    """Return settings by the names of the knobs that `--switch` takes."""
    return {option_name(knob): value for knob, value in knobs.items()}


STAT = (
    number("median", "half of the steps take less"),
    number("mean", "their sum over their number"),
    number("p95", "95 % of the steps take less"),
)
#: Steady steps, of a `Breakdown`; None for too few of them.
STEADY = (
    whole("steps", "the number of steady steps", lambda split: split.steps if split else 0),
    record("step_ms", "step time: the sum of the parts", STAT, if_any("step")),
    record("data_wait_ms", "blocked until the batch is there", STAT, if_any("wait")),
    record("copy_ms", "copy of the batch to the device, where it is timed", STAT, if_any("copy")),
    record("compute_ms", "from the copy to the metrics on the host", STAT, if_any("compute")),
    record("host_ms", "callbacks, Python and logging", STAT, if_any("host")),
    record(
        "dispatch_ms",
        "part of compute: until the step's call returns; of an eager step on a CPU, the Python"
        " time between the operations",
        STAT,
        if_any("dispatch"),
    ),
    number("data_wait_share", "data wait over step time, 0 to 1", if_any("wait_share")),
)
_KNOB = text("knob", "the knob, as `--switch` names it", lambda one: option_name(one.knob))
_CHANGE = (
    _KNOB,
    text("from", "the setting before", "old"),
    text("to", "the setting after", "new"),
)
_SPEEDUP = "step time before over after, within `speedup_low` to `speedup_high` (95 %)"
#: A `Comparison`, or a `SwitchFailed`, which has no effect.
SWITCH = (
    whole(
        "step_asked",
        "the steps done when it was requested",
        lambda one: getattr(one, "asked_step", one.step),
    ),
    whole(
        "step_in_effect",
        "the first step of the new setting; null where it failed or the run ended first",
        lambda one: one.step if hasattr(one, "asked_step") else None,
    ),
    *_CHANGE,
    record("before", "the steady steps before it", STEADY, if_any("before")),
    record("after", "the steady steps after it", STEADY, if_any("after")),
    text("answer", "what the interval proves", if_any("estimate.answer"), _ANSWERS),
    number("speedup", f"{_SPEEDUP}; null without enough steps", if_any("estimate.ratio")),
    number("speedup_low", "its lower end", if_any("estimate.low")),
    number("speedup_high", "its upper end", if_any("estimate.high")),
    whole("switches", "those back and forth that are compared together", if_any("switches")),
    text("failed", "why it failed", if_any("reason")),
    text("setting_since", "the setting in effect since it failed", if_any("now")),
)
EXPERIMENT = (
    _KNOB,
    texts("settings", "those that alternate", lambda ended: [*ended.values]),
    whole("first_step", "its first step", lambda ended: ended.began + 1),
    whole("last_step", "its last step", "step"),
    text("cause", "of its end"),
    text("answer", "of the second setting against the first", choices=_ANSWERS),
    number("speedup", f"{_SPEEDUP}; null where unknown", "ratio"),
    number("speedup_low", "its lower end", "low"),
    number("speedup_high", "its upper end", "high"),
    whole("steps", "the steps that count"),
    mapping("step_ms", "mean step time by setting"),
    text("kept", "the final setting"),
    text("reason", "why it failed"),
)
AUTOPILOT = (
    whole("first_step", "its first step", lambda one: one.began.step + 1),
    text("cause", "of its end", if_any("ended.cause")),
    text("reason", "the cause in a sentence", if_any("ended.reason")),
    whole("steps", "the steps that it took", if_any("ended.steps")),
    number("before_ms", "mean step time at its start", if_any("ended.before_ms")),
    number("after_ms", "mean step time at its end", if_any("ended.after_ms")),
    text("answer", "what the interval proves", if_any("estimate.answer"), _ANSWERS),
    number("speedup", f"{_SPEEDUP}; null where no move was kept", if_any("ended.ratio")),
    number("speedup_low", "its lower end", if_any("ended.low")),
    number("speedup_high", "its upper end", if_any("ended.high")),
    mapping(
        "knobs", "the final settings", lambda one: by_name(one.ended.knobs) if one.ended else None
    ),
)
