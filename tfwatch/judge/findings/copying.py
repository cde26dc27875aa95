"""Copies of batches to the GPU take a large part of the step.

Remedy: send `uint8` and cast on the GPU; copy ahead (`g`); use pinned memory (`n`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import COPY_KNOBS, OFF, ON, PINNED
from tfwatch.judge.findings.finding import Advice, Finding
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.findings.switch_lines import advise_gain, switch_line
from tfwatch.judge.forecasts.forecast import best
from tfwatch.judge.forecasts.predict import bandwidth, saved_if_pinned_ms
from tfwatch.judge.steps.steady_steps import MODERATELY_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.steps.steady_steps import Breakdown

#: The bytes of one number, by element types that whole numbers to 255, as in images, can replace.
_WIDE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
UINT8 = (
    "dataset = dataset.map(lambda x, y: (tf.cast(x, tf.uint8), y))  # whole numbers to 255, scaled"
    " in the model:\nkeras.layers.Rescaling(1 / 255)  # the first layer casts on the device"
)
#: Fewer bytes are advised where they shorten the copy by at least this share.
_WORTH_IT = 0.2
_ARRAYS = (
    "dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch_size)"
    "  # in place of the arrays; shuffles in another order\n"
)


def find(now: Situation) -> Finding | None:
    """Find the copy of the batches to the device, also ahead of the steps where they wait for
    it."""
    part, spent = now.split, now.regime.spent
    if part is None or part.copy is None or not spent.steps:
        return None
    took_ms = part.copying_ms(now.manifest.copy_ahead_ms)
    copied = " of ".join(units.in_one_unit(took_ms, part.step.mean))
    brief = f"copying batches to the GPU takes {copied}/step"
    ahead = _other_copy(now, part)
    saved_ms = part.step.median - ahead.step_ms if ahead else _saved_ms(now, part) or took_ms
    remedy = advise_gain(now, ahead) if ahead else _advise_bytes(now, part)
    return Finding(
        "copy-bound",
        now.label("COPY-BOUND", took_ms * spent.steps / 1e3),
        f"{brief}{_rate(now, took_ms)}{_ahead(now, part)}",
        remedy.sentence,
        remedy.edit,
        brief=brief,
        forecast=ahead,
        claims=_claims(now, took_ms, min(1.0, saved_ms / took_ms) if took_ms else 0.0),
    )


def _claims(now: Situation, took_ms: float, saved: float) -> dict[str, float]:
    """Return the share `saved` of the copies in the steps; of copies ahead the fetch or the launch
    waits, which is data wait or compute."""
    spent = now.regime.spent
    ahead_s = took_ms * spent.steps / 1e3 - spent.copy_s if now.manifest.copied_ahead else 0.0
    return {"copy_s": saved * spent.copy_s, "compute_s": saved * max(0.0, ahead_s)}


def _ahead(now: Situation, part: Breakdown) -> str:
    """Return what waits for a copy ahead: the fetch of the next batch, or launching; empty where
    none is ahead."""
    if now.manifest.copy_ahead_ms is None or part.copy is None:
        return ""
    if part.copy.mean >= MODERATELY_FROM * part.step.mean:
        return f", ahead of the steps, which wait {units.milliseconds(part.copy.mean)} for it"
    return ", ahead of the steps, whose launching waits for it"


def _other_copy(now: Situation, part: Breakdown) -> Forecast | None:
    """Return the switch of the copy that is forecast to save most, where other batches save hardly
    more."""
    found = best(one for one in now.switches if one.knob in COPY_KNOBS)
    least_ms = (1 - _WORTH_IT) * _saved_ms(now, part)
    return found if found and part.step.median - found.step_ms >= least_ms else None


def _advise_bytes(now: Situation, part: Breakdown) -> Advice:
    """Advise batches in memory that the GPU reads directly, which leave each bit as it is, or fewer
    bytes."""
    took_ms, copied = part.copying_ms(now.manifest.copy_ahead_ms), now.manifest.copied_bytes
    saved_ms, pinned_ms = _saved_by_bytes_ms(now, took_ms), _saved_if_pinned_ms(now, took_ms)
    if _is_pinned_worth_it(saved_ms, pinned_ms):
        return _advise_pinned(now, part.step.mean - pinned_ms)
    if not saved_ms:
        return Advice("copy fewer bytes: smaller images, or augmentation on the device")
    sizes = f"{units.memory(_small_bytes(copied))} in place of {units.memory(sum(copied.values()))}"
    after = f"about {units.milliseconds(part.step.mean - saved_ms)}/step"
    return Advice(f"images as uint8, cast on the device: {sizes}, {after}", UINT8)


def _saved_ms(now: Situation, part: Breakdown) -> float:
    """Return the time of a copy that the advised batches save; 0 where it is unknown."""
    took_ms = part.copying_ms(now.manifest.copy_ahead_ms)
    saved_ms, pinned_ms = _saved_by_bytes_ms(now, took_ms), _saved_if_pinned_ms(now, took_ms)
    return pinned_ms if _is_pinned_worth_it(saved_ms, pinned_ms) else saved_ms


def _is_pinned_worth_it(saved_ms: float, pinned_ms: float) -> bool:
    return pinned_ms > 0 and pinned_ms >= (1 - _WORTH_IT) * saved_ms


def _saved_by_bytes_ms(now: Situation, took_ms: float) -> float:
    copied = now.manifest.copied_bytes
    small = _small_bytes(copied)
    return took_ms * (1 - small / sum(copied.values())) if small else 0.0


def _saved_if_pinned_ms(now: Situation, took_ms: float) -> float:
    stages = now.stages.stages if now.stages else ()
    if now.knobs.get(PINNED, OFF) != OFF:
        return 0.0
    return saved_if_pinned_ms(now.manifest.copied_bytes, stages, took_ms)


def _advise_pinned(now: Situation, then_ms: float) -> Advice:
    sentence = (
        "batches in pinned memory, which the GPU reads directly: about"
        f" {units.milliseconds(then_ms)}/step, the same elements"
    )
    code = switch_line(now, PINNED, ON)
    return Advice(sentence, _ARRAYS + code if now.origin is SourceKind.ARRAYS else code)


def _rate(now: Situation, copy_ms: float) -> str:
    """Return `: 74 MB at 5.0 GB/s`; empty where the size of batches is unknown."""
    rate = bandwidth(now.manifest.copied_bytes, copy_ms)
    if rate is None:
        return ""
    return (
        f": {units.memory(sum(now.manifest.copied_bytes.values()))} at {units.number(rate / 1e9)}"
        " GB/s"
    )


def _small_bytes(copied_bytes: Mapping[str, int]) -> int:
    """Return the bytes of a batch with one byte for each fractional number; 0 where they are hardly
    fewer."""
    small = sum(size // _WIDE.get(kind, 1) for kind, size in copied_bytes.items())
    return small if small <= (1 - _WORTH_IT) * sum(copied_bytes.values()) else 0
