"""The sentences about the copy of a batch to the device: its time, its bandwidth, and what makes it
shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import DEVICE_PREFETCH
from tfwatch.judge.findings.finding import Advice, Fact, Finding
from tfwatch.judge.findings.switch_lines import advise_gain, beside_switches
from tfwatch.judge.forecasts.forecast import best
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


def find(now: Situation) -> Finding | None:
    """Find the copy of the batches to the device, also ahead of the steps where they wait for
    it."""
    part, spent = now.judgement.breakdown, now.regime.spent
    if part is None or part.copy is None or not spent.steps:
        return None
    took_ms = part.copying_ms(now.manifest.copy_ahead_ms)
    copied = " of ".join(units.in_one_unit(took_ms, part.step.mean))
    brief = f"copying batches to the GPU takes {copied}/step"
    remedy = advise_copy(now, part)
    return Finding(
        "copy-bound",
        now.label("COPY-BOUND", took_ms * spent.steps / 1e3),
        f"{brief}{_rate(now, took_ms)}{_ahead(now, part)}",
        remedy.sentence,
        remedy.edit,
        brief=brief,
        evidence=(Fact("copy_mean", took_ms, "ms"),),
        claims=_claims(now, took_ms),
    )


def _claims(now: Situation, took_ms: float) -> dict[str, float]:
    """Return the copies in the steps; of copies ahead the fetch or the launch waits, which is data
    wait or compute."""
    spent = now.regime.spent
    ahead_s = took_ms * spent.steps / 1e3 - spent.copy_s if now.manifest.copied_ahead else 0.0
    return {"copy_s": spent.copy_s, "compute_s": max(0.0, ahead_s)}


def _ahead(now: Situation, part: Breakdown) -> str:
    """Return what waits for a copy ahead: the fetch of the next batch, or launching; empty where
    none is ahead."""
    if now.manifest.copy_ahead_ms is None or part.copy is None:
        return ""
    if part.copy.mean >= MODERATELY_FROM * part.step.mean:
        return f", ahead of the steps, which wait {units.milliseconds(part.copy.mean)} for it"
    return ", ahead of the steps, whose launching waits for it"


def advise_copy(now: Situation, part: Breakdown) -> Advice:
    """Advise on a long copy: device prefetch where it is forecast to help more, else fewer
    bytes."""
    copied = now.manifest.copied_bytes
    small, all_bytes = _small_bytes(copied), sum(copied.values())
    took_ms = part.copying_ms(now.manifest.copy_ahead_ms)
    saved_ms = took_ms * (1 - small / all_bytes) if small else 0.0
    ahead = best(one for one in now.forecasts.values() if one.knob == DEVICE_PREFETCH)
    if ahead is not None and part.step.median - ahead.step_ms > saved_ms:
        found = advise_gain(now, ahead)
        assert found
        return found
    if saved_ms:
        sizes = f"{units.memory(small)} in place of {units.memory(all_bytes)}"
        after = f"about {units.milliseconds(part.step.mean - saved_ms)}/step"
        smaller = Advice(f"images as uint8, cast on the device: {sizes}, {after}", UINT8)
        return beside_switches(now, smaller)
    return Advice("copy fewer bytes: smaller images, or augmentation on the device")


def bandwidth(copied_bytes: Mapping[str, int], copy_ms: float) -> float | None:
    """Return the bytes that are copied per second; None where unknown."""
    total = sum(copied_bytes.values())
    return total / copy_ms * 1e3 if total and copy_ms > 0 else None


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
