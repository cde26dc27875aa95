"""The timed copy of batches to a device: the parts it copies, its failures, and the training it
must not change.

The CPU stands in for the GPU: TensorFlow then copies nothing, and all else is the same.
"""

import gc
import math
import platform
import threading
import time
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras_fixtures import determinism
from tests.runs.folders import make_writer
from tests.runs.processes import wait_until
from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched, SwitchFailed
from tfwatch.core.knobs import NotTimed
from tfwatch.runs.control import Control
from tfwatch.runs.requests import SwitchRequest
from tfwatch.runs.run import open_run
from tfwatch.tfdata import live_switch, work_ahead
from tfwatch.watch.fit.stepping import device_copy
from tfwatch.watch.fit.stepping.batch_step import BatchStep, Placement
from tfwatch.watch.fit.stepping.device_copy import LEAST_BYTES, DeviceCopy, TimedCopy
from tfwatch.watch.fit.stepping.instances import BesideTraining
from tfwatch.watch.fit.switching import requested_switches

pytestmark = pytest.mark.tensorflow
#: The CPU as TensorFlow lists it.
HOST = "/device:CPU:0"


@pytest.fixture(autouse=True)
def ordinary_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the CPU to itself take no time."""
    monkeypatch.setattr(device_copy, "_PINNED", math.inf)


def batch_of(**parts: int) -> list[Any]:
    """Return a flat batch with so many elements of each type."""
    return [tf.zeros(count, kind) for kind, count in parts.items()]


def placed(
    is_known: bool = False,
    why_in_call: NotTimed | None = None,
    *,
    draws: bool = False,
    build: Any = lambda _: None,
) -> Placement:
    """Return the place of the batches of a step."""
    step: Any = SimpleNamespace(is_ready=True, draws_random=lambda: draws, build=build)
    return Placement(lambda: step, is_known, why_in_call)


def test_only_large_parts_that_the_gpu_takes_are_copied() -> None:
    copy = DeviceCopy(HOST)
    copy.begin(batch_of(float32=LEAST_BYTES, uint8=LEAST_BYTES, int64=64, int32=LEAST_BYTES))

    assert copy.copied_bytes == {"float32": 4 * LEAST_BYTES, "uint8": LEAST_BYTES}
    assert copy(batch_of(float32=8, uint8=8, int64=8, int32=8)) >= 0


def test_small_batches_are_not_copied_and_the_run_says_so() -> None:
    writer = make_writer(None)
    copy = TimedCopy(writer, DeviceCopy(HOST), placed())

    assert np.isnan([copy(batch_of(float32=8)) for _ in range(2)]).all()
    assert writer.manifest().copy_not_timed == NotTimed.SMALL.value


def test_a_copy_that_fails_ends_its_timing_and_nothing_else() -> None:
    writer = make_writer(None)
    copy = TimedCopy(writer, DeviceCopy("/no such device"), placed())

    assert np.isnan([copy(batch_of(float32=LEAST_BYTES)) for _ in range(2)]).all()
    assert "no such device" in writer.manifest().copy_not_timed
    assert writer.manifest().copied_bytes == {}


def test_a_cpu_has_nothing_to_copy_to(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(trainable_variables=[])
    assert device_copy.find_device(model, eager=False, is_flat=True) is NotTimed.CPU

    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind: [SimpleNamespace(name="/device:GPU:0")]
    )
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert device_copy.find_device(model, eager=False, is_flat=True) is NotTimed.UNIFIED

    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert device_copy.find_device(model, eager=True, is_flat=True) is NotTimed.EAGER
    assert (
        device_copy.find_device(model, eager=False, is_flat=False, is_spread=True)
        is NotTimed.SPREAD
    )
    assert device_copy.find_device(model, eager=False, is_flat=False) is NotTimed.NOT_PLAIN
    assert (
        device_copy.find_device(model, eager=False, is_flat=True) is NotTimed.ELSEWHERE
    )  # operations run on the CPU


def train(
    folder: Path | None, switches: dict[int, dict[str, Any]], at_end: Any = lambda *_: None
) -> tuple[Any, Any]:
    """Train on batches of 1 MB, the last one smaller; return losses and weights, and the run.

    at_end: of each batch, called with its number.
    """
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((64, 64, 3)), keras.layers.AveragePooling2D(8), keras.layers.Flatten()]
    )
    model.add(keras.layers.Dense(4))
    model.compile("sgd", "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=(210, 64, 64, 3)).astype("float32")
    watch = Watch(folder) if folder else None
    losses: list[float] = []

    def end(batch: int, logs: Any) -> None:
        losses.append(logs["loss"])
        if watch and batch in switches:
            watch.set(**switches[batch])
        at_end(batch, logs)

    callbacks = [
        keras.callbacks.LambdaCallback(on_train_batch_end=end),
        *([watch] if watch else []),
    ]
    data = tf.data.Dataset.from_tensor_slices((x, x[:, 0, 0, :1])).batch(24)
    model.fit(data, epochs=2, verbose=0, callbacks=callbacks)
    return (losses, [one.tobytes() for one in model.get_weights()]), open_run(
        watch.run_path
    ) if watch and watch.run_path else None


@pytest.mark.parametrize(
    ("knob", "values"), [("device_prefetch", (2, "off", 1)), ("pinned", (True, False, True))]
)
def test_training_is_the_same_with_copies_and_with_their_knobs_switched(
    knob: str, values: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(work_ahead, "DEVICE", "/CPU:0")
    monkeypatch.setattr(device_copy, "find_device", lambda *_, **__: HOST)
    monkeypatch.setattr(requested_switches, "why_no_device_prefetch", lambda: None)
    monkeypatch.setattr(BesideTraining, "is_over", lambda _: True)
    with determinism(False):  # it forbids the clock of the stamps
        stock, _ = train(None, {})
        watched, run = train(
            tmp_path, {at: {knob: value} for at, value in zip((2, 4, 6), values, strict=True)}
        )

    assert watched == stock
    assert np.isfinite(run.steps["copy_ms"]).all()
    assert (run.steps["copy_ms"] + run.steps["dispatch_ms"] <= run.steps["compute_ms"]).all()
    assert run.manifest.copied_bytes == {"float32": 24 * 64 * 64 * 3 * 4}
    switches = [event for event in run.events if type(event).__name__ == "PipelineSwitched"]
    assert [event.knob for event in switches] == [knob] * len(switches)
    assert [event.new for event in switches][:2] == ["2" if values[0] == 2 else "on", "off"]


@pytest.mark.parametrize(
    ("built_after", "fails", "kind", "step", "why"),
    [
        pytest.param(6, False, "PipelineSwitched", 7, "", id="in the epoch"),
        pytest.param(12, False, "PipelineSwitched", 13, "", id="in the next epoch"),
        pytest.param(6, True, "SwitchFailed", 3, "RuntimeError: no", id="never"),
        # It is asked for again in the second epoch.
        pytest.param(99, False, "SwitchFailed", 12, "the run ended before", id="too late"),
    ],
)
def test_a_prefetch_to_the_device_waits_until_the_step_is_built_for_it(
    built_after: int,
    fails: bool,
    kind: str,
    step: int,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(work_ahead, "DEVICE", "/CPU:0")
    monkeypatch.setattr(device_copy, "find_device", lambda *_, **__: HOST)
    monkeypatch.setattr(requested_switches, "why_no_device_prefetch", lambda: None)
    go_on, calls, devices = threading.Event(), [], []
    real = BatchStep.build

    def build(step: BatchStep, batch: Any) -> None:
        go_on.wait(10)
        devices.append([part.device[-5:] for part in batch])
        if fails:
            raise RuntimeError("no")
        real(step, batch)

    def let_go(batch: int, _: Any) -> None:
        calls.append(batch)
        if len(calls) == built_after:
            go_on.set()
            _await_warm_up()

    monkeypatch.setattr(BatchStep, "build", build)
    with determinism(False):
        stock, _ = train(None, {})
        watched, run = train(tmp_path, {2: {"device_prefetch": 2}}, let_go)
    go_on.set()
    _await_warm_up()

    assert watched == stock
    assert devices == [["CPU:0", "CPU:0"]]
    event = next(one for one in run.events if isinstance(one, (PipelineSwitched, SwitchFailed)))
    assert (type(event).__name__, event.step) == (kind, step)
    assert why in getattr(event, "reason", "")
    (note,) = (one.text for one in run.events if "TensorFlow has built" in getattr(one, "text", ""))
    assert "the switch takes effect once" in note


def _await_warm_up() -> None:
    wait_until(lambda: "tfwatch-warm-up" not in {one.name for one in threading.enumerate()})


@pytest.mark.parametrize(
    ("knob", "value", "is_refused"),
    [
        ("device_prefetch", "2", True),
        ("device_prefetch", "off", True),
        ("pinned", "on", True),
        ("pinned", "off", False),
    ],
)
def test_of_a_step_that_draws_random_numbers_only_what_moves_its_batches_is_refused(
    knob: str, value: str, is_refused: bool
) -> None:
    stages = SimpleNamespace(use=lambda _: None)
    session: Any = SimpleNamespace(
        writer=make_writer(None), control=Control(), stages=stages, py_dataset=None
    )
    switches = requested_switches.RequestedSwitches(session, lambda _: None, lambda _: None)
    switches.placement = placed(True, NotTimed.DRAWS, draws=True)
    why = switches._why_not_copied(SwitchRequest(knob, value, by="key"))
    assert why == (NotTimed.DRAWS.value if is_refused else "")


def test_a_step_that_draws_random_numbers_keeps_the_place_of_its_batches() -> None:
    """TensorFlow's instances of it would each draw their own."""
    placement = placed(draws=True)
    assert placement.why_not("device_prefetch") is NotTimed.DRAWS
    assert placement.why_not("pinned") is None


def timed(monkeypatch: pytest.MonkeyPatch, *, is_ahead: bool, copy_ms: float = 8.0) -> Any:
    """Return a copy of which each takes no time, by steps of 10 ms, after 40 of them."""
    monkeypatch.setattr(DeviceCopy, "is_there", lambda *_: is_ahead)
    monkeypatch.setattr(DeviceCopy, "time_like", lambda *_, **__: copy_ms * 1e6)
    copy = TimedCopy(make_writer(None), DeviceCopy(HOST), placed())
    for n in range(40):
        copy(batch_of(float32=LEAST_BYTES))
        copy.wait_ns(n * 10_000_000, n * 10_000_000, lambda: None)
    return copy


@pytest.mark.parametrize(
    ("ready_ms", "copied_ms"),
    [
        pytest.param(3, 4, id="for the pipeline, then for the copy"),
        pytest.param(-5, 7, id="for a copy that had begun"),
        pytest.param(9, 0, id="a clock that was set"),
    ],
)
def test_a_fetch_waits_for_the_copy_once_the_batch_is_ready(
    ready_ms: int, copied_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = timed(monkeypatch, is_ahead=True)
    assert copy.wait_ns(0, 7_000_000, lambda: ready_ms * 1_000_000) == copied_ms * 1_000_000


@pytest.mark.parametrize(
    ("is_ahead", "copy_ms", "copied_ms"),
    [
        pytest.param(True, 8.1, 7, id="no batch comes more often than its copy"),
        pytest.param(True, 7.9, 0, id="the rest is unknown"),
        pytest.param(False, 8.1, 0, id="nothing is copied ahead"),
    ],
)
def test_without_a_stamp_a_wait_is_for_a_copy_that_fills_the_step(
    is_ahead: bool, copy_ms: float, copied_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = timed(monkeypatch, is_ahead=is_ahead, copy_ms=copy_ms)
    assert copy.wait_ns(400_000_000, 407_000_000, lambda: None) == copied_ms * 1_000_000


@pytest.mark.parametrize(
    ("gb_in_s", "was", "draws", "why"),
    [
        pytest.param((6.0, 6.0), None, False, None, id="ordinary memory: the call would wait too"),
        pytest.param((4.0, 30.0), None, False, NotTimed.PINNED, id="pinned, the first copy slow"),
        pytest.param((30.0, 30.0), None, True, NotTimed.DRAWS, id="pinned, and it draws numbers"),
        pytest.param((30.0, 30.0), False, False, None, id="pinned, of a step that had other"),
        pytest.param((6.0, 6.0), True, True, NotTimed.DRAWS, id="the same, and it draws numbers"),
    ],
)
def test_batches_in_pinned_memory_are_left_to_the_call(
    gb_in_s: tuple[float, float],
    was: bool | None,
    draws: bool,
    why: NotTimed | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step's instances for host and GPU draw numbers apart."""
    monkeypatch.setattr(device_copy, "_PINNED", 12.0)
    took_ns = (4 * LEAST_BYTES / rate for rate in (*gb_in_s, *[gb_in_s[1]] * 9))
    made: list[Any] = []

    def copy_apart(_: Any, batch: Any) -> float:
        made.append(batch)
        return next(took_ns)

    monkeypatch.setattr(DeviceCopy, "__call__", copy_apart)
    known = was is not None, NotTimed.PINNED if was else None
    writer, placement = make_writer(None), placed(*known, draws=draws)
    copy = TimedCopy(writer, DeviceCopy(HOST), placement)
    batches = [batch_of(float32=LEAST_BYTES) for _ in range(5)]
    times = [copy(batch) for batch in batches]

    assert placement.why_in_call is why
    assert [any(one is batch for one in made) for batch in batches] == [why is None] * 5
    assert np.isnan(times).all() == (why is not None)
    assert writer.manifest().copy_not_timed == (why.value if why else "")
    copied_ms = 4 * LEAST_BYTES / gb_in_s[1] / 1e6
    is_forecast = why is NotTimed.PINNED
    assert writer.manifest().copy_in_call_ms({}) == (copied_ms if is_forecast else None)
    assert placement.why_not("pinned") is why
    assert placement.why_not("device_prefetch") is (None if is_forecast else why)


@pytest.mark.parametrize("failure", ["", "RuntimeError: no"])
def test_copies_leave_the_call_once_tensorflow_has_built_the_step_for_them(
    failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow would build it within a call, for 11 s."""
    monkeypatch.setattr(DeviceCopy, "__call__", lambda *_: 1e9)
    go_on, built = threading.Event(), []

    def build(batch: Any) -> None:
        built.append(go_on.wait(10))
        if failure:
            raise RuntimeError("no")

    writer, placement = make_writer(None), placed(True, NotTimed.PINNED, build=build)
    copy = TimedCopy(writer, DeviceCopy(HOST), placement)
    batch = batch_of(float32=LEAST_BYTES)
    assert np.isnan([copy(batch) for _ in range(3)]).all()
    assert writer.manifest().copy_not_timed == NotTimed.BUILDS.value
    assert placement.why_not("device_prefetch") is None  # it waits too

    go_on.set()
    _await_warm_up()
    assert np.isnan([copy(batch) for _ in range(2)]).all() == bool(failure)
    assert writer.manifest().copy_not_timed == (NotTimed.NOT_BUILT.value if failure else "")
    assert built == [True]


def test_batches_in_pinned_memory_are_timed_while_they_are_copied_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_there = iter([False] * 3 + [True] * 3 + [False] * 2)
    monkeypatch.setattr(DeviceCopy, "is_there", lambda *_: next(is_there))
    writer, found = make_writer(None), []
    placement = placed(True, NotTimed.PINNED)
    monkeypatch.setattr(device_copy, "_PINNED", 12.0)
    monkeypatch.setattr(DeviceCopy, "__call__", lambda *_: 1.0)
    copy = TimedCopy(writer, DeviceCopy(HOST), placement)
    for _ in range(7):
        is_timed = bool(np.isfinite(copy(batch_of(float32=LEAST_BYTES))))
        now = writer.manifest()
        found.append((is_timed, now.copied_ahead, now.copy_not_timed))

    in_call, ahead = (False, False, NotTimed.PINNED.value), (True, True, "")
    assert found == [in_call] * 2 + [ahead] * 3 + [in_call] * 2


@pytest.mark.parametrize("pinned", [True, False])
def test_batches_that_come_copied_are_timed_as_of_the_memory_that_they_come_from(
    pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: list[Any] = []

    def copy_apart(_: Any, batch: Any) -> float:
        shapes.append([part.shape.as_list() for part in batch])
        return 1e6

    monkeypatch.setattr(DeviceCopy, "is_there", lambda *_: True)
    monkeypatch.setattr(DeviceCopy, "__call__", copy_apart)
    writer = make_writer(None)
    copy = TimedCopy(writer, DeviceCopy(HOST), placed(), lambda: pinned)
    copy(batch_of(float32=LEAST_BYTES, int64=8))

    first = [[1, LEAST_BYTES], [1, 8]] if pinned else [[LEAST_BYTES], [8]]
    assert shapes[0] == first  # made by a fused map and batch, with a first axis
    assert (writer.manifest().copied_ahead, writer.manifest().copy_ms) == (True, 1.0)


def test_a_step_and_the_place_of_its_batches_are_freed_without_garbage_collection() -> None:
    spec = live_switch.BatchSpec(tf.TensorSpec([1]), plain=True)
    step = BatchStep(lambda batches: next(batches), spec, eager=False)
    step([tf.zeros(1)])
    assert step.placement.may_change()
    step.placement.ahead = BesideTraining(partial(step.build, [tf.zeros(1)]))
    wait_until(step.placement.ahead.is_over)
    assert not step.placement.ahead.failure
    freed = weakref.ref(step)
    gc.collect()
    gc.disable()
    try:
        del step
        assert freed() is None
    finally:
        gc.enable()


def test_copies_ahead_do_not_count_as_copies_by_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    is_there = iter([False] * 5 + [True] * 10 + [False] * 10)
    monkeypatch.setattr(DeviceCopy, "is_there", lambda *_: next(is_there))
    writer = make_writer(None)
    copy, ahead = TimedCopy(writer, DeviceCopy(HOST), placed()), []
    for _ in range(24):
        copy(batch_of(float32=LEAST_BYTES))
        ahead.append(writer.manifest().copied_ahead)

    assert ahead == [False] * 4 + [True] * 10 + [False] * 10
    assert writer.manifest().copy_ms is None  # 14 copies by a step: the median is that of 15


@pytest.mark.parametrize("slow", ["pipeline", "copy"])
def test_a_wait_for_device_prefetch_is_split_where_the_batch_is_ready(
    slow: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The copy to the CPU takes no time, so a stage behind it takes it."""

    def late(*batch: Any) -> Any:
        tf.numpy_function(lambda: time.sleep(0.02), [], [])
        return batch

    monkeypatch.setattr(
        live_switch,
        "on_device",
        lambda batches, _: batches.map(late) if slow == "copy" else batches,
    )
    monkeypatch.setattr(device_copy, "find_device", lambda *_, **__: HOST)
    monkeypatch.setattr(requested_switches, "why_no_device_prefetch", lambda: None)
    monkeypatch.setattr(BesideTraining, "is_over", lambda _: True)
    with determinism(False):  # it forbids the clock of the stamps
        run = fit_slowly(tmp_path, late if slow == "pipeline" else None)
    waited, copied = (float(np.median(run.steps[name][3:])) for name in ("wait_ms", "copy_ms"))

    assert (waited > 15) == (slow == "pipeline")
    assert (copied > 15) == (slow == "copy")
    assert min(waited, copied) < 8


def fit_slowly(folder: Path, late: Any) -> Any:
    """Train on batches of 1 MB with device prefetch, and return the run."""
    model = keras.Sequential(
        [keras.Input((64, 64, 3)), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse", jit_compile=False)
    data = tf.data.Dataset.from_tensors((tf.zeros((32, 64, 64, 3)), tf.zeros((32, 1)))).repeat(12)
    watch = Watch(folder)
    watch.set(device_prefetch=2)
    model.fit(data.map(late) if late else data, verbose=0, callbacks=[watch])
    return open_run(watch.run_path or "")
