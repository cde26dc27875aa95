"""The rows of a step by layer that decide: the layers of a deep model in groups."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core import units
from tfwatch.judge.profile.step_parts import StepPart, step_parts, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.events import StepProfiled

    #: The names of the groups that a layer may be in, the outermost first.
    Names: TypeAlias = tuple[str, ...]

#: Up to so many layers have a row each, and a layer with this share of all operations has its own.
_FEW, _LARGE = 12, 0.15
#: A group with more than this share of the grouped layers' time is opened.
_MOST = 0.5
#: The rows of a grouping are counted up to this share of that time; one with a group that cannot be
#: opened counts as so many.
_BULK, _UNDECIDED = 0.8, 4
#: The beginning of a name that ends in a number, as `block_3` of `block_3_expand`, or `block2a`.
#: More than a number follows: `conv2d_1` is Keras' name of a second layer.
_BLOCK = re.compile(r"(?:\d|block\d+[a-z])(?=_.*[A-Za-z])")


@lru_cache(maxsize=4)
def step_rows(profile: StepProfiled) -> tuple[StepPart, ...]:
    """Return the parts of a profiled step, the longest first, with many layers in groups.

    A model with up to `_FEW` layers has a row for each. In a larger one each layer with `_LARGE` of
    the time keeps its row. The others are grouped by block or by class, whichever needs fewer rows
    for `_BULK` of their time; by block where both need as many. A block is the outermost layer or
    model that holds a layer, or the beginning of names that several layers share up to a number.
    The class is that of the outermost layer too: attention counts with its layers. A group of more
    than `_MOST` of their time does not decide. It is opened: the blocks or classes in it take its
    place. Where nothing is in it, as in 53 convolutions of a ResNet, the grouping counts as
    `_UNDECIDED` rows, so its stages are shown. The optimizer is one row but for the variables with
    `_LARGE` of the time. The rows sum to what the parts sum to.
    """
    parts = step_parts(profile)
    small = [one for one in parts if one.share < _LARGE]
    updates = [one for one in small if one.role == "optimizer"]
    layers = [one for one in parts if one.role == "layer"]
    grouped = [one for one in small if one.role == "layer"] if len(layers) > _FEW else []
    done = set(map(id, (*grouped, *updates)))
    rows = [one for one in parts if id(one) not in done]
    if grouped:
        ways = _blocks_of(grouped), _classes_of(layers)
        groups = min((_groups(grouped, names) for names in ways), key=_rows_of_bulk)
        rows += [_row(members, "layer", name) for name, members in groups.items()]
    if updates:
        rows.append(_row(updates, "optimizer", updates[0].name, updates[0].kind))
    return tuple(sorted(rows, key=lambda part: -part.took_ms))


#: The longest parts have a line.
_MOST_LINES = 12


def profile_lines(profile: StepProfiled) -> list[str]:
    """Return a profile as lines of a text: each part with its time a step, its share and its
    line; or why there is none."""
    if profile.missing:
        return [f"no profile: {profile.missing}"]
    return [
        f"{time_text(one.took_ms):>8} {units.percent(one.share):>5}  {one.text}"
        for one in step_rows(profile)[:_MOST_LINES]
    ]


def blocks_in(name: str) -> list[str]:
    """Return the beginnings of a layer's name that may be a block's: `conv2`, `conv2_block1`."""
    return [name[: found.end()] for found in _BLOCK.finditer(name)]


# -- the names of groups ---------------------------------------------------------------------------


def _blocks_of(layers: Sequence[StepPart]) -> dict[str, Names]:
    """Return the blocks of each layer, the outermost first, and its own name."""
    blocks: dict[str, list[str]] = {}
    for path in {path for one in layers for path in _paths(one.name)}:
        above, slash, name = path.rpartition("/")
        blocks[path] = [f"{above}{slash}{block}" for block in blocks_in(name)]
    members = Counter(block for inner in blocks.values() for block in inner)
    shared = {path: [one for one in inner if members[one] > 1] for path, inner in blocks.items()}
    return {
        one.name: tuple(name for path in _paths(one.name) for name in (*shared[path], path))
        for one in layers
    }


def _classes_of(layers: Sequence[StepPart]) -> dict[str, Names]:
    """Return the classes of the layers around each layer and its own, the outermost first."""
    kinds = {one.name: one.kind for one in layers}
    return {
        name: tuple(filter(None, (kinds.get(path) for path in _paths(name)))) or (name,)
        for name in kinds
    }


def _paths(name: str) -> list[str]:
    """Return `a`, `a/b` and `a/b/c` of `a/b/c`."""
    return list(accumulate(name.split("/"), "{}/{}".format))


# -- groups ----------------------------------------------------------------------------------------


def _groups(layers: Sequence[StepPart], names: Mapping[str, Names]) -> dict[str, list[StepPart]]:
    """Return the groups of layers by name, none of them with more than `_MOST` of the time but
    where nothing is left to open."""
    most_ms = _MOST * sum(one.took_ms for one in layers)
    groups: dict[str, list[StepPart]] = defaultdict(list)
    waiting = [(0, list(layers))]
    while waiting:
        depth, members = waiting.pop()
        by_name: dict[str, list[StepPart]] = defaultdict(list)
        for one in members:
            by_name[names[one.name][: depth + 1][-1]].append(one)
        for name, inner in by_name.items():
            is_deeper = any(len(names[one.name]) > depth + 1 for one in inner)
            if is_deeper and sum(one.took_ms for one in inner) > most_ms:
                waiting.append((depth + 1, inner))
            else:
                groups[name] += inner
    return groups


def _rows_of_bulk(groups: Mapping[str, Sequence[StepPart]]) -> int:
    """Return how many of the longest groups hold `_BULK` of the time, at least `_UNDECIDED` where
    one holds more than `_MOST`."""
    longest_first = sorted(sum(one.took_ms for one in each) for each in groups.values())[::-1]
    all_ms = sum(longest_first)
    so_far_ms = accumulate(longest_first, initial=0.0)
    rows = sum(1 for one in so_far_ms if one < _BULK * all_ms)
    return max(rows, _UNDECIDED) if longest_first[0] > _MOST * all_ms else rows


def _row(parts: Sequence[StepPart], role: str, name: str, kind: str = "") -> StepPart:
    """Return the parts of a group as one; of a single one itself."""
    longest = max(parts, key=lambda one: one.took_ms)
    if len(parts) == 1:
        return longest
    return StepPart(
        role,
        name,
        kind,
        sum(one.took_ms for one in parts),
        sum(one.backward_ms for one in parts),
        sum(one.share for one in parts),
        longest.operation,
        longest.place,
        any(one.in_loop for one in parts),
        len(parts),
        longest.variable or (longest.name if role == "layer" else ""),
        dtype=longest.dtype,
    )
