"""The switch that gains most, as an advice, and the lines of Python that do in the user's pipeline
what a knob does in tfwatch.

`dataset` is the user's input pipeline and `model` the model, where their names are unknown.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import (
    CACHE,
    DEFAULT,
    DEVICE_PREFETCH,
    KNOBS,
    LEAST_AUTO_WORKERS,
    MULTIPROCESSING,
    OFF,
    ON,
    PINNED,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    epochs_until,
    knob_name,
)
from tfwatch.core.script_code import edited_lines
from tfwatch.judge.effects.switching_state import deeper
from tfwatch.judge.effects.wording import expected_gain_text
from tfwatch.judge.findings.finding import Advice
from tfwatch.judge.findings.situation import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.script_code import CodeEdit
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.stages import StageTable

_NAMED_MAP = re.compile(r"map\((?P<name>[^()]+)\)")
#: The name in place of a user's function whose name is unknown.
_FUNCTION = "decode"
#: In the order of a pipeline.
_ORDER = (WORKERS, CACHE, PREFETCH, PINNED, DEVICE_PREFETCH)
_LINES = {
    CACHE: "dataset = dataset.cache()  # after the slow stages, before shuffle and anything random",
    PREFETCH: "dataset = dataset.prefetch({})  # the last stage: prepares batches while a step"
    " runs",
    PINNED: "dataset = dataset.apply(tf.data.experimental.map_and_batch(lambda *parts: parts, 1))"
    "  # the last stages: batches in memory that the GPU reads\n"
    "dataset = dataset.map(lambda *parts: tf.nest.map_structure(lambda part: tf.squeeze(part, 0),"
    " parts))",
    DEVICE_PREFETCH: "dataset = dataset.apply(tf.data.experimental.prefetch_to_device("
    '"/GPU:0", {}))  # the last stage',
    MULTIPROCESSING: "dataset.use_multiprocessing = True  # before fit, below if __name__ =="
    " '__main__':",
}
_WORKERS_OF_PY_DATASET = (
    "dataset.workers = {}  # before fit{}\n"
    "dataset.max_queue_size = max(dataset.max_queue_size, 2 * dataset.workers)"
)
_AUTO_WORKERS = f"max(os.cpu_count(), {LEAST_AUTO_WORKERS})"
#: A placeholder, as code and not in a sentence of a comment.
_PLACEHOLDER = re.compile(r"(?<![.\w])(dataset|model)(?=\.\w|\(| = |\))")
_NOT_MEASURED: Mapping[tuple[str, str], str] = MappingProxyType({})


# -- advice ----------------------------------------------------------------------------------------


def advise_gain(now: Situation, gain: Forecast) -> Advice:
    """Advise a switch that is forecast to gain: by its key on a live screen, by its call in a
    summary."""
    draws = "; other random draws" if now.manifest.needs_consent(gain.knob) else ""
    if not now.live:
        words = f"{switch_phrase(gain.knob, gain.value)}: {expected_gain_text(gain)}{draws}"
        return Advice(words, line_with_switch(now, gain.knob, gain.value))
    part = now.split
    text = expected_gain_text(gain, part.step.mean if part else math.nan)
    costs = f"; {_cache_costs(now)}" if gain.knob == CACHE else ""
    key = key_text(gain, now.knobs.get(gain.knob, "off"))
    return Advice(f"{key}: {text}{costs}{draws}", line_with_switch(now, gain.knob, gain.value))


def key_text(forecast: Forecast, current: str) -> str:
    """Return a key and the setting that it requests: `p prefetch on`, `+ depth 2 → 4`, `w workers
    auto`.

    From off, `p` requests the last depth that was on, and `+` the least one.
    """
    knob, value = forecast.knob, forecast.value
    is_least = current == "off" and value == deeper("off")
    if knob == PREFETCH and (is_least or "off" not in (current, value)):
        is_deeper = not (current.isdigit() and value.isdigit()) or int(value) > int(current)
        return f"{'+' if is_deeper else '-'} depth {current} → {value}"
    value = "on" if knob == PREFETCH and value != "off" else value
    return f"{KNOBS[knob].key} {knob_name(knob)} {value}".strip()


def switch_phrase(knob: str, value: str) -> str:
    """Return a setting as a call: `num_parallel_calls=tf.data.AUTOTUNE`, `without .cache()`."""
    call = KNOBS[knob].call
    if value in (OFF, DEFAULT):
        without = call.partition("=")[0].replace("({})", "()") or f"the {KNOBS[knob].label}"
        return f"without {without}"
    return call.format(_number(value)) if call else f"{knob} {value}"


def _cache_costs(now: Situation) -> str:
    """Return `from epoch 3, needs 4.1 of 6.2 GB free`."""
    begins = f"from epoch {now.epoch + 1 + epochs_until(CACHE, ON)}"
    free = now.machine.figures.get("memory_available_bytes") if now.machine else None
    needed = now.manifest.cache_bytes
    if needed is None or free is None:
        return begins
    return f"{begins}, needs {units.memory(needed)} of {units.memory(free)} free"


# -- the lines of a run ----------------------------------------------------------------------------


def lines_with_switches(now: Situation, code: str) -> str:
    """Return the lines of a remedy that is no switch, after those of the switches already made;
    the remedy's own value of an attribute replaces the one before."""
    own = with_names(now, code).splitlines()
    attributes = {_attribute(line) for line in own} - {""}
    made = lines_of(now, proved_knobs(now)).splitlines()
    lines = (*(line for line in made if _attribute(line) not in attributes), *own)
    return "\n".join(dict.fromkeys(filter(None, lines)))


def _attribute(line: str) -> str:
    """Return the attribute that a line sets, e.g. `dataset.workers`; empty where it sets none."""
    target, _, value = line.partition(" = ")
    return target if value and "." in target and "(" not in target else ""


def line_with_switch(now: Situation, knob: str, value: str) -> str:
    """Return the line of the advised switch, among those of the switches already made."""
    if (knob, value) in now.better:
        return ""
    knobs = {**proved_knobs(now), knob: value}
    line = lines_of(now, knobs)
    return line or with_names(now, switch_line(knob, value, now.stages, now.manifest.code))


def proved_knobs(now: Situation) -> dict[str, str]:
    """Return the fastest measured settings; a switch that is not proved faster counts as not made,
    and so does the setting that a block of an A/B test has."""
    start, proved = now.manifest.knobs, {(knob, value) for (knob, _), value in now.better.items()}
    tested = now.experiment.began if now.experiment else None
    knobs = {}
    for knob, value in now.knobs.items():
        settings = tested.values if tested and tested.knob == knob else (value,)
        best = (best_measured(knob, one, now.better) for one in settings)
        known = start.get(knob, value)
        knobs[knob] = next((one for one in best if (knob, one) in proved), known)
    return knobs


def lines_of(now: Situation, knobs: Mapping[str, str]) -> str:
    """Return the lines of Python for these knobs where they differ from those of the start."""
    code = now.manifest.code
    return with_names(now, pasted_lines(knobs, now.manifest.knobs, now.stages, now.better, code))


def with_names(now: Situation, lines: str) -> str:
    """Return lines to paste with the script's names of its data set and its model, as its call of
    `fit` has them; its own lines stay as they are."""
    has_dataset = now.origin in (SourceKind.TF_DATA, SourceKind.PY_DATASET)
    names = {
        word: name
        for word, name in now.manifest.names.items()
        if name.replace(".", "").isidentifier() and (word != "dataset" or has_dataset)
    }
    own = _starts_of_own_lines(now.manifest.code)

    def named(match: re.Match[str]) -> str:
        return names.get(match[1], match[1])

    return "\n".join(
        line if line.startswith(own) else _PLACEHOLDER.sub(named, line)
        for line in lines.split("\n")
    )


def _starts_of_own_lines(code: Sequence[CodeEdit]) -> tuple[str, ...]:
    """Return what lines of the script begin with in `edited_lines`: an edit leaves it as it is."""
    starts: list[str] = []
    for edit in code:
        first, *others = edit.text.split("\n")
        starts += [f"# {edit.place}", first[: edit.start], *others]
    return tuple(filter(str.strip, starts))


# -- lines -----------------------------------------------------------------------------------------


def switch_line(
    knob: str, value: str, table: StageTable | None = None, code: Sequence[CodeEdit] = ()
) -> str:
    """Return the line of Python that sets a knob to a value in a pipeline; empty where there is
    none to add.

    table: its stages, where they are known. code: the changes of the script's own lines, where they
    are known: then it is these lines, each with its place.
    """
    if own := edited_lines(code, {knob: value}):
        return own
    if value in (OFF, DEFAULT):
        return ""
    if knob == WORKERS:
        return parallel_map(costliest_map(table), _number(value))
    return _LINES.get(knob, "").format(_number(value))


def parallel_map(stage: str, calls: str = "tf.data.AUTOTUNE") -> str:
    """Return the line that makes the calls of a map parallel. stage: its name, or that of its
    function."""
    match = _NAMED_MAP.search(stage)
    name = match["name"] if match else stage
    name = name if name.isidentifier() and name != "map" else _FUNCTION
    return f"dataset = dataset.map({name}, num_parallel_calls={calls})  # in place of .map({name})"


def costliest_map(table: StageTable | None) -> str:
    """Return the name of the function of the slowest map; `decode` where unknown."""
    maps = (
        (stage.busy_ms, _NAMED_MAP.fullmatch(stage.name))
        for stage in (table.stages if table else ())
    )
    known = [(cost, match["name"]) for cost, match in maps if match and not math.isnan(cost)]
    named = [one for one in known if one[1].isidentifier()]
    return max(named)[1] if named else _FUNCTION


def pasted_lines(
    knobs: Mapping[str, str],
    started: Mapping[str, str],
    table: StageTable | None = None,
    better: Mapping[tuple[str, str], str] = _NOT_MEASURED,
    code: Sequence[CodeEdit] = (),
) -> str:
    """Return the lines for all knobs that changed since the start, in the order of a pipeline;
    empty without a change.

    They are for a pipeline without any of them. better: the faster value of each setting that
    measured slower: it is suggested in its place. code: as in `switch_line`; a knob without a line
    of the script's has a line of its own.
    """
    knobs = {knob: best_measured(knob, value, better) for knob, value in knobs.items()}
    is_py_dataset = MULTIPROCESSING in knobs
    order = PY_DATASET_KNOBS if is_py_dataset else _ORDER
    changed = [
        knob for knob in order if knobs.get(knob, "off") not in ("off", started.get(knob, "off"))
    ]
    in_script = {edit.knob for edit in code}
    own = edited_lines(code, {knob: knobs[knob] for knob in changed})
    lines = (
        _workers_of_py_dataset(knobs[knob])
        if is_py_dataset and knob == WORKERS
        else switch_line(knob, knobs[knob], table)
        for knob in changed
        if knob not in in_script
    )
    return "\n".join(filter(None, (own, *lines)))


def best_measured(knob: str, value: str, better: Mapping[tuple[str, str], str]) -> str:
    """Return the value, or the fastest one that the run has measured in its place."""
    seen = {value}
    while (value := better.get((knob, value), value)) not in seen:
        seen.add(value)
    return value


def py_dataset_lines(workers: str, *, has_processes: bool = False) -> str:
    """Return the lines that give a `PyDataset` so many workers, threads or processes."""
    lines = _workers_of_py_dataset(workers)
    return f"{lines}\n{_LINES[MULTIPROCESSING]}" if has_processes else lines


def _workers_of_py_dataset(value: str) -> str:
    given, after = (_AUTO_WORKERS, ", after import os") if value == "auto" else (value, "")
    return _WORKERS_OF_PY_DATASET.format(given, after)


def _number(value: str) -> str:
    return "tf.data.AUTOTUNE" if value == "auto" else value
