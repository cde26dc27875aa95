"""The program that times one workload's step on one device: `tfwatch bench` runs it once a round.

Its output is that of `trial_program`: one JSON object a line on stdout, TensorFlow's log on stderr.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.checks.trial_program import STEP_BEGINS, STEP_ENDS, write_result
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError, reason
from tfwatch.core.knobs import Knobs
from tfwatch.sensors.cpu import CpuSensor
from tfwatch.sensors.host import ProcessSensor
from tfwatch.workloads import model_parts, registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.workloads.workload import Prepared, Settings

#: Steps before the timed ones, in which the allocator, convolution algorithms and caches settle.
_WARM_UP = 3
#: The least and the most timed steps within the requested seconds.
_LEAST, _MOST = 5, 2000


@dataclass(frozen=True, slots=True)
class Spec:
    """A configuration to time. device and mode: as in `Settings`. None is the workload's default."""

    workload: str
    device: str
    mode: str
    batch_size: int | None = None
    size: int | None = None
    seconds: float = 2.0

    def settings(self) -> Settings:
        """Return the settings that `tfwatch train` would use.

        Raises:
            BadInputError: the workload does not take them.
        """
        names = ("device", "mode", "batch_size", "size")
        return registry.settle(
            self.workload, {"seed": 1, **{name: getattr(self, name) for name in names}}
        )


def encode(spec: Spec) -> str:
    """Encode a configuration for the command line."""
    return json.dumps(asdict(spec))


def main(text: str) -> None:
    """Time a configuration; a failure becomes the `error` of the stage `measured`."""
    spec = Spec(**json.loads(text))
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    warnings.simplefilter("ignore")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    write_result(results, begin="import")
    import tensorflow as tf

    write_result(results, begin="measured")
    write_result(results, end="measured", **_measure(tf, spec))
    write_result(results, end="all")


def _measure(tf: Any, spec: Spec) -> dict[str, Any]:
    from tfwatch.training.setup import NoGpuError, choose_device, placed_on_device

    settings = spec.settings()
    try:
        choose_device(settings)
        tf.debugging.set_log_device_placement(spec.device == "gpu")
        with placed_on_device(settings):
            step, examples = step_of(spec.workload, settings)
            return {"examples": examples, **_times(tf, step, spec.seconds)}
    except BadInputError as error:
        return {"error": str(error), "no_gpu": isinstance(error, NoGpuError)}
    except Exception as error:  # noqa: BLE001  a step may raise anything, and the error is this process' result
        return {"error": reason(error).strip()[:500]}


def step_of(workload: str, settings: Settings) -> tuple[Callable[[], Any], int]:
    """Return the call to time and its examples (0 where unknown): the workload's `work`, else one training step."""
    module = registry.load(workload)
    work = getattr(module, "work", None)
    if work is not None:
        return model_parts.in_mode(work(settings), settings), 1
    prepared = module.prepare(settings, lambda _: None)
    return _training_step(prepared, bool(registry.find(workload).fast))


def _training_step(prepared: Prepared, fast: bool) -> tuple[Callable[[], Any], int]:
    """Return Keras' own step on one batch in memory, with its metrics read as Keras reads them."""
    from tfwatch.tfdata.live_switch import BatchSpec
    from tfwatch.watch.fit.stepping.step_runners import BatchStep, on_host
    from tfwatch.watch.step_log import count_examples

    batches = prepared.pipeline(prepared.source, Knobs(fast_pipeline=fast))
    batch = next(iter(batches))
    model = prepared.model()
    if prepared.loop:
        body = prepared.loop(model)
        return lambda: on_host(body.train(batch)), count_examples(batch) or 0
    model.make_train_function()
    shape = BatchSpec(batches.element_spec, plain=False)
    step = BatchStep(model.train_function, shape, eager=model.run_eagerly)
    return lambda: on_host(step(batch)), count_examples(batch) or 0


def _times(tf: Any, step: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return the first call's time, with trace and compile, and those of the timed calls; each drains the device."""
    sys.stderr.write(f"{STEP_BEGINS}\n")
    sys.stderr.flush()
    first_ms = timed_ms(tf, step)
    sys.stderr.write(f"{STEP_ENDS}\n")
    sys.stderr.flush()
    tf.debugging.set_log_device_placement(False)
    for _ in range(_WARM_UP):
        timed_ms(tf, step)
    steps_ms: list[float] = []
    others = OtherPrograms()
    end_ns = SYSTEM.now_ns() + seconds * 1e9
    while len(steps_ms) < _LEAST or (SYSTEM.now_ns() < end_ns and len(steps_ms) < _MOST):
        steps_ms.append(timed_ms(tf, step))
    return {"first_ms": first_ms, "steps_ms": steps_ms, "others_cores": others.cores()}


class OtherPrograms:
    """The cores that other programs use from construction on."""

    def __init__(self) -> None:
        self._all, self._own = CpuSensor(), ProcessSensor()
        self._read()

    def _read(self) -> float:
        now_ns = SYSTEM.now_ns()
        return self._all.read(now_ns)["cpu_cores"] - self._own.read(now_ns)["process_cores"]

    def cores(self) -> float | None:
        """Return the cores that others used since construction; None where the system does not report them."""
        cores = self._read()
        return max(cores, 0.0) if math.isfinite(cores) else None


def timed_ms(tf: Any, step: Callable[[], Any]) -> float:
    """Time one call until the device is drained, in milliseconds."""
    begin_ns = SYSTEM.now_ns()
    step()
    tf.test.experimental.sync_devices()
    return (SYSTEM.now_ns() - begin_ns) / 1e6
