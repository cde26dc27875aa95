"""Recurrent layers that loop over their time steps on a GPU, because an argument rules cuDNN out.

Remedy: remove the argument that the finding names. Some arguments change the model: the finding
says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: Without these arguments a layer computes the same, up to rounding.
_SAME = ("use_cudnn=False", "unroll=True")
_CELLS = {"RNN(LSTMCell)": "LSTM", "RNN(GRUCell)": "GRU"}


def find(now: Situation) -> Finding | None:
    """Find the recurrent layers that cuDNN cannot compute, on an NVIDIA GPU; without a profile
    their seconds are not known, and none are claimed. A GRU and an LSTM on an H100 gave back 1.04
    and 1.05 times their share."""
    layers = now.manifest.model.without_cudnn if now.manifest.model else []
    if not layers or not now.manifest.has_cudnn:
        return None
    share = sum(part.share for part in now.parts_without_cudnn)
    against = list(dict.fromkeys(argument for one in layers for argument in one.against))
    more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
    brief = f"{layers[0].name} ({layers[0].kind}){more} without cuDNN: {', '.join(against)}"
    takes = f"; {units.percent(share)} of compute" if share else ""
    return compute_loss(
        now,
        "no-cudnn",
        share,
        f"{brief}{takes}",
        why=", all of which cuDNN gave back",
        advice=_advise(against),
        where=layers[0].name,
    )


def _advise(against: list[str]) -> str:
    """Return the remedy of each argument, and whether it changes what is trained."""
    kept = [f"keras.layers.{_CELLS[one]} in place of {one}" for one in against if one in _CELLS]
    kept += [f"no {one}" for one in against if one in _SAME]
    changed = [f"no {one}" for one in against if one not in (*_CELLS, *_SAME)]
    same = [f"{' and '.join(kept)}: the same layer up to rounding"] if kept else []
    other = f"{' and '.join(changed)}: cuDNN then runs the layer, but another model is trained"
    return "; ".join([*same, *([other] if changed else [])])
