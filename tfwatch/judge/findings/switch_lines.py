"""The switch that gains most, as an advice, and the lines of Python that do in the user's pipeline
what a knob does in tfwatch.

`dataset` is the user's input pipeline and `model` the model, where their names are unknown.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.knobs import (
    AUTO,
    CACHE,
    DEFAULT,
    DEVICE_PREFETCH,
    KNOBS,
    LEAST_AUTO_WORKERS,
    MULTIPROCESSING,
    OFF,
    ON,
    PINNED,
    PINNED_CALLS,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    epochs_until,
    knob_name,
    number_of,
)
from tfwatch.core.script_code import IN_PLACE, edited_lines
from tfwatch.judge.effects.switching_state import deeper
from tfwatch.judge.effects.wording import expected_gain_text
from tfwatch.judge.findings.finding import Advice
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.forecasts.evidence import cores_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.script_code import CodeEdit
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.forecasts.forecast import Forecast

#: The folder of tfwatch, and of its workloads.
_OWN = Path(__file__).parents[2]
_NAMED_MAP = re.compile(r"map\((?P<name>[^()]+)\)")
#: In place of a user's function whose name is unknown.
_FUNCTION = "..."
#: In the order of a pipeline.
_ORDER = (WORKERS, CACHE, PREFETCH, PINNED, DEVICE_PREFETCH)
_LINES = {
    CACHE: "dataset = dataset.cache()  # after the slow stages, before shuffle and anything random",
    PREFETCH: "dataset = dataset.prefetch({})  # the last stage: prepares batches while a step"
    " runs",
    PINNED: "dataset = dataset.apply(tf.data.experimental.map_and_batch(lambda *parts: parts, 1,"
    f" num_parallel_calls={PINNED_CALLS}))"
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
#: Between the class of a `PyDataset` and the number of its workers.
_MADE = "(..., workers="
_AUTO_WORKERS = f"max(os.cpu_count(), {LEAST_AUTO_WORKERS})"
#: A placeholder, as code and not in a sentence of a comment.
_PLACEHOLDER = re.compile(r"(?<![.\w])(dataset|model)(?=\.\w|\(| = |\))")


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
    asks = ", asks first" if draws else ""
    key = key_text(gain, now.knobs.get(gain.knob, OFF))
    return Advice(
        f"{key}: {text}{costs}{draws}{asks}", line_with_switch(now, gain.knob, gain.value)
    )


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
    free = now.memory_free
    needed = now.manifest.cache_bytes
    if needed is None or free is None:
        return begins
    return f"{begins}, needs {units.memory(needed)} of {units.memory(free)} free"


# -- the lines of a run ----------------------------------------------------------------------------


def lines_with_switches(now: Situation, code: str) -> str:
    """Return the lines of a remedy that is no switch, after those of the switches already made,
    where it has not the same lines of the script with both; the remedy's own value of an attribute
    replaces the one before."""
    own = with_names(now, code).splitlines()
    attributes = {_attribute(line) for line in own} - {""}
    made = lines_of(now, proved_knobs(now)).splitlines()
    if any(IN_PLACE in line and line in own for line in made):
        made = []
    lines = (*(line for line in made if _attribute(line) not in attributes), *own)
    return "\n".join(dict.fromkeys(filter(None, lines)))


def _attribute(line: str) -> str:
    """Return the attribute that a line sets, e.g. `dataset.workers`, or the class that it makes;
    empty where it sets none."""
    target, made, _ = line.partition(_MADE)
    if made:
        return target
    target, _, value = line.partition(" = ")
    return target if value and "." in target and "(" not in target else ""


def line_with_switch(now: Situation, knob: str, value: str) -> str:
    """Return the line of the advised switch, among those of the switches already made."""
    if (knob, value) in now.better:
        return ""
    lines = lines_of(now, {**proved_knobs(now), knob: value})
    return lines or with_names(now, switch_line(now, knob, value))


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


def lines_of_user(code: Sequence[CodeEdit]) -> tuple[CodeEdit, ...]:
    """Return the changes of lines of files; a terminal prints all of them as they are."""
    return tuple(one for one in code if one.is_plain and not one.is_cell)


def settings_of_patch(now: Situation) -> tuple[list[CodeEdit], dict[str, str]]:
    """Return the lines of the user's files that set knobs, and the proved values that differ from
    those of the start. It reads no disk."""
    manifest, proved = now.manifest, proved_knobs(now) if now.better else {}
    lines = lines_of_user(manifest.code) if proved else ()
    code = [one for one in lines if _is_users_file(one.file, Path(manifest.script))]
    values = {
        one.knob: proved[one.knob]
        for one in code
        if proved.get(one.knob, OFF) not in (OFF, manifest.knobs.get(one.knob))
    }
    return code, values


def _is_users_file(name: str, script: Path) -> bool:
    """Return whether a name is that of a file of the user's here: a relative one was given in the
    folder of the training, which had the script below it."""
    is_here = Path(name).is_absolute() or script.is_relative_to(Path.cwd())
    return is_here and not Path(os.path.abspath(name)).is_relative_to(_OWN)


def lines_of(
    now: Situation, knobs: Mapping[str, str], started: Mapping[str, str] | None = None
) -> str:
    """Return the lines of Python for these knobs where they differ from those of the start, in the
    order of a pipeline; empty without a difference.

    A setting that measured slower has the faster one in its place. A knob without a line of the
    script's has a line of its own. started: None for those that the run began with.
    """
    started = now.manifest.knobs if started is None else started
    knobs = {knob: best_measured(knob, value, now.better) for knob, value in knobs.items()}
    order = PY_DATASET_KNOBS if MULTIPROCESSING in knobs else _ORDER
    changed = [knob for knob in order if knobs.get(knob, OFF) not in (OFF, started.get(knob, OFF))]
    if MULTIPROCESSING in knobs and WORKERS in changed and _class_of(now):
        has_processes = knobs[MULTIPROCESSING] == ON
        return py_dataset_lines(now, knobs.get(WORKERS, OFF), has_processes=has_processes)
    in_script = {edit.knob for edit in now.manifest.code}
    own = edited_lines(now.manifest.code, {knob: knobs[knob] for knob in changed})
    lines = (
        py_dataset_lines(now, knobs[knob])
        if MULTIPROCESSING in knobs and knob == WORKERS
        else switch_line(now, knob, knobs[knob])
        for knob in changed
        if knob not in in_script
    )
    return with_names(now, "\n".join(filter(None, (own, *lines))))


def with_names(now: Situation, lines: str) -> str:
    """Return lines to paste with the script's names of its data set and its model, as its call of
    `fit` has them; its own lines stay as they are."""
    has_dataset = now.origin in (SourceKind.TF_DATA, SourceKind.PY_DATASET)
    names = {
        word: name
        for word, name in now.manifest.names.items()
        if name.replace(".", "").isidentifier() and (word != "dataset" or has_dataset)
    }
    # What the script's own lines begin with in `edited_lines`: an edit leaves it as it is.
    own: list[str] = []
    for edit in now.manifest.code:
        first, *others = edit.text.split("\n")
        own += [f"# {edit.place}", first[: edit.start], *others]
    starts = tuple(filter(str.strip, own))

    def named(match: re.Match[str]) -> str:
        return names.get(match[1], match[1])

    return "\n".join(
        line if line.startswith(starts) else _PLACEHOLDER.sub(named, line)
        for line in lines.split("\n")
    )


# -- lines -----------------------------------------------------------------------------------------


def switch_line(now: Situation, knob: str, value: str) -> str:
    """Return the line that sets a knob to a value in a pipeline, of the script's own where that is
    known, with its place; empty where there is none to add."""
    if own := edited_lines(now.manifest.code, {knob: value}):
        return own
    if value in (OFF, DEFAULT):
        return ""
    if knob == WORKERS:
        maps = [one for one in (now.stages.stages if now.stages else ()) if one.busy_ms > 0]
        named = [one for one in maps if function_of(one.name)]
        slowest = max(named, key=lambda one: one.busy_ms, default=None)
        return parallel_map(slowest.name if slowest else "", _number(value))
    return _LINES.get(knob, "").format(_number(value))


def parallel_map(stage: str, calls: str = "tf.data.AUTOTUNE") -> str:
    """Return the line that makes the calls of a map parallel. stage: its name."""
    name = function_of(stage) or _FUNCTION
    return f"dataset = dataset.map({name}, num_parallel_calls={calls})  # in place of .map({name})"


def function_of(stage: str) -> str:
    """Return the function in the name of a map; empty where it has no name."""
    match = _NAMED_MAP.search(stage)
    return match["name"] if match and match["name"].isidentifier() else ""


def best_measured(knob: str, value: str, better: Mapping[tuple[str, str], str]) -> str:
    """Return the value, or the fastest one that the run has measured in its place."""
    seen = {value}
    while (value := better.get((knob, value), value)) not in seen:
        seen.add(value)
    return value


def py_dataset_lines(now: Situation, workers: str, *, has_processes: bool = False) -> str:
    """Return the lines that give a `PyDataset` so many workers, threads or processes: where its
    class is known and no name of it, the call that makes it."""
    if name := _class_of(now):
        count = workers_of(now, workers)
        processes = ", use_multiprocessing=True" if has_processes else ""
        below = "; below if __name__ == '__main__':" if has_processes else ""
        queue = f"max_queue_size={2 * count}"
        return f"{name}{_MADE}{count}, {queue}{processes})  # in place of {name}(...){below}"
    given, after = (_AUTO_WORKERS, ", after import os") if workers == AUTO else (workers, "")
    lines = _WORKERS_OF_PY_DATASET.format(given, after)
    return f"{lines}\n{_LINES[MULTIPROCESSING]}" if has_processes else lines


def workers_of(now: Situation, workers: str) -> int:
    """Return the number of workers of a `PyDataset` with this setting; where it has none, those to
    begin with."""
    if workers == AUTO:
        return max(cores_of(now.manifest), LEAST_AUTO_WORKERS)
    return number_of(workers) or LEAST_AUTO_WORKERS


def _class_of(now: Situation) -> str:
    """Return the class of a `PyDataset` that has no name in the script's call of `fit`."""
    return "" if "dataset" in now.manifest.names else now.manifest.batch_class


def _number(value: str) -> str:
    return "tf.data.AUTOTUNE" if value == AUTO else value
