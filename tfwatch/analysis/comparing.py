"""A comparison in words and in cells of a bar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis.restarts import Restart
from tfwatch.analysis.switches import SETTLED
from tfwatch.core import units
from tfwatch.core.knobs import knob_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.analysis.switches import Comparison
    from tfwatch.core.events import SwitchMissed
    from tfwatch.core.knobs import KnobChange

#: Steps nearer than this are told as no difference.
_SAME = 0.02
#: Cells of the words before a bar.
LABEL = 16


def outcome(switch: Comparison) -> str:
    """`1.68 x faster over 600 steps, settled`; `faster` and `slower` only for what was measured."""
    if switch.step is None:
        return "asked, waits for the batch in flight"
    done = switch.after.steps if switch.after else 0
    if switch.beside:
        return f"together with {knob_name(switch.beside)}: what each gave cannot be told"
    if switch.ratio is None and switch.settled:
        return "too few steps before it to compare"
    if switch.ratio is None:
        return f"{done} of {SETTLED} steps"
    over = f"over {units.count(done)} steps" if switch.settled else f"so far, {done} of {SETTLED} steps"
    return f"{gave(switch, switch.ratio)} {over}{', settled' if switch.settled else ''}"


def is_same(ratio: float) -> bool:
    """Whether two steps are too near each other to call one the faster."""
    return abs(ratio - 1) < _SAME


def than(ratio: float, old: str) -> str:
    """`1.68 x faster than off`, `no difference from off`."""
    return f"{speed(ratio)} {'from' if is_same(ratio) else 'than'} {old}"


def speed(ratio: float) -> str:
    """`1.68 x faster`, `20 x faster`, `1.20 x slower` or `no difference`."""
    if is_same(ratio):
        return "no difference"
    return f"{units.times(ratio)} x faster" if ratio > 1 else f"{units.times(1 / ratio)} x slower"


def gave(switch: Comparison, ratio: float) -> str:
    """`1.68 x faster`, `1.20 x faster per image`."""
    return speed(ratio) + (" per image" if isinstance(switch, Restart) and switch.per_image else "")


def setting(knob: str, value: str, form: str = "") -> str:
    """`prefetch off`, `fast form (tf.data) off` where `form` names the fast form."""
    return f"{knob_name(knob, form)} {value}"


def missed(switch: SwitchMissed, form: str = "") -> str:
    """A switch for which the run was too short; `form` names the pipeline's fast form."""
    return f"{switch.change.words(form)} at step {units.count(switch.step)}: the run ended before it was in effect"


def label(switch: Comparison, value: str) -> str:
    """What stands before a side's bar, `prefetch off`: the value alone where there is no room for its knob's name."""
    words = setting(switch.knob, value).strip()
    return words if len(words) <= LABEL or not isinstance(switch, Restart) else value


def turned(changes: Sequence[KnobChange]) -> str:
    """`batch_size 32 > 64, device cpu > gpu`."""
    return ", ".join(change.words() for change in changes) or "nothing changed"


def in_a_line(switch: Comparison, form: str = "") -> str:
    """`prefetch off > 4 at step 3 477: 1.68 x faster`; of a restart, `batch_size 32 > 64: 1.20 x faster per image`."""
    came = gave(switch, switch.ratio) if switch.settled and switch.ratio is not None else outcome(switch)
    if isinstance(switch, Restart):
        return f"{turned(switch.changes)}: {came}"
    where = f" at step {units.count(switch.step)}" if switch.step is not None else ""
    return f"{switch.change.words(form)}{where}: {came}"


def missing(switch: Comparison, value: str) -> str:
    """Why a side has no bar."""
    if isinstance(switch, Restart) and value != switch.new:
        return "no steady steps in the run before"
    if switch.step is None:
        return "asked, waits for the batch in flight" if value == switch.new else "in effect until then"
    return "no steady steps yet" if value == switch.new else "no steady steps before it"


def parts(switch: Comparison) -> list[str]:
    """`wait 9.6 > 0.2`, and for compute and host, ms; without figures where a side is missing."""
    before, after = switch.before, switch.after
    if before is None or after is None:
        return ["wait", "compute", "host"]
    pairs = ((before.wait, after.wait), (before.compute, after.compute), (before.host, after.host))
    figures = [f"{figure(switch, switch.typical(old))} > {figure(switch, switch.typical(new))}" for old, new in pairs]
    return [f"{name} {figure}" for name, figure in zip(("wait", "compute", "host"), figures, strict=True)]


def figure(switch: Comparison, took_ms: float) -> str:
    """`13.9`, milliseconds; of an image with as many decimals as its longer side needs for three figures, `0.434`."""
    if not isinstance(switch, Restart) or not switch.per_image or longest_ms(switch) <= 0:
        return units.number(took_ms)
    return units.number(took_ms, max(1, 2 - math.floor(math.log10(longest_ms(switch)))))


def duration(switch: Comparison, took_ms: float) -> str:
    """`13.9 ms`; of an image `0.434 ms/image`."""
    if isinstance(switch, Restart) and switch.per_image:
        return f"{figure(switch, took_ms)} ms/image"
    return units.milliseconds(took_ms)


def longest_ms(switch: Comparison) -> float:
    """The longer side's step, the whole of a bar."""
    sides = [side for side in (switch.before, switch.after) if side]
    return max((switch.typical(side.step) for side in sides), default=0.0)


def cells(side: Breakdown, step_ms: float, longest: float, width: int) -> tuple[int, int, int]:
    """Cells of wait, compute and host in a bar whose `width` stands for `longest` milliseconds.

    The bar is as long as `step_ms` and split as the means are.
    """
    if longest <= 0 or side.step.mean <= 0:
        return (0, 0, 0)
    total = round(width * min(step_ms / longest, 1.0))
    wait = min(total, round(total * side.wait.mean / side.step.mean))
    host = min(total - wait, round(total * side.host.mean / side.step.mean))
    return wait, total - wait - host, host
