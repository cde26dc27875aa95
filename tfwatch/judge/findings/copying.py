"""Copies of batches to the GPU take a large part of the step.

Remedy: send `uint8` and cast on the GPU; use pinned memory (`n`); copy ahead from there (`g`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import COPY_KNOBS, ON, PINNED
from tfwatch.judge.findings.finding import Advice, Finding
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.findings.switch_lines import advise_gain, switch_line
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.forecasts.predict import bandwidth, is_pinned, saved_if_pinned_ms
from tfwatch.judge.steps.steady_steps import MODERATELY_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The bytes of one number, by element types that whole numbers to 255, as in images, can replace.
_WIDE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
UINT8 = (
    "dataset = dataset.map(lambda x, y: (tf.cast(x, tf.uint8), y))  # whole numbers to 255, scaled"
    " in the model:\nkeras.layers.Rescaling(1 / 255)  # the first layer casts on the device"
)
#: Fewer bytes are advised where they shorten the copy by at least this share.
_WORTH_IT = 0.2
_PINNED = "batches in pinned memory, which the GPU reads directly"
_LAUNCHING = "whose launching waits for it"
_ARRAYS = (
    "dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch_size)"
    "  # in place of the arrays; shuffles in another order\n"
)


def find(now: Situation) -> Finding | None:
    """Find the copy of the batches to the device, also ahead of the steps where they wait for
    it."""
    part, spent = now.split, now.regime.spent
    took_ms = _took_ms(now)
    if part is None or took_ms is None or not spent.steps:
        return None
    copied = " of ".join(units.in_one_unit(took_ms, part.step.mean))
    brief = f"copying batches to the GPU takes {copied}/step"
    remedy, saved_ms = _advise(now, part, took_ms)
    key = best(one for one in now.switches if one.knob in COPY_KNOBS)
    # Other batches save hardly more than the switch.
    if key and part.step.median - key.step_ms >= (1 - _WORTH_IT) * saved_ms:
        remedy, saved_ms = advise_gain(now, key), part.step.median - key.step_ms
    else:
        key = None
    saved = min(1.0, (saved_ms or took_ms) / took_ms) if took_ms else 0.0
    # For copies ahead the fetch or the launch waits, which is data wait or compute, and one within
    # the step's call is a part of compute.
    is_apart = not now.manifest.copied_ahead and part.copy is not None
    others_s = 0.0 if is_apart else took_ms * spent.steps / 1e3 - spent.copy_s
    return Finding(
        "copy-bound",
        now.label("COPY-BOUND", took_ms, part.step.mean),
        f"{brief}{_rate(now, took_ms)}{_where(now, part)}",
        remedy.sentence,
        remedy.edit,
        brief=brief,
        forecast=key,
        claims={"copy_s": saved * spent.copy_s, "compute_s": saved * max(0.0, others_s)},
    )


def _rate(now: Situation, copy_ms: float) -> str:
    """Return `: 74 MB at 5.0 GB/s`; empty where the size of batches is unknown, and where the time
    is that of a wait."""
    copied = now.manifest.copied_bytes
    rate = None if _is_beside(now) else bandwidth(copied, copy_ms)
    if rate is None:
        return ""
    return f": {units.memory(sum(copied.values()))} at {units.number(rate / 1e9)} GB/s"


def _took_ms(now: Situation) -> float | None:
    """Return the time of a copy that may delay a step; None where it is not known.

    Of one ahead from pinned memory that is the wait for it: it runs beside the kernels.
    """
    part, ahead_ms = now.split, now.manifest.copy_ahead_ms
    if part is None or part.copy is None:
        return now.manifest.copy_in_call_ms(now.knobs)
    return part.copying_ms(None if _is_beside(now) else ahead_ms)


def _is_beside(now: Situation) -> bool:
    """Return whether copies ahead run beside the kernels."""
    ahead_ms = now.manifest.copy_ahead_ms
    return ahead_ms is not None and _is_pinned(now, ahead_ms)


def _is_pinned(now: Situation, copy_ms: float) -> bool:
    return is_pinned(now.knobs, now.manifest.copied_bytes, copy_ms)


def _where(now: Situation, part: Breakdown) -> str:
    """Return what waits for a copy: the call that makes it, the fetch of the next batch, or
    launching; empty where the step makes it apart."""
    copy = part.copy
    if copy is None:
        return ", within the step's call"
    if now.manifest.copy_ahead_ms is None:
        return ""
    if copy.mean >= MODERATELY_FROM * part.step.mean:
        return f", ahead of the steps, which wait {units.milliseconds(copy.mean)} for it"
    return ", ahead of the steps" if _is_beside(now) else f", ahead of the steps, {_LAUNCHING}"


def _advise(now: Situation, part: Breakdown, took_ms: float) -> tuple[Advice, float]:
    """Advise batches in memory that the GPU reads directly, which leave each bit as it is, or fewer
    bytes; with the time of a copy that it saves, 0 where that is unknown."""
    copied = now.manifest.copied_bytes
    size, small = sum(copied.values()), _small_bytes(copied)
    saved_ms = took_ms * (1 - small / size) if small else 0.0
    pinned_ms = 0.0 if _is_pinned(now, took_ms) else saved_if_pinned_ms(copied, took_ms)
    if pinned_ms > 0 and pinned_ms >= (1 - _WORTH_IT) * saved_ms:
        line, then = switch_line(now, PINNED, ON), units.milliseconds(part.step.mean - pinned_ms)
        lines = _ARRAYS + line if now.origin is SourceKind.ARRAYS else line
        return Advice(f"{_PINNED}: about {then}/step, the same elements", lines), pinned_ms
    if not small:
        return Advice("copy fewer bytes: smaller images, or augmentation on the device"), 0.0
    sizes = f"{units.memory(small)} in place of {units.memory(size)}"
    then = units.milliseconds(part.step.mean - saved_ms)
    return Advice(
        f"images as uint8, cast on the device: {sizes}, about {then}/step", UINT8
    ), saved_ms


def _small_bytes(copied_bytes: Mapping[str, int]) -> int:
    """Return the bytes of a batch with one byte for each fractional number; 0 where they are hardly
    fewer."""
    small = sum(size // _WIDE.get(kind, 1) for kind, size in copied_bytes.items())
    return small if small <= (1 - _WORTH_IT) * sum(copied_bytes.values()) else 0
