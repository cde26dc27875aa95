"""A callback of the user's that holds the training up, after each step or at the ends of epochs.

Remedy: do the work every 100th step, at the end of an epoch, or every fifth epoch; a rare slow call
in a thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Advice, Finding
from tfwatch.judge.findings.situation import SourceKind

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.regime import Regime

#: A callback grows where the last tenth of the steps has this many times the host time of the
#: first.
_GROWS = 2.0
#: A callback that is slow in one of so many steps, or of more, is slow rarely: to do its work every
#: 100th step is no remedy.
_RARE = 50
#: What a callback calls to save.
_SAVES = ("save", "save_weights", "export", "save_model")
#: Keras' own progress bar.
_BAR = "ProgbarLogger"
_GROWN = "keep a running figure in {name} in place of the whole history, or run it every 100th step"


def find(now: Situation) -> Finding | None:
    """Find the callback that takes most."""
    regime = now.regime
    no_cause = {"", _BAR} if _is_held_up(now) else {""}
    took = {
        name: _claims(regime, name) for name in {one.callback for one in regime.code} - no_cause
    }
    name = max(took, key=lambda one: sum(took[one].values()), default="")
    if not name or not any(took[name].values()):
        return None
    lost_s, host_s, end_s = sum(took[name].values()), *took[name].values()
    is_at_end = end_s > host_s
    each = _each(regime, name, host_s)
    each = f"{units.seconds(end_s / max(regime.epochs, 1))} an epoch" if is_at_end else each
    brief = f"callback {name} takes {units.seconds(lost_s)}, {each}"
    own = (one.place for one in regime.code if one.callback == name)
    place = next(filter(None, own), "")
    first, last = units.in_one_unit(*regime.host_growth_ms)
    grows = f"; it grows: {first} at first, {last}/step now" if _grows(regime) else ""
    advice = _advise(regime, name, place, is_at_end=is_at_end)
    return Finding(
        "callback",
        now.label("HOST-BOUND", lost_s),
        f"{brief}{f' ({place})' if place else ''}{grows}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=f"{name}, {place}" if place else name,
        claims=took[name],
    )


def _is_held_up(now: Situation) -> bool:
    """Return whether others take the GIL or the core that the progress bar gives away with each
    write: its time is theirs, 2.8 s beside two calls of a `py_function`."""
    in_python = now.origin in (SourceKind.PY_DATASET, SourceKind.GENERATOR)
    stages = now.stages.stages if now.stages else ()
    return now.others.matters or in_python or any(one.calls_python for one in stages)


def _claims(regime: Regime, name: str) -> dict[str, float]:
    """Return the seconds of a callback by the part of the time breakdown.

    A callback at an epoch's end runs in the host phase of its last step: both phases are one
    sample.
    """
    if _is_rare(regime, name):
        count, each_ms = regime.slow_host
        return {"host_s": min(count * each_ms / 1e3, regime.spent.host_s), "epoch_end_s": 0.0}
    share = _share(regime, name)
    return {part: share * getattr(regime.spent, part) for part in ("host_s", "epoch_end_s")}


def _share(regime: Regime, name: str) -> float:
    """Return the share of a callback in the host time and in the ends of the epochs."""
    sampled = regime.code_in("HOST", "EPOCH_END")
    own_s = sum(one.seconds for one in sampled if one.callback == name)
    return own_s / sum(one.seconds for one in sampled) if own_s else 0.0


def _is_rare(regime: Regime, name: str) -> bool:
    """Return whether few steps hold most of the host time, and so the time of its main callback."""
    count, _ = regime.slow_host
    return 0 < _RARE * count <= regime.spent.steps and _share(regime, name) > 1 / 2


def _each(regime: Regime, name: str, host_s: float) -> str:
    """Return `3.4 ms/step`, of a rare slow call `1.6 s in each of 3 of 940 steps`."""
    steps = regime.spent.steps
    if not _is_rare(regime, name):
        return f"{units.milliseconds(1e3 * host_s / max(steps, 1))}/step"
    count, _ = regime.slow_host
    of_them = f"each of {count} of " if count > 1 else "one of "
    return f"{units.duration(host_s / count)} in {of_them}{units.counted(steps, 'step')}"


def _grows(regime: Regime) -> bool:
    first_ms, last_ms = regime.host_growth_ms
    return last_ms > _GROWS * first_ms > 0


def _advise(regime: Regime, name: str, place: str, *, is_at_end: bool) -> Advice:
    calls = {one.call for one in regime.code if one.callback == name}
    is_rare = _is_rare(regime, name)
    if calls & set(_SAVES) or "Checkpoint" in name:
        if is_rare and place and regime.slow_host[0] > regime.epochs:
            return Advice(
                f"save in {name}.on_epoch_end only", f"# {place}: save in on_epoch_end only"
            )
        saves = f"save less often in {name}, or in on_epoch_end"
        if not place:
            return Advice(saves, f"# {name}: add save_freq='epoch' where it is made")
        return Advice(saves, f"# {place}: save every 100th step, or in on_epoch_end")
    if "gc.collect" in calls:
        by_itself = "Python collects by itself, at a fraction of the time"
        return Advice(f"no gc.collect() in {name}: {by_itself}")
    if name == _BAR:
        bar = "fit(verbose=2): one line an epoch in place of a bar"
        return Advice(bar, "model.fit(..., verbose=2)")
    if is_at_end:
        return Advice(f"do less in {name}.on_epoch_end, or only every fifth epoch")
    if _grows(regime):
        return Advice(_GROWN.format(name=name))
    if is_rare:
        words = f"shorten the slow call in {name}, or run it in a thread of its own"
        return _at(place, words, "in a thread of its own, threading.Thread(target=...).start()")
    less = "every 100th step, or in on_epoch_end"
    return _at(place, f"do the work of {name} {less}", f"do it {less}")


def _at(place: str, words: str, to_do: str) -> Advice:
    """Return an advice, and what to do at the line of the callback where that is known."""
    return Advice(words, f"# {place}: {to_do}" if place else "")
