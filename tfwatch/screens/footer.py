"""The footer: its keys, and what tfwatch itself costs.

What is told at the screen's edges: the footer's keys, the one beside the finding, a window too small.

What tfwatch itself costs, and how often it may draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.tuning import knob_state
from tfwatch.core import units
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import knob_name
from tfwatch.screens import pane_views
from tfwatch.screens.keys import SMALLEST
from tfwatch.screens.switch_requests import has_knob, refusal
from tfwatch.widgets.basics.keyline import LAST_TO_GO, Key
from tfwatch.widgets.knobs import KNOB_KEYS, PREFETCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.core.clock import Clock
    from tfwatch.live.view import RunView
    from tfwatch.runs.reader import Snapshot

#: Columns from which there is room for what tfwatch costs in words, and for what it left out.
_USUAL, _WIDE = 120, 160


def footer_keys(view: RunView, live: bool, frozen: bool, stopping: bool) -> tuple[Key, ...]:
    """The footer's keys, from left to right; those that do nothing now are greyed.

    Where nothing obeys them, in a record and where a run is followed, keys that turn or restart do not stand there.
    """
    copies = stopping or bool(view.finding.edit)
    return (
        *(_turning(view, stopping) if live and not view.is_over else ()),
        Key("space", "space", _space(view, frozen), chosen=frozen, rank=0 if frozen else 5),
        Key("z", "z", "zoom", rank=8),
        Key("y", "y", "leave now" if stopping else "copy", copies, rank=0 if stopping else 9),
        *((Key("r", "r", "restart", not stopping, rank=6),) if live else ()),
        Key("question_mark", "?", "keys"),
        Key("q", "q", "leave"),
    )


def cost_note(cost: OwnCost | None, width: int) -> str:
    """What tfwatch itself costs, shorter where the line is short; empty before that is known."""
    if cost is None:
        return ""
    if width >= _WIDE:
        return cost.words
    if width >= _USUAL:
        return cost.brief
    return cost.share if cost.is_whole else f"screen {cost.share}"


def _turning(view: RunView, stopping: bool) -> Iterator[Key]:
    obeyed = not stopping
    turns = obeyed and bool(view.snapshot.manifest.switchable)
    yield from _knobs(view, obeyed)
    yield Key("f", "f", "feed", turns, rank=1)
    yield Key("a", "a", "prove", turns, rank=3)
    yield Key("u", "u", "undo", obeyed, rank=LAST_TO_GO)


def _knobs(view: RunView, obeyed: bool) -> Iterator[Key]:
    for one in KNOB_KEYS:
        if not one.in_footer or not has_knob(view.snapshot, one.knob):
            continue
        turns_it = not refusal(view.snapshot, one.knob, obeyed)
        yield Key(one.key, one.key, one.name, turns_it, rank=one.rank, brief=one.brief)
        if one is PREFETCH:
            yield Key("minus", "-", "", turns_it, rank=8)
            yield Key("plus", "+", "depth", turns_it, rank=6)


def _space(view: RunView, frozen: bool) -> str:
    if not frozen:
        return "freeze"
    return "its end" if view.is_over else "live"


def help_now(view: RunView, live: bool) -> str:
    """What stands beside the finding's word."""
    if view.is_over:
        return "y copies the lines" if view.finding.edit else ""
    if not live:
        return "read only"
    if view.situation.experiment or view.situation.flight:
        return ""  # its own switches: the key that ends it stands below
    undo = knob_state.undone(view.knobs, view.snapshot.events.of(PipelineSwitched))
    return f"u undoes: {knob_name(undo[0])} back to {undo[1]}" if undo else ""


def too_small(view: RunView | None, width: int, height: int) -> str:
    """What a window says that is too small for anything else."""
    text = f"{width}x{height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
    if view is None:
        return text
    going = "run over" if view.is_over else "training goes on"
    facts = ", ".join(part for part in (pane_views.header_view(view).epoch, view.finding.word) if part)
    return f"{text} - {going}: {facts}"


#: A frame that costs more is a tenth of its quarter second: the next ones are left out until that holds again.
DEAR_MS = 25.0
#: Where others use every core a frame is taken from them: a fiftieth.
DEAR_ON_FULL_MS = 5.0
_FULL = 0.9
_MOST_SKIPPED = 3
#: The first frames build the screen and say nothing about the later ones.
_WARM_UP = 4
#: Of a frame's cost so much goes into the mean.
_NEWEST = 0.25
_WORDS_S = 1.0
#: Samples come twice a second.
_FRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class OwnCost:
    """What tfwatch itself uses.

    cores: over the last second. is_whole: of all its threads, not of the one alone that draws. skipped: frames that
    were left out.
    """

    cores: float
    is_whole: bool = True
    skipped: int = 0

    @property
    def share(self) -> str:
        """`3.1 %`."""
        return f"{self.cores * 100:.1f} %"

    @property
    def brief(self) -> str:
        """`tfwatch 3.1 % of a core`."""
        return f"{'tfwatch' if self.is_whole else 'screen'} {self.share} of a core"

    @property
    def words(self) -> str:
        """`tfwatch 3.1 % of a core, 51 skipped`."""
        return self.brief + (f", {units.count(self.skipped)} skipped" if self.skipped else "")


class Meter:
    """CPU of the thread that draws, from frame to frame, and of the threads that write and sense, from the samples."""

    def __init__(self, clock: Clock) -> None:
        self.cost: OwnCost | None = None
        self.skipped = 0
        self._clock = clock
        self._frames = 0
        self._skip = 0
        self._frame_cpu_ns = 0
        self._mean_ms = 0.0
        self._since = (0, 0)

    def skips(self) -> bool:
        """Whether this frame is left out."""
        if not self._skip:
            return False
        self._skip -= 1
        self.skipped += 1
        return True

    def frame(self, snapshot: Snapshot) -> None:
        """Call at each frame that is drawn, in the thread that draws."""
        cpu_ns = self._clock.thread_ns()
        frame_ms = (cpu_ns - self._frame_cpu_ns) / 1e6
        self._frame_cpu_ns = cpu_ns
        self._frames += 1
        others, full = _others(snapshot)
        if self._frames > _WARM_UP:
            self._mean_ms += _NEWEST * (frame_ms - self._mean_ms) if self._mean_ms else frame_ms
            self._skip = min(_MOST_SKIPPED, int(self._mean_ms / (DEAR_ON_FULL_MS if full else DEAR_MS)))
        self._say(others, cpu_ns)

    def _say(self, others: float | None, cpu_ns: int) -> None:
        now = self._clock.now_ns()
        before, before_cpu = self._since
        if now - before < _WORDS_S * 1e9:
            return
        self._since = (now, cpu_ns)
        if self._frames <= _WARM_UP:
            return
        share = (cpu_ns - before_cpu) / (now - before)
        self.cost = OwnCost(share + (others or 0.0), is_whole=others is not None, skipped=self.skipped)


def _others(snapshot: Snapshot) -> tuple[float | None, bool]:
    """Cores that tfwatch's other threads use, None where nobody tells; and whether all of the machine's are in use."""
    if snapshot.life.is_over:
        return 0.0, False
    newest = snapshot.samples[-1:]
    if not len(newest) or float(newest["at_ns"][0]) / 1e9 < snapshot.now_s - _FRESH_S:
        return None, False
    own, used = float(newest["own_cores"][0]), float(newest["cpu_cores"][0])
    cores = snapshot.manifest.machine.get("cores")
    return None if units.is_missing(own) else own, isinstance(cores, int) and used >= _FULL * cores > 0
