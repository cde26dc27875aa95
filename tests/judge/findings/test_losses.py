"""The losses of a run: what each kind says first, the seconds that it claims, and their rank; none
of them is claimed twice."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.losses import (
    ADAM,
    BATCH,
    COPIES,
    GAINS,
    LAUNCHES,
    LOOPS,
    MULTIPLIES,
    UNEVEN,
    UPDATES,
    kinds,
    losing,
)
from tests.judge.profiles import PROFILE, profile_of
from tests.judge.situations import RUNNING, changed, split
from tfwatch.core.events import LOOP, OperationTime
from tfwatch.core.rows import Flag
from tfwatch.core.script_code import CodeEdit
from tfwatch.judge.findings.finding import RemedyForecast, Tone
from tfwatch.judge.findings.ranking import find_losses
from tfwatch.judge.findings.situation import Situation, SourceKind
from tfwatch.judge.other_programs import OtherPrograms
from tfwatch.judge.regime import CodeTime, Regime
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.stalls import Stall
from tfwatch.judge.steps.time_breakdown import PARTS, TimeSpent
from tfwatch.runs.format import Layer, Machine, ModelFacts, ThresholdMetric
from tfwatch.screens.text import shorten_clauses


def code(phase: str, seconds: float, callback: str = "", call: str = "") -> CodeTime:
    return CodeTime(phase, callback, call, "train.py:41 in load", seconds)


PLOTTER = (code("HOST", 4.0, "Plotter"), code("HOST", 1.0))
CACHE = Stage("cache", "MemoryCache", 0.1)
TAKE = Stage("take(640)", "FiniteTake", 0.1)
EVEN = split(0.0, 10.0, 0.0)
STARVED = split(20.0, 10.0, 0.0)
READS = Stage("map(read)", "ParallelMapV2", 60.0, 2.0)
FOUR_CORES = msgspec.structs.replace(RUNNING.manifest, machine=Machine(cores=4))
AHEAD = Stage("prefetch", "Prefetch", math.nan)
HALVES = ModelFacts(
    float16_convolutions=[Layer("body/conv", "Conv2D"), Layer("depthwise", "DepthwiseConv2D")]
)
COMPARES = ModelFacts(threshold_metrics=[ThresholdMetric("auc", "AUC", 800)])
CONVOLVES = OperationTime("backward", "body/conv", "Conv2D", "Conv2DBackpropFilter", 5.0)
BY_CHANNEL = OperationTime("forward", "depthwise", "DepthwiseConv2D", "DepthwiseConv2dNative", 2.0)
CALLS = OperationTime("forward", "own", "Own", "PyFunc", 3.0, "train.py:41 in call")
CALLS_TOO = OperationTime("loss", "", "", "EagerPyFunc", 2.0)
ROTATES = OperationTime("forward", "rotation", "RandomRotation", "Transform", 6.0)
LOOKS_UP = OperationTime("forward", "words", "StringLookup", "LookupTableFindV2", 6.0, on_host=True)
NO_GPU = "a GPU or a smaller model"


@pytest.mark.parametrize(
    ("kind", "now", "sentence", "lost_s", "advice"),
    [
        (
            "retracing",
            losing(compile_s=6.0, traces=12, trace_change="input 0: shape (8, 31) -> (8, 47)"),
            (
                "11 of 1 000 steps traced again, 5.5 s: each new signature of the step is a new"
                " trace, input 0: shape (8, 31) -> (8, 47)"
            ),
            5.5,
            "pad batches to a few lengths",
        ),
        (
            "retracing",
            losing(compile_s=6.0, traces=12, trace_change="argument 1: int 3 -> 4"),
            "11 of 1 000 steps traced again",
            5.5,
            "pass tensors in place of Python numbers",
        ),
        (
            "new-models",
            losing(compile_s=8.0, traces=5, models=5, fits=5),
            "5 models in 5 fits: each new model is traced and compiled again, 6.4 s in all",
            6.4,
            "make and compile the model once, before the loop",
        ),
        (
            "eager",
            losing(op_by_op=True),
            "run_eagerly=True runs operations one by one: Python takes 50 % of 10.0 ms",
            8.75,
            "leave run_eagerly=True out of compile",
        ),
        (
            "take-after-cache",
            losing(data_wait_s=6.0, epochs=3, stages=StageTable(0, (CACHE, TAKE))),
            "each epoch fills the cache again, 6.0 s in all",
            6.0,
            ".take() before .cache()",
        ),
        (
            "take-after-cache",
            losing(
                data_wait_s=20.0,
                first_batch_s=2.0,
                epoch_end_s=1.0,
                split=STARVED,
                stages=StageTable(0, (READS, CACHE, TAKE, AHEAD)),
                log=frozenset({"cache dropped"}),
                manifest=FOUR_CORES,
            ),
            "each epoch fills the cache again, 26.3 s in all",
            23.0 + 10.0 * 2 / (2 + 4),
            ".take() before .cache()",
        ),
        (
            "stall",
            losing(data_wait_s=6.0, stalls=[Stall(9, 1, 1, 1800.0, "swap")] * 3),
            "3 stalls of 1.8 s each: swap; between them the pipeline keeps up, ",
            5.4,
            "hides short stalls only",
        ),
        (
            "stall",
            losing(
                data_wait_s=6.0,
                epochs=3,
                stalls=[Stall(9, 1, 1, 1800.0, "", place="feed.py:13 in read, below map(load)")]
                * 3,
            ),
            "3 stalls of 1.8 s each, last at step 9: feed.py:13 in read, below map(load); ",
            5.4,
            "log what read gets when feed.py:13 takes over 1 s; skip, copy or repair that",
        ),
        (
            "stall",
            losing(data_wait_s=8.4, stalls=[Stall(9, 1, 1, 1800.0, "swap")] * 3),
            "3 stalls of 1.8 s each: swap; between them a step waits 3.0 ms for data in the mean",
            5.4,
            "hides short stalls only",
        ),
        (
            "kept-order",
            losing(
                data_wait_s=20.0,
                split=UNEVEN,
                stages=StageTable(0, (Stage("map(read)", "ParallelMapV2", 8.0, 4.0), BATCH)),
            ),
            "some elements of map(read) take long, and others wait for them",
            20.0,
            "deterministic=False on the map: batches then come in another order",
        ),
        (
            "generator-rows",
            losing(
                data_wait_s=20.0,
                split=STARVED,
                stages=StageTable(
                    0, (Stage("from_generator", "FlatMap python", 3.2), BATCH, AHEAD)
                ),
            ),
            "from_generator yields single rows: 100 us each",
            19.0 + 10.0 / 2,
            "yield batches of 32 from the generator",
        ),
        (
            "cheap-maps",
            losing(
                data_wait_s=5.0, stages=StageTable(0, (Stage("map(scale)", "Map", 0.96), BATCH))
            ),
            "each example takes 30 us: map(scale), most of it for its calls",
            5.0 * 0.96 / 1.06,
            ".batch(32) before the map",
        ),
        (
            "input-bound",
            losing(data_wait_s=7.0),
            "a step waits 7.0 of 17.0 ms for data in the mean",
            7.0,
            ".prefetch(tf.data.AUTOTUNE)",
        ),
        (
            "input-bound",
            losing(
                data_wait_s=7.0, split=split(7.0, 10.0, 0.0), forecasts={("prefetch", "4"): GAINS}
            ),
            "each step waits 7.0 of 17.0 ms for data",
            5.0,
            ".prefetch(4): 17.0 to about 12.0 ms",
        ),
        (
            "copy-bound",
            losing(copy_s=5.0, split=COPIES, accelerated=True),
            "copying batches to the GPU takes 5.0 of 15.0 ms/step",
            5.0,
            "copy fewer bytes",
        ),
        (
            "callback",
            losing(host_s=5.0, code=PLOTTER),
            "callback Plotter takes 4.0 s, 4.0 ms/step (train.py:41 in load)",
            4.0,
            "do the work of Plotter every 100th step",
        ),
        (
            "callback",
            losing(host_s=5.0, code=PLOTTER, host_growth_ms=(1.0, 9.0)),
            (
                "callback Plotter takes 4.0 s, 4.0 ms/step (train.py:41 in load); it grows: 1.0"
                " at first, 9.0 ms/step now"
            ),
            4.0,
            "keep a running figure in Plotter",
        ),
        (
            "callback",
            losing(host_s=5.0, code=PLOTTER, slow_host=(3, 1600.0)),
            "callback Plotter takes 4.8 s, 1.6 s in each of 3 of 1 000 steps (train.py:41 in load)",
            4.8,
            "shorten the slow call in Plotter, or run it in a thread of its own",
        ),
        (
            "callback",  # every 20th step is often: fewer of them are fewer seconds
            losing(host_s=5.0, code=PLOTTER, slow_host=(50, 96.0)),
            "callback Plotter takes 4.0 s, 4.0 ms/step",
            4.0,
            "do the work of Plotter every 100th step",
        ),
        (
            "callback",
            losing(host_s=5.0, code=(code("HOST", 4.0, "Collector", "gc.collect"),)),
            "callback Collector takes 5.0 s",
            5.0,
            "no gc.collect() in Collector",
        ),
        (
            "callback",
            losing(epoch_end_s=5.0, code=(code("EPOCH_END", 4.0, "Report"),)),
            "callback Report takes 5.0 s, 0.5 s an epoch",
            5.0,
            "do less in Report.on_epoch_end",
        ),
        (
            "host-bound",
            losing(host_s=8.0),
            "host time takes 8.0 of 18.0 ms/step, in callbacks and Python between the steps",
            7.0,
            "log less often, or compile(steps_per_execution=8): about 11.0 ms/step",
        ),
        (
            "host-bound",
            losing(host_s=8.0, loop="train.py:22", code=(code("HOST", 4.0),)),
            "host time takes 8.0 of 18.0 ms/step, most of it at train.py:41 in load",
            8.0,
            "do less at train.py:41 in load after each step",
        ),
        (
            "validation",
            losing(
                validation_s=10.0,
                epoch_end_s=5.0,
                code=(code("EPOCH_END", 4.0, call="fit"), code("EPOCH_END", 1.0, "Report")),
            ),
            "validation takes 1.0 s after each epoch of 1.5 s",
            11.2,
            "validation_freq=5",
        ),
        (
            "first-batch",
            losing(first_batch_s=5.0, origin=SourceKind.TF_DATA),
            "the first batch takes 0.5 s per epoch of 100 steps: a new iterator",
            5.0,
            "longer epochs (.repeat() with steps_per_epoch)",
        ),
        (
            "shuffle-fill",
            losing(first_batch_s=5.0, fills_shuffle=True, filled_shuffle="shuffle(5000)"),
            "the first batch takes 0.5 s per epoch of 100 steps: filling shuffle(5000)",
            5.0,
            ".repeat() right after .shuffle(5000)",
        ),
        (
            "epoch-end",
            losing(epoch_end_s=5.0),
            "an epoch's end takes 0.5 s per epoch of 100 steps",
            5.0,
            "do less in on_epoch_end",
        ),
        (
            "between-fits",
            losing(between_fits_s=9.0, fits=10, code=(code("BETWEEN_FITS", 9.0),)),
            "9.0 s between 10 fits of 100 steps: 100 % of it at train.py:41 in load",
            9.0,
            "one data set that does it while the model trains",
        ),
        (
            "between-fits",
            losing(between_fits_s=9.0, fits=10, code=(code("BETWEEN_FITS", 9.0, "", "predict"),)),
            (
                "9.0 s between 10 fits of 100 steps: 100 % of it at train.py:41 in load, which"
                " calls predict"
            ),
            9.0,
            "model.predict_on_batch in place of model.predict,",
        ),
        (
            "metric",
            losing(profile=PROFILE),
            "metric auc takes 20 % of compute: 2.0 ms of each step",
            2.0,
            "compute it in validation only",
        ),
        (
            "metric",
            losing(profile=PROFILE, model=COMPARES),
            (
                "metric auc takes 20 % of compute: 2.0 ms of each step, in which it compares with"
                " 800 values"
            ),
            2.0,
            "evenly spaced thresholds, or compute it in validation only",
        ),
        (
            "host-operations",
            losing(profile=profile_of(LOOKS_UP, MULTIPLIES), cores_free=2.0),
            (
                "the GPU waits 60 % of compute for operations on the CPU: LookupTableFindV2, most"
                " of it in words (StringLookup)"
            ),
            6.0,
            "compute them in a map of the data set",
        ),
        (
            "python-in-step",
            losing(profile=profile_of(CALLS, CALLS_TOO, MULTIPLIES, small_ms=1.0)),
            (
                "Python within the step takes 50 % of compute: py_function or numpy_function, most"
                " of it at train.py:41 in call"
            ),
            5.0,
            "TensorFlow's or keras.ops' operations in place of",
        ),
        (
            "augmentation",
            losing(profile=profile_of(ROTATES, MULTIPLIES), cores_free=0.5),
            "rotation augments within the step: 60 % of compute",
            3.0,
            "move it into the input pipeline",
        ),
        (
            "small-operations",
            losing(profile=profile_of(MULTIPLIES, small_ms=6.0)),
            "starting small operations takes 60 % of compute: lstm (LSTM) runs a loop of",
            6 * 0.8 - 1.1,
            "jit_compile=True, or larger batches",
        ),
        (
            "dense-update",
            losing(model=ADAM, profile=profile_of(MULTIPLIES, UPDATES)),
            "Adam updates all rows of items (20 000 x 64), 50 % of compute",
            5.0,
            "an optimizer without moments for the embedding",
        ),
        (
            "dense-update",
            losing(model=ADAM),
            "Adam updates all rows of items (20 000 x 64), about 61 % of compute",
            1000 * 20_000 * 64 * 24 / 5e9,
            "each changes what is trained",
        ),
        (
            "no-cudnn",
            losing(model=LOOPS, profile=profile_of(MULTIPLIES, UPDATES), accelerated=True),
            (
                "lstm (LSTM) and 1 more without cuDNN: recurrent_dropout=0.2, RNN(GRUCell),"
                " unroll=True; 50 % of compute"
            ),
            5.0,
            (
                "keras.layers.GRU in place of RNN(GRUCell) and no unroll=True: the same layer up to"
                " rounding; no recurrent_dropout=0.2: cuDNN then runs the layer, but another model"
            ),
        ),
        (
            "launch-bound",
            losing(split=LAUNCHES, accelerated=True),
            "launching kernels takes 8.0 of 10.0 ms/step, longer than the GPU then computes",
            6.0,
            "compile(steps_per_execution=8)",
        ),
        (
            "idle-tensor-cores",
            losing(
                accelerated=True,
                profile=msgspec.structs.replace(profile_of(MULTIPLIES), float32_ms=2.0),
            ),
            "kernels in float32 take 50 % of compute, and tensor cores idle: 2.0 ms of each step",
            2.5,
            "mixed_float16",
        ),
        (
            # Its steps took 1 ms longer than others: so much shorter are the gaps without it.
            "launch-bound",
            losing(
                split=LAUNCHES,
                accelerated=True,
                profile=msgspec.structs.replace(profile_of(MULTIPLIES), step_ms=11.0, gaps_ms=5.0),
            ),
            "launching kernels takes 8.0 of 10.0 ms/step, the GPU idles 4.0 ms between two kernels",
            4.0,
            "compile(steps_per_execution=8)",
        ),
        (
            "compute-bound",
            losing(data_wait_s=0.1),
            "compute-bound: only 0.1 of 10.1 ms is data wait",
            0.0,
            NO_GPU,
        ),
        (
            "unknown-wait",
            losing(fetches_in_calls=True),
            "10.0 ms/step is compute or data wait",
            0.0,
            "loop over tfwatch.track(dataset)",
        ),
        (
            "few-steps",
            losing(compute_s=0.7, data_wait_s=0.3, epoch_end_s=0.0, unaccounted_s=20.0, steps=50),
            (
                "the unaccounted time takes 20.0 s of 21.0 s; the steps take 1.0 s, and wait 0.3 s"
                " of it for data"
            ),
            0.0,
            "look there first: steps without data wait would save 0.3 s at most",
        ),
        (
            # The first traces, which every run has, are no part of the time that is judged.
            "few-steps",
            losing(
                compute_s=0.7,
                data_wait_s=0.3,
                first_batch_s=5.0,
                compile_s=9.0,
                traces=1,
                steps=50,
                newest=(TimeSpent(steps=25, first_batch_s=5.0), TimeSpent(steps=25)),
            ),
            "the first batch of an epoch takes 5.0 s of 6.0 s; the steps take 1.0 s",
            0.0,
            "look there first",
        ),
    ],
)
def test_a_kind_of_loss_comes_first_with_its_seconds(
    kind: str, now: Situation, sentence: str, lost_s: float, advice: str
) -> None:
    first = find_losses(now)[0]

    assert first.kind == kind
    assert len(shorten_clauses(first.advice, 78)) <= 78  # at 80 columns, with the padding
    assert first.sentence.startswith(sentence)
    assert first.lost_s == pytest.approx(lost_s)
    assert first.share == pytest.approx(now.regime.share(lost_s))
    assert advice in first.advice


@pytest.mark.parametrize(
    ("now", "step_ms", "basis"),
    [
        (
            losing(split=EVEN, profile=profile_of(ROTATES, MULTIPLIES), cores_free=0.5),
            6.97,
            "60 % of compute by a profile of 3 steps, 50 % of it beside the steps",
        ),
        (
            losing(split=EVEN, profile=profile_of(MULTIPLIES, small_ms=6.0)),
            5.2,
            "60 % of compute by a profile of 3 steps, of which XLA gave back 80 %",
        ),
        (
            losing(split=EVEN, model=ADAM),
            3.894,
            "29 MB that an update reads and writes; no profile",
        ),
        (
            losing(split=LAUNCHES, accelerated=True),
            4.0,
            "launching takes 80 % of compute; half is hidden",
        ),
    ],
)
def test_a_remedy_in_compute_has_a_forecast_and_what_it_rests_on(
    now: Situation, step_ms: float, basis: str
) -> None:
    forecast = find_losses(now)[0].forecast
    assert isinstance(forecast, RemedyForecast)
    assert now.split
    assert forecast.now_ms == now.split.step.mean
    assert forecast.step_ms == pytest.approx(step_ms, rel=0.01)
    assert forecast.why == basis


def on_cpu(types: list[str] | None, **changes: Any) -> Situation:
    """Return a run with convolutions in float16 on a CPU with instructions for these types."""
    profile = profile_of(CONVOLVES, BY_CHANNEL, UPDATES)
    now = losing(model=HALVES, **{"profile": profile, **changes})
    machine = Machine(cpu_types=types)
    return changed(now, manifest=msgspec.structs.replace(now.manifest, machine=machine))


def test_the_convolution_that_takes_most_is_named() -> None:
    longest = msgspec.structs.replace(BY_CHANNEL, took_ms=50.0)
    (first, *_) = find_losses(on_cpu([], profile=profile_of(CONVOLVES, longest)))
    assert first.brief.startswith("depthwise (DepthwiseConv2D) and 1 more in float16")


@pytest.mark.parametrize(
    ("types", "advice"), [([], "float32: a"), (["bfloat16"], "float32, or bfloat16, which it has:")]
)
def test_convolutions_in_float16_on_a_cpu_without_it_are_a_loss(
    types: list[str], advice: str
) -> None:
    (first,) = find_losses(on_cpu(types))

    sentence = "body/conv (Conv2D) and 1 more in float16, which is slow on this CPU: 64 %"
    assert first.kind == "float16-on-cpu"
    assert first.sentence.startswith(sentence)
    assert first.advice.startswith(advice)
    assert first.lost_s == pytest.approx((0.87 * 5 + 0.5 * 2) / 11 * 10)


def test_float32_takes_five_forward_passes_of_what_is_slow_backward_in_float16() -> None:
    forward = msgspec.structs.replace(CONVOLVES, role="forward", took_ms=0.1)
    (first,) = find_losses(on_cpu([], profile=profile_of(CONVOLVES, forward, UPDATES)))

    assert first.lost_s == pytest.approx((5.1 - 5 * 0.1) / 9.1 * 10)


def test_float16_is_no_loss_where_the_cpu_may_have_it_or_a_gpu_computes() -> None:
    for now in (on_cpu(["float16"]), on_cpu(None), on_cpu([], accelerated=True)):
        assert kinds(now) == ["compute-bound"]
    assert kinds(on_cpu([], profile=None)) == ["compute-bound", "float16-on-cpu"]


def test_python_of_a_metric_is_the_metrics() -> None:
    (first,) = find_losses(
        losing(
            profile=profile_of(OperationTime("metric", "f1", "F1", "EagerPyFunc", 5.0), MULTIPLIES)
        )
    )
    assert first.kind == "metric"


def test_maps_that_fill_a_shuffle_buffer_hide_in_compute_at_most() -> None:
    now = losing(first_batch_s=30.0, fills_shuffle=True, filled_shuffle="shuffle(5000)")
    mapped = changed(now, map_below_shuffle="map(read)")
    for read, given_s in ((now, 30.0), (mapped, 10.0), (changed(mapped, accelerated=True), 10.0)):
        (first, *_) = find_losses(read)
        assert first.kind == "shuffle-fill"
        assert first.lost_s == pytest.approx(given_s)
    assert "model.fit(dataset.repeat(), steps_per_epoch=" in find_losses(mapped)[0].code


def test_steps_that_get_shorter_give_back_a_part_of_the_waits_for_autotuning() -> None:
    newest = tuple(TimeSpent(compute_s=2.0, host_s=4.0, first_batch_s=4.22) for _ in range(3))
    waits = {"epochs": 3, "newest": newest, "first_batch_s": 8.44}

    (first, *_) = find_losses(losing(compute_s=6.0, host_s=12.0, code=PLOTTER, **waits))

    assert first.kind == "callback"
    assert {one.name: one.value for one in first.evidence} == pytest.approx(
        {"host": 12 * 0.8, "epoch_end": 0.0, "first_batch": 8.44 * 12 * 0.8 / 18}
    )


def test_small_operations_without_a_loop_are_no_loss() -> None:
    (limit, _) = find_losses(losing(profile=profile_of(ROTATES, small_ms=6.0), cores_free=0.0))
    assert limit.kind == "compute-bound"


def test_layers_that_augment_where_no_core_is_free_are_a_cause_without_seconds() -> None:
    limit, cause = find_losses(losing(profile=profile_of(ROTATES, MULTIPLIES), cores_free=0.0))
    assert (limit.kind, cause.kind, cause.lost_s) == ("compute-bound", "augmentation", 0.0)
    assert limit.advice.startswith("rotation augments within the step: in a parallel map")


def test_a_loop_over_examples_is_advised_to_work_on_the_whole_batch() -> None:
    loop = msgspec.structs.replace(MULTIPLIES, kind="EachExample", took_ms=9.0, in_loop=True)
    (limit,) = find_losses(losing(profile=profile_of(loop)))
    assert "operations on the whole batch" in limit.advice
    recurrent = msgspec.structs.replace(loop, kind="LSTM")
    (limit,) = find_losses(losing(profile=profile_of(recurrent)))
    assert "whole batch" not in limit.advice


def test_the_time_between_the_kernels_of_a_loop_is_the_layers() -> None:
    """Of a layer without cuDNN the GPU mostly waits for the next small kernel."""
    loop = msgspec.structs.replace(MULTIPLIES, op=LOOP, took_ms=7.0, in_loop=True)
    profile = msgspec.structs.replace(profile_of(loop), step_ms=10.0, gaps_ms=0.1)
    looping = losing(split=LAUNCHES, model=LOOPS, profile=profile, accelerated=True)
    plain = changed(looping, manifest=msgspec.structs.replace(looping.manifest, model=None))

    assert kinds(plain)[0] == "small-operations"
    assert kinds(looping)[0] == "no-cudnn"
    for now in (plain, looping):
        assert len(kinds(now)) == 1


def test_a_gpu_augments_faster_than_the_cores_beside_it() -> None:
    on_cpu = losing(profile=profile_of(ROTATES, MULTIPLIES), cores_free=0.5)
    assert "augmentation" in kinds(on_cpu)
    assert "augmentation" not in kinds(changed(on_cpu, accelerated=True))


def test_without_an_nvidia_gpu_there_is_no_cudnn_to_miss() -> None:
    profile = profile_of(MULTIPLIES, UPDATES)
    on_gpu = losing(model=LOOPS, profile=profile, accelerated=True)
    mac = msgspec.structs.replace(on_gpu.manifest, machine={"system": "macOS-15.1-arm64"})

    assert "no-cudnn" in kinds(on_gpu)
    assert "no-cudnn" not in kinds(changed(on_gpu, manifest=mac))
    assert "no-cudnn" not in kinds(changed(on_gpu, accelerated=False))


def test_a_filled_cache_is_said_with_what_it_cost_once() -> None:
    before = TimeSpent(None, 100, compute_s=1.0, data_wait_s=4.0, first_batch_s=0.5)

    (ok,) = find_losses(losing(cause="cache", before=before))

    assert ok.sentence.endswith("the first epoch waited 4.5 s while it filled the cache, once")


def test_the_word_has_the_share_of_the_steps_as_the_fraction_beside_it() -> None:
    """`STARVING 85 %` stood beside 77.0 of 83.7 ms: the first batches were in its time."""
    waits = {"data_wait_s": 30.0, "split": split(30.0, 10.0, 0.0)}
    first = find_losses(losing(**waits, epoch_end_s=5.0))[0]
    assert first.word == "STARVING 75 %"
    assert first.sentence.startswith("each step waits 30.0 of 40.0 ms")

    then = find_losses(losing(**waits, cause="switch"))[0]
    assert then.loss.endswith(" ms for data, since the last switch")

    hosted = next(one for one in find_losses(losing(host_s=5.0)) if one.kind == "host-bound")
    assert hosted.word == "HOST-BOUND 33 %"
    assert hosted.sentence.startswith("host time takes 5.0 of 15.0 ms/step")


@pytest.mark.parametrize(
    ("beside", "is_its_own"),
    [
        pytest.param({}, True, id="alone"),
        pytest.param(
            {"stages": StageTable(0, (Stage("map", "Map python", 5.0),))}, False, id="GIL"
        ),
        pytest.param({"others": OtherPrograms(20.0, 60.0, 1.4, 2, matters=True)}, False, id="core"),
    ],
)
def test_the_progress_bar_is_blamed_only_where_nobody_takes_the_gil_or_the_core(
    beside: dict[str, Any], is_its_own: bool
) -> None:
    bar = code("HOST", 5.0, "ProgbarLogger")
    found = kinds(losing(host_s=5.0, code=(bar,), **beside))
    assert ("callback" in found) == is_its_own


def test_where_few_steps_wait_for_many_the_mean_is_that_of_the_share() -> None:
    """`STARVING 53 %` stood beside 1.3 of 39.6 ms, those of the last steady steps."""
    (first, *_) = find_losses(losing(data_wait_s=10.0, split=split(0.3, 9.0, 0.7)))
    assert first.word == "STARVING 50 %"
    assert first.sentence.startswith("a step waits 10.0 of 20.0 ms for data in the mean")


def test_a_slow_element_that_stalls_is_no_second_share_of_the_same_time() -> None:
    """`STARVING 74 %` stood beside 2.2 s of 44 s, below the stalls that were the rest."""
    stalls, slow = [Stall(9, 1, 1, 8000.0, "")], Stage("map(load)", "ParallelMapV2", 5.0, 2.0)
    found = find_losses(
        losing(data_wait_s=10.0, stalls=stalls, split=UNEVEN, stages=StageTable(0, (slow,)))
    )
    kept = next(one for one in found if one.kind == "kept-order")
    assert kept.word == "STARVING 17 %"
    assert kept.lost_s == pytest.approx(2.0)


def test_the_first_batch_of_an_epoch_is_no_stall_too() -> None:
    """`1 stall of 1.9 s: shuffle fill` claimed the 0.2 s that the steps waited."""
    fill = Stall(1, 1, 1, 2900.0, "shuffle fill", flags=int(Flag.EPOCH_START))
    assert "stall" not in kinds(losing(data_wait_s=2.0, first_batch_s=2.9, stalls=[fill]))


@pytest.mark.parametrize(("epochs", "steps"), [(1, 89), (4, 680)])
def test_the_first_batch_of_an_epoch_is_one_of_all_its_steps(epochs: int, steps: int) -> None:
    """`per epoch of 89 steps` stood where a switch came in an epoch of 200."""
    now = losing(first_batch_s=2.0 * epochs, epochs=epochs, steps=steps, is_whole=False)
    manifest = msgspec.structs.replace(now.manifest, steps_per_epoch=200)
    (found,) = (one for one in find_losses(changed(now, manifest=manifest)) if one.lost_s)
    assert found.brief == "the first batch takes 2.0 s per epoch of 200 steps"


def test_beside_stalls_the_other_data_wait_has_a_share_and_a_mean_of_its_own() -> None:
    stalls = [Stall(9, 1, 1, 1800.0, "swap")] * 3
    stall, waits, *_ = find_losses(losing(data_wait_s=8.4, stalls=stalls, split=split(3, 10, 0)))
    assert (stall.word, waits.word) == ("STALLS 29 %", "STARVING 23 %")
    assert waits.sentence.startswith("each step waits 3.0 of 13.0 ms")


def test_the_code_for_cheap_maps_and_saves_is_the_place_and_what_to_do_there() -> None:
    """No line that the script does not have: no function by another name, no literal `...`."""
    line = "    .map(lambda x, y: (x / 255.0, y))"
    edits = [CodeEdit("workers", "train.py", at, line, 36, 36, ", n={}", "auto") for at in (24, 25)]
    stages = StageTable(0, (Stage("map(scale)", "Map", 0.96), BATCH))
    cheap = losing(data_wait_s=5.0, stages=stages)
    behind = StageTable(0, (*stages.stages, Stage("map(augment)", "Map", 0.1)))
    saves = losing(host_s=5.0, code=(code("HOST", 5.0, "SaveOften", "save_weights"),))
    unseen = CodeTime("HOST", "ModelCheckpoint", "save", "", 5.0)

    def line_of(now: Situation) -> str:
        return find_losses(now)[0].code

    then = ":\n# .batch(32) before the map, whose function gets whole batches"
    assert line_of(cheap) == f"# map(scale){then}"
    assert line_of(
        changed(cheap, manifest=msgspec.structs.replace(cheap.manifest, code=edits))
    ) == (f"# train.py:24{then}")
    assert (
        line_of(
            changed(
                cheap, stages=behind, manifest=msgspec.structs.replace(cheap.manifest, code=edits)
            )
        )
        == f"# map(scale){then}"
    )
    assert line_of(saves) == "# train.py:41 in load: save every 100th step, or in on_epoch_end"
    rare = losing(host_s=5.0, code=saves.regime.code, slow_host=(8, 600.0), epochs=2)
    assert line_of(rare) == "# train.py:41 in load: save in on_epoch_end only"
    assert line_of(losing(host_s=5.0, code=PLOTTER)) == (
        "# train.py:41 in load: do it every 100th step, or in on_epoch_end"
    )
    assert line_of(losing(host_s=5.0, code=PLOTTER, slow_host=(3, 1600.0))) == (
        "# train.py:41 in load: in a thread of its own, threading.Thread(target=...).start()"
    )
    assert line_of(losing(host_s=5.0, code=(unseen,))) == (
        "# ModelCheckpoint: add save_freq='epoch' where it is made"
    )


# -- their rank ------------------------------------------------------------------------------------


def test_the_largest_loss_comes_first_whatever_its_kind() -> None:
    parts = {"first_batch_s": 3.0, "validation_s": 10.0, "data_wait_s": 5.0, "host_s": 7.0}

    found = find_losses(losing(**parts))

    assert [one.kind for one in found] == ["validation", "host-bound", "input-bound", "first-batch"]
    assert [one.lost_s for one in found] == pytest.approx([8.0, 6.125, 5.0, 3.0])


def test_a_run_without_a_large_loss_is_well() -> None:
    small = losing(data_wait_s=0.1, host_s=0.1, validation_s=0.1, first_batch_s=0.1)

    assert kinds(small) == ["compute-bound"]
    assert find_losses(small)[0].tone is Tone.GOOD


@pytest.mark.parametrize(
    ("spent", "losses"),
    [
        ({"data_wait_s": 2.9, "first_batch_s": 1.0}, {"input-bound": 1.29, "first-batch": 0.899}),
        ({"data_wait_s": 9.0, "unaccounted_s": 20.0}, {"input-bound": 0.0}),
    ],
    ids=["9 % are given back", "less than 5 % are"],
)
def test_a_run_that_waits_for_a_fifth_of_its_time_is_not_well(
    spent: dict[str, float], losses: dict[str, float]
) -> None:
    waited_s = spent["data_wait_s"]
    table = StageTable(0, (Stage("map(load)", "Map", 20.0), BATCH), wait_cores=1.0)
    now = losing(
        **spent,
        split=split(waited_s, 10.0, 0.0),
        stages=table.with_bottleneck(2, 0.0, waited_s, 10.0),
        cores_free=0.0,
        origin=SourceKind.TF_DATA,
    )
    two = msgspec.structs.replace(now.manifest, machine=Machine(cores=2))

    found = find_losses(changed(now, manifest=two))

    assert {one.kind: one.lost_s for one in found} == pytest.approx(losses)


@pytest.mark.parametrize(
    ("epochs", "computed_s", "waits_s", "lost_s"),
    [
        pytest.param(10, 10.0, (0.05, 0.4), None, id="a single iterator waits as long at its end"),
        pytest.param(1000, 1000.0, (0.05, 0.4), 225 - 60, id="and for a minute at most"),
        pytest.param(2500, 10.0, (0.01, 0.03), 50 - 4, id="that of a short run not for long"),
        pytest.param(10, 10.0, (0.2, 0.2), 2.0, id="what each epoch takes is given back"),
    ],
)
def test_longer_epochs_give_no_wait_back_that_a_single_iterator_has_too(
    epochs: int, computed_s: float, waits_s: tuple[float, ...], lost_s: float | None
) -> None:
    newest = tuple(TimeSpent(steps=100, first_batch_s=wait_s) for wait_s in waits_s * 5)
    first_s = epochs * sum(waits_s) / len(waits_s)
    now = losing(compute_s=computed_s, first_batch_s=first_s, epochs=epochs, newest=newest)

    lost = [one.lost_s for one in find_losses(now) if one.kind == "first-batch"]

    assert lost == ([] if lost_s is None else [pytest.approx(lost_s)])


def test_longer_epochs_give_no_work_of_the_slowest_stage_back() -> None:
    table = StageTable(0, (Stage("map(load)", "MapAndBatch", 180.0, 1.0),), wait_cores=1.0)
    now = losing(
        data_wait_s=10.0,
        first_batch_s=3.0,
        split=split(100.0, 100.0, 0.0),
        stages=table.with_bottleneck(2, 0.0, 100.0, 100.0),
    )

    (lost_s,) = (one.lost_s for one in find_losses(now) if one.kind == "first-batch")

    assert lost_s == pytest.approx(3.0 - 10 * 0.08)


def test_a_loss_below_a_tenth_comes_after_the_limit_of_the_steps() -> None:
    assert kinds(losing(data_wait_s=0.8)) == ["compute-bound", "input-bound"]


def test_less_than_a_tenth_of_a_second_is_no_loss() -> None:
    """A switch near the end begins a regime of a second: `0.0 s avoidable`."""
    assert "epoch-end" in kinds(losing(compute_s=0.8, epoch_end_s=0.2))
    assert "epoch-end" not in kinds(losing(compute_s=0.8, epoch_end_s=0.09))


def test_nothing_is_judged_before_there_is_enough() -> None:
    short = losing(compute_s=1.0, data_wait_s=1.0, steps=5, is_whole=False)

    assert find_losses(short) == ()
    assert kinds(changed(short, is_whole=True)) == ["input-bound"]
    assert kinds(changed(short, split=None)) == []
    assert kinds(losing(compute_s=5.0, data_wait_s=5.0, is_whole=False)) == ["input-bound"]


@pytest.mark.parametrize("live", [True, False])
def test_a_live_screen_names_the_key_that_gains_beside_the_remedy_in_the_script(live: bool) -> None:
    stages = StageTable(0, (Stage("map(scale)", "Map", 0.96), BATCH))
    now = losing(data_wait_s=5.0, stages=stages, forecasts={("prefetch", "4"): GAINS}, live=live)

    first, *_ = find_losses(now)

    key = "p prefetch on: 17.0 to about 12.0 ms, 1.4 x (it overlaps); or "
    assert first.kind == "cheap-maps"
    assert first.advice.startswith(f"{key if live else ''}.batch(32) before the map")


def test_a_cause_without_known_seconds_comes_last_and_is_the_advice_on_the_limit() -> None:
    now = losing(model=LOOPS, accelerated=True, host_s=0.7)

    limit, loss, cause = find_losses(now)

    assert [limit.kind, loss.kind, cause.kind] == ["compute-bound", "host-bound", "no-cudnn"]
    assert limit.advice.startswith("lstm (LSTM) and 1 more without cuDNN: recurrent_dropout=0.2")
    assert (cause.lost_s, cause.share, cause.word) == (0.0, 0.0, "COMPUTE")
    assert "%" not in cause.sentence


SECONDS = st.floats(0, 1e6)
TIMES = st.builds(
    CodeTime,
    st.sampled_from(["HOST", "EPOCH_END", "BETWEEN_FITS", "WAIT"]),
    st.sampled_from(["", "Plotter", "ModelCheckpoint"]),
    st.sampled_from(["", "predict", "gc.collect", "save"]),
    st.sampled_from(["", "train.py:9 in f"]),
    SECONDS,
)
SPENT = st.builds(
    TimeSpent,
    steps=st.integers(0, 10_000),
    traces=st.integers(0, 200),
    **dict.fromkeys(PARTS, SECONDS),
)
REGIMES = st.builds(
    Regime,
    spent=SPENT,
    code=st.lists(TIMES, max_size=4).map(tuple),
    models=st.integers(1, 50),
    fits=st.integers(1, 500),
    epochs=st.integers(0, 500),
    newest=st.lists(SPENT, max_size=4).map(tuple),
    fills_shuffle=st.booleans(),
    host_growth_ms=st.tuples(SECONDS, SECONDS),
)
PART = st.floats(0.01, 100)
SPLITS = st.builds(split, PART, PART, PART) | st.just(UNEVEN) | st.just(COPIES) | st.just(LAUNCHES)
TABLES = st.sampled_from(
    [
        None,
        StageTable(0, (Stage("map(scale)", "Map", 0.96), BATCH)),
        StageTable(0, (Stage("from_generator", "FlatMap python", 3.2), BATCH)),
        StageTable(0, (Stage("map(read)", "ParallelMapV2", 8.0, 4.0), BATCH)),
    ]
)


@given(
    regime=REGIMES,
    split=SPLITS,
    stages=TABLES,
    accelerated=st.booleans(),
    op_by_op=st.booleans(),
    model=st.sampled_from([None, ADAM, LOOPS]),
    profile=st.sampled_from([None, PROFILE, profile_of(MULTIPLIES, UPDATES)]),
    stalls_ms=st.lists(SECONDS, max_size=3),
    log=st.sampled_from([frozenset(), frozenset({"cache dropped"})]),
    is_whole=st.booleans(),
)
def test_no_second_is_claimed_twice(stalls_ms: list[float], **drawn: Any) -> None:
    now = changed(RUNNING, stalls=[Stall(9, 1, 1, ms, "") for ms in stalls_ms], **drawn)
    spent = now.regime.spent

    found = find_losses(now)

    assert sum(one.lost_s for one in found) <= spent.active_s * (1 + 1e-9)
    assert all(0 <= one.share <= 1 for one in found)
    losses = [one.lost_s for one in found if one.lost_s]
    assert losses == sorted(losses, reverse=True)
