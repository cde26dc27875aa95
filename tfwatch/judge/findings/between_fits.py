"""The script's own code between two calls of `fit`, and the begin and end of `fit`.

Remedy: one data set and one `fit` in place of a loop over `fit`; `predict_on_batch` in place of
`predict`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.user_code import split_place
from tfwatch.judge.findings.finding import Advice, Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.regime import CodeTime

#: A line of the script is named where it takes this share of the time.
_MOST = 0.3
#: A fit is short up to so many steps: its begin and end then take longer than they do.
_SHORT = 8
_PREDICTS = ("predict", "evaluate")
_PREDICT = "model.predict_on_batch in place of model.{call}, which builds an iterator in each call"
_TRAIN = "train_on_batch in place of fit, or more rows in each fit"
_LOAD = (
    "one data set that does it while the model trains, and one fit: tf.data's from_generator or"
    " interleave over the files, with .prefetch(tf.data.AUTOTUNE)"
)
_LOAD_CODE = """def rows():  # in place of the loop over fit
    for chunk in chunks: yield from load(chunk)
dataset = tf.data.Dataset.from_generator(rows, output_signature=...)
model.fit(dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE))"""
_PREDICT_CODE = "values = model.predict_on_batch(your_rows)  # {at}in place of model.{call}"
_TRAIN_CODE = "model.train_on_batch(your_rows, your_labels)  # {at}in place of model.fit"


def find(now: Situation) -> Finding | None:
    """Find the time between fits, and where the script spends it."""
    regime, spent = now.regime, now.regime.spent
    if not spent.between_fits_s:
        return None
    times = regime.code_in("BETWEEN_FITS")
    all_s = sum(one.seconds for one in times)
    top = _most(times, all_s)
    at, where, lost_s = "", ", in the script", spent.between_fits_s
    if top:
        call = f", which calls {top.call}" if top.call else ""
        line, name = split_place(top.place)
        at = f"{line} in {name}" if name else line
        where = f": {units.percent(top.seconds / all_s)} of it at {at}{call}"
        # The rest is what each fit takes to begin and to end.
        own_s = sum(one.seconds for one in times if one.place and one.call != "fit")
        lost_s *= own_s / all_s
    brief = f"{units.seconds(spent.between_fits_s)} between {units.counted(regime.fits, 'fit')}"
    brief = f"{brief} of {units.counted(round(spent.steps / max(regime.fits, 1)), 'step')}"
    advice = _advise(times, top, is_short=spent.steps <= _SHORT * regime.fits)
    return Finding(
        "between-fits",
        now.label("BETWEEN FITS", lost_s),
        f"{brief}{where}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=at,
        claims={"between_fits_s": lost_s},
    )


def _most(times: Sequence[CodeTime], all_s: float) -> CodeTime | None:
    """Return the line that takes most of the time between fits; None where none stands out."""
    lines: dict[str, CodeTime] = {}
    for one in times:  # the call that takes most comes first
        known = lines.get(one.place)
        lines[one.place] = replace(known, seconds=known.seconds + one.seconds) if known else one
    named = [one for place, one in lines.items() if place]
    top = max(named, key=lambda one: one.seconds, default=None)
    return top if top and all_s > 0 and top.seconds >= _MOST * all_s else None


def _advise(times: Sequence[CodeTime], top: CodeTime | None, *, is_short: bool) -> Advice:
    calls = [one.call for one in times if one.call in _PREDICTS]
    train_code = _TRAIN_CODE.format(at=_place_of("fit", times))
    if calls and (top is None or top.call in _PREDICTS or is_short):
        sentence, at = _PREDICT.format(call=calls[0]), _place_of(calls[0], times)
        code = _PREDICT_CODE.format(call=calls[0], at=at)
        if is_short:
            return Advice(f"{sentence}; {_TRAIN}", f"{code}\n{train_code}")
        return Advice(sentence, code)
    return Advice(_TRAIN, train_code) if is_short else Advice(_LOAD, _LOAD_CODE)


def _place_of(call: str, times: Sequence[CodeTime]) -> str:
    """Return `train.py:23: ` of the line that makes a call; empty where it was not sampled."""
    place = next((one.place for one in times if one.call == call and one.place), "")
    return f"{split_place(place)[0]}: " if place else ""
