"""pulse.bin: the one row that tells what goes on now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfwatch.core.rows import PULSE, Phase

#: A time beyond it, in the year 2262, is rubbish.
_LATEST_NS = 2**63


@dataclass(frozen=True, slots=True)
class Pulse:
    """What the training thread does, since when; times in ns since the clock origin (`wall_ns`: since 1970)."""

    now_ns: int
    wall_ns: int
    phase: Phase
    since_ns: int
    step: int
    epoch: int
    detail: str = ""

    def encode(self, seq: int) -> bytes:
        """The row; `seq` changes with each writing."""
        detail = self.detail.encode(errors="replace")[: PULSE["detail"].itemsize]
        detail = detail.decode(errors="ignore").encode()  # a character cut in two reads as rubbish
        row = np.array(
            (seq, self.phase, self.now_ns, self.wall_ns, self.since_ns, self.step, self.epoch, detail, seq),
            dtype=PULSE,
        )
        return row.tobytes()


def decode_pulse(data: bytes, layout: np.dtype[np.void]) -> Pulse | None:
    """The pulse in a row's bytes; None where there is none yet or the row is torn."""
    if len(data) < layout.itemsize:
        return None
    row = np.frombuffer(data[: layout.itemsize], dtype=layout)[0]
    if row["seq"] != row["seq_end"] or int(row["phase"]) not in Phase._value2member_map_:
        return None
    if max(int(row[name]) for name in ("now_ns", "wall_ns", "since_ns")) >= _LATEST_NS:
        return None
    return Pulse(
        now_ns=int(row["now_ns"]),
        wall_ns=int(row["wall_ns"]),
        phase=Phase(int(row["phase"])),
        since_ns=int(row["since_ns"]),
        step=int(row["step"]),
        epoch=int(row["epoch"]),
        detail=bytes(row["detail"]).decode(errors="replace"),
    )
