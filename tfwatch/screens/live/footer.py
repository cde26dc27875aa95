"""The footer's keys, the note in the banner, and the CPU cost of tfwatch itself, which limits the
frame rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import KNOBS, PREFETCH, knob_name
from tfwatch.judge.effects import knob_state
from tfwatch.screens.basics.keyline import ESSENTIAL_RANK, Key
from tfwatch.screens.keys import SMALLEST
from tfwatch.screens.live.header import header_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.core.clock import Clock
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot

#: Columns from which the cost note has room for its words, and for the count of skipped frames.
_USUAL, _WIDE = 120, 160


def footer_keys(
    view: RunView,
    live: bool,
    frozen: bool,
    stopping: bool,
    is_attached: bool = False,
    goes_back: bool = False,
) -> tuple[Key, ...]:
    """The footer's keys, from left to right; keys without effect now are disabled.

    A recorded run and a followed run have no keys that switch. is_attached: another process trains.
    goes_back: quitting shows the list that the run was opened from.
    """
    copies = stopping or bool(view.finding.edit)
    return (
        *(_switch_keys(view, stopping) if live and not view.is_over else ()),
        Key("space", "space", _space_word(view, frozen), chosen=frozen, rank=0 if frozen else 5),
        Key("z", "z", "zoom", rank=8),
        *((Key("S", "S", "stalls", rank=7),) if view.stalls else ()),
        Key("y", "y", "quit now" if stopping else "copy", copies, rank=0 if stopping else 9),
        *((Key("d", "d", "leave"),) if is_attached and not view.is_over else ()),
        Key("question_mark", "?", "keys"),
        Key("q", "q", "back" if goes_back else "quit"),
    )


def cost_note(cost: OwnCost | None, width: int) -> str:
    """The CPU cost of tfwatch itself in as many words as `width` has room for.

    Empty before it is measured, and in a narrow window: a share without its words says nothing, and
    the keys need room.
    """
    if cost is None or width < _USUAL:
        return ""
    return cost.words if width >= _WIDE else cost.brief


def _switch_keys(view: RunView, stopping: bool) -> Iterator[Key]:
    can_switch = not stopping
    if not view.snapshot.manifest.switchable and not view.awaits_fit:
        return
    can_tune = can_switch and not view.awaits_fit
    yield from _knob_keys(view, can_switch)
    yield Key("f", "f", "autopilot", can_tune, rank=1, brief="auto")
    yield Key("a", "a", "A/B test", can_tune, rank=3, brief="A/B")
    yield Key("u", "u", "undo", can_switch, rank=ESSENTIAL_RANK)


def _knob_keys(view: RunView, can_switch: bool) -> Iterator[Key]:
    for knob in KNOBS.values():
        if not knob.in_footer or knob.name not in view.snapshot.manifest.knobs:
            continue
        is_enabled = not view.refusal(knob.name, can_switch)
        yield Key(knob.key, knob.key, knob.label, is_enabled, rank=knob.rank, brief=knob.brief)
        if knob.name == PREFETCH:
            yield Key("minus", "-", "", is_enabled, rank=8)
            yield Key("plus", "+", "depth", is_enabled, rank=6)


def _space_word(view: RunView, frozen: bool) -> str:
    if not frozen:
        return "freeze"
    return "end" if view.is_over else "live"


def banner_note(view: RunView, live: bool) -> str:
    """The note at the right of the banner: a key that helps now."""
    if view.is_over:
        return "y copies the code" if view.finding.edit else ""
    if not live:
        return "" if view.awaits_fit else "read only"
    if view.situation.experiment or view.situation.autopilot_run:
        return ""  # those switches are not the user's to undo
    undo = knob_state.find_undo(view.knobs, view.snapshot.events.of(PipelineSwitched))
    return f"u undo: {knob_name(undo[0])} back to {undo[1]}" if undo else ""


def too_small_text(view: RunView | None, width: int, height: int) -> str:
    """The text of a window that is too small for the panes."""
    text = f"{width}x{height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
    if view is None:
        return text
    going = "run over" if view.is_over else "training goes on"
    facts = ", ".join(part for part in (header_view(view).epoch, view.finding.word) if part)
    return f"{text} - {going}: {facts}"


#: A frame that costs more takes a tenth of its quarter second: the next frames are skipped to make
#: up for it.
COSTLY_FRAME_MS = 25.0
#: The same where all cores are busy, so that a frame takes CPU from the training: a fiftieth.
COSTLY_FRAME_ON_FULL_CPU_MS = 5.0
_FULL = 0.9
_MOST_SKIPPED = 3
#: The first frames build the screen and cost more than the later ones.
_WARM_UP = 4
#: The newest frame's weight in the running mean.
_NEWEST = 0.25
_WORDS_S = 1.0
#: Samples come twice a second.
_FRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class OwnCost:
    """The CPU use of tfwatch itself."""

    #: Over the last second.
    cores: float
    #: Of all threads of tfwatch, not only of the one that draws.
    is_whole: bool = True
    #: Frames that were skipped.
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
        """`tfwatch 3.1 % of a core, 51 frames skipped`."""
        return self.brief + (
            f", {units.counted(self.skipped, 'frame')} skipped" if self.skipped else ""
        )


class FrameMeter:
    """Measures CPU time: of the drawing thread from frame to frame, of the other threads from the
    samples."""

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
        """Return True, and count it, where this frame is skipped."""
        if not self._skip:
            return False
        self._skip -= 1
        self.skipped += 1
        return True

    def frame(self, snapshot: Snapshot) -> None:
        """Record a frame; call it in the drawing thread, once for each frame that is drawn."""
        cpu_ns = self._clock.thread_ns()
        frame_ms = (cpu_ns - self._frame_cpu_ns) / 1e6
        self._frame_cpu_ns = cpu_ns
        self._frames += 1
        others, full = _others(snapshot)
        if self._frames > _WARM_UP:
            self._mean_ms += _NEWEST * (frame_ms - self._mean_ms) if self._mean_ms else frame_ms
            self._skip = min(
                _MOST_SKIPPED,
                int(self._mean_ms / (COSTLY_FRAME_ON_FULL_CPU_MS if full else COSTLY_FRAME_MS)),
            )
        self._update_cost(others, cpu_ns)

    def _update_cost(self, others: float | None, cpu_ns: int) -> None:
        now = self._clock.now_ns()
        before, before_cpu = self._since
        if now - before < _WORDS_S * 1e9:
            return
        self._since = (now, cpu_ns)
        if self._frames <= _WARM_UP:
            return
        share = (cpu_ns - before_cpu) / (now - before)
        self.cost = OwnCost(
            share + (others or 0.0), is_whole=others is not None, skipped=self.skipped
        )


def _others(snapshot: Snapshot) -> tuple[float | None, bool]:
    """Return the cores that tfwatch's other threads use, None where unknown; and whether all cores
    are busy."""
    if snapshot.life.is_over:
        return 0.0, False
    newest = snapshot.samples[-1:]
    if not len(newest) or float(newest["at_ns"][0]) / 1e9 < snapshot.now_s - _FRESH_S:
        return None, False
    own, used = float(newest["own_cores"][0]), float(newest["cpu_cores"][0])
    cores = snapshot.manifest.machine.get("cores") or 0
    return None if units.is_missing(own) else own, used >= _FULL * cores > 0
