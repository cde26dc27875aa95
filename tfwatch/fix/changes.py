"""The changes of a script that need a restart: which finding names each, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import BadInputError
from tfwatch.fix import edits
from tfwatch.judge.findings.finding import (
    JIT_COMPILE,
    PARALLEL_CALLS,
    RUN_EAGERLY,
    STEPS_PER_EXECUTION,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.judge.findings.finding import Finding

#: The settings that are switched while the script trains, as `--only` takes them.
LIVE = "live"
#: The epochs after which a cache is full, and `validation_freq=5` has traced validation.
FILLED, VALIDATED = 1, 5
ORDER, DRAWS = "order", "random-draws"
BATCH_SIZE, METRICS, PRECISION, VALIDATION = "batch-size", "metrics", "precision", "validation"
#: The kinds of changes that are made only where they are allowed, by what each of them changes.
ALLOWED = {
    BATCH_SIZE: "the batch size is another one",
    METRICS: "logs and callbacks lack the metric, of validation too",
    ORDER: "batches come in another order",
    DRAWS: "random draws are others",
    PRECISION: "layers compute in another dtype",
    VALIDATION: "callbacks and logs see validation less often",
}
#: Only a profile of the step finds what their changes are a remedy of.
_PROFILED = frozenset({METRICS, DRAWS})


@dataclass(frozen=True, slots=True)
class ScriptChange:
    """A change of a script. text: as a user would write it. make: returns the changed source.

    findings: kinds of findings that it is a remedy of. effect: what it changes beside the time.
    kind: one of `ALLOWED`; empty where the weights stay the same but for rounding. is_exact: they
    are the same bit for bit. epochs: those after which it changes the time of an epoch; 0: it
    changes the time of a step.
    moves_map: a function of the script gets other arguments: equal losses have to prove it exact.
    """

    name: str
    text: str
    make: Callable[[str], str]
    findings: tuple[str, ...] = ()
    effect: str = ""
    kind: str = ""
    is_exact: bool = False
    epochs: int = 0
    moves_map: bool = False

    def is_due(self, losses: Sequence[Finding], allowed: Sequence[str]) -> bool:
        """Return whether a finding names it, or it is allowed and none could."""
        is_named = any(one.kind in self.findings or self.name in one.arguments for one in losses)
        return is_named or (self.kind in allowed and not self.findings)


def _argument(
    keyword: str, value: str, effect: str, *, old: str = "", exact: bool = False
) -> ScriptChange:
    make = partial(edits.set_argument, method=edits.COMPILE, keyword=keyword, value=value, old=old)
    return ScriptChange(keyword, f"{keyword}={value}", make, effect=effect, is_exact=exact)


def _moved(method: str, others: str, finding: str, **more: Any) -> ScriptChange:
    make = partial(edits.move_before, method=method, others=others)
    name, text = f"{method}_first", f"{method} before {others}"
    return ScriptChange(name, text, make, (finding,), is_exact=True, **more)


#: Those that may leave nothing for a setting to gain.
BEFORE_SETTINGS = (RUN_EAGERLY, "take_first", "batch_first", "batches_from_generator")
#: In the order in which they are tried.
CHANGES = (
    _argument(RUN_EAGERLY, "False", "a graph rounds otherwise", old="True"),
    _moved("take", "cache", "take-after-cache", epochs=FILLED),
    _moved("batch", "map", "cheap-maps", moves_map=True),
    ScriptChange(
        "batches_from_generator",
        "the generator yields batches",
        edits.rows_in_batches,
        ("generator-rows",),
        is_exact=True,
    ),
    ScriptChange(
        PARALLEL_CALLS,
        "num_parallel_calls=16 and as many threads",
        edits.more_calls,
        is_exact=True,
    ),
    _argument(
        STEPS_PER_EXECUTION,
        "8",
        "callbacks of a batch run once in 8 steps, the weights are the same",
        exact=True,
    ),
    _argument(JIT_COMPILE, "True", "XLA rounds otherwise"),
    ScriptChange(
        "validation_freq",
        "validation_freq=5",
        partial(edits.set_argument, method=edits.FIT, keyword="validation_freq", value="5"),
        ("validation",),
        kind=VALIDATION,
        is_exact=True,
        epochs=VALIDATED,
    ),
    ScriptChange(
        "metrics",
        "metrics over thresholds left out",
        edits.without_threshold_metrics,
        ("metric",),
        kind=METRICS,
        is_exact=True,
    ),
    ScriptChange(
        "deterministic", "deterministic=False", edits.any_order, ("kept-order",), kind=ORDER
    ),
    ScriptChange(
        "batch_size", "a batch size twice as large", edits.larger_batches, kind=BATCH_SIZE
    ),
    ScriptChange("mixed_bfloat16", "mixed_bfloat16", edits.set_policy, kind=PRECISION),
    ScriptChange(
        "float32",
        "float32 in place of mixed_float16",
        edits.full_precision,
        ("float16-on-cpu",),
        kind=PRECISION,
    ),
    ScriptChange("cudnn", "layers that cuDNN computes", edits.with_cudnn, ("no-cudnn",)),
    ScriptChange(
        "augmentation",
        "random layers in a parallel map",
        edits.augment_in_map,
        ("augmentation",),
        kind=DRAWS,
    ),
)
BY_NAME = {one.name: one for one in CHANGES}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The changes that the user asks for. only: their names; empty: those that are due.

    allowed: kinds of `ALLOWED`.
    """

    only: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    def check(self) -> None:
        """Check the names of the changes.

        Raises:
            BadInputError: there is none of a name.
        """
        known = (LIVE, *BY_NAME)
        if unknown := next((one for one in self.only if one not in known), ""):
            raise BadInputError(f"no change {unknown!r}: {', '.join(known)}")

    @property
    def is_live(self) -> bool:
        """True where settings are switched while the script trains."""
        return not self.only or LIVE in self.only

    @property
    def needs_profile(self) -> bool:
        """True where a profile of the step finds what an allowed change is a remedy of."""
        return not _PROFILED.isdisjoint(self.allowed)

    @property
    def restarts(self) -> bool:
        """True where the script may run again."""
        return not self.only or any(one != LIVE for one in self.only)

    def changes(self, losses: Sequence[Finding]) -> list[ScriptChange]:
        """Return the changes to try by restarts of a script with these losses."""
        if self.only:
            return [BY_NAME[one] for one in self.only if one != LIVE]
        return [one for one in CHANGES if one.is_due(losses, self.allowed)]
