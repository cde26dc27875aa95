"""The advice against data wait: a switch that gains, else for each kind of data."""

import math
from typing import Any

import msgspec
import pytest

from tests.judge.situations import RUNNING, banner, changed, judged, with_regime
from tests.runs.folders import make_manifest
from tfwatch.core.events import StagesFound
from tfwatch.core.script_code import CodeEdit
from tfwatch.judge.findings import data_wait
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.situation import Situation, SourceKind, batch_source
from tfwatch.judge.findings.switch_lines import line_with_switch, lines_with_switches
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.machine import MachineFigures
from tfwatch.judge.regime import Regime
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.time_breakdown import TimeSpent
from tfwatch.runs.format import Machine

PREFETCH = Stage("prefetch", "Prefetch", math.nan, buffered=0.0, buffer_size=4.0, filled=0.0)
FULL = changed(PREFETCH, buffered=4.0, filled=1.0)
ROWS = Stage("from_generator(rows)", "FlatMap python", 21.0)
SCRIPT = changed(
    RUNNING,
    live=False,
    split=judged(),
    knobs={"prefetch": "default", "workers": "default"},
    started={"prefetch": "default", "workers": "default"},
    switchable=["prefetch"],
)


def table(*stages: Stage, wait_cores: float = 0.1) -> StageTable:
    return StageTable(0, stages, wait_cores=wait_cores).with_bottleneck(8, 0.0, 9.6, 13.8)


def found(given: SourceKind, stages: StageTable | None = None, *, workers: bool = False) -> Finding:
    knobs = {"workers": "4"} if workers else SCRIPT.knobs
    return banner(changed(SCRIPT, origin=given, stages=stages, knobs=knobs))


def of_py_dataset(knobs: dict[str, str], **more: Any) -> Finding:
    """Return the finding of a `PyDataset` on eight cores, of a run that began without workers."""
    started = {"prefetch": "default", "workers": "off", "multiprocessing": "off"}
    now = changed(
        SCRIPT,
        knobs={**started, **knobs},
        started=started,
        switchable=[*started],
        origin=SourceKind.PY_DATASET,
        manifest=msgspec.structs.replace(SCRIPT.manifest, machine=Machine(cores=8)),
    )
    return banner(changed(now, **more))


def pipeline(number: int, *kinds: str) -> StagesFound:
    return StagesFound(0, number, list(kinds), list(kinds))


@pytest.mark.parametrize(
    ("pipelines", "origin"),
    [
        ([["FlatMap python PyDataset", "Prefetch"]], SourceKind.PY_DATASET),
        ([["FlatMap python generator", "Prefetch"]], SourceKind.GENERATOR),
        ([["Range", "Map arrays", "ParallelMapV2 arrays", "Prefetch"]], SourceKind.ARRAYS),
        ([["FlatMap python", "Prefetch"]], SourceKind.TF_DATA),
        # Its end was read first.
        ([["Prefetch"], ["FlatMap python generator"]], SourceKind.GENERATOR),
        ([["Python iterator"]], SourceKind.ITERATOR),
        ([["Prefetch"]], SourceKind.UNKNOWN),
        ([], SourceKind.UNKNOWN),
    ],
)
def test_the_stages_show_the_kind_of_data_passed_to_fit(
    pipelines: list[list[str]], origin: SourceKind
) -> None:
    found = {n: pipeline(n, *kinds) for n, kinds in enumerate(pipelines)}
    assert batch_source(make_manifest(), found) is origin


def test_the_advice_for_a_pydataset_is_workers_and_never_prefetch() -> None:
    source = changed(ROWS, name="PyDataset", kind="FlatMap python PyDataset")
    waits = found(SourceKind.PY_DATASET, table(source, PREFETCH))
    computes = found(SourceKind.PY_DATASET, table(source, PREFETCH, wait_cores=1.0))
    has_some = found(SourceKind.PY_DATASET, workers=True)

    assert waits.advice.startswith("workers=4, max_queue_size=8 for the PyDataset")
    assert waits.code.startswith("dataset.workers = 4  # before fit\ndataset.max_queue_size")
    assert "use_multiprocessing=True" in computes.advice
    assert computes.code.startswith("dataset.workers = 4  # before fit")
    assert "dataset.use_multiprocessing = True" in computes.code
    assert has_some.advice.startswith("workers=8, if __getitem__ waits; use_multiprocessing=")
    assert not [one for one in (waits, computes, has_some) if "prefetch(" in one.advice + one.code]


def test_generators_and_arrays_have_their_own_advice() -> None:
    generator = found(
        SourceKind.GENERATOR, table(changed(ROWS, kind="FlatMap python generator"), PREFETCH)
    )
    arrays = found(
        SourceKind.ARRAYS, table(Stage("map", "ParallelMapV2 arrays", 21.0, 1.0), PREFETCH)
    )

    assert generator.advice.startswith("a PyDataset(workers=4) in place of the generator")
    assert "model.fit(Batches(workers=4), ...)" in generator.code
    assert arrays.advice.startswith("larger batches, or compile(steps_per_execution=8)")
    assert found(SourceKind.ITERATOR).code.startswith(
        "dataset = tf.data.Dataset.from_generator(rows, "
    )
    assert not [one for one in (generator, arrays) if "prefetch(" in one.advice + one.code]


@pytest.mark.parametrize(
    ("stages", "advice", "edit"),
    [
        pytest.param(
            table(ROWS),
            ".prefetch(tf.data.AUTOTUNE)",
            "dataset = dataset.prefetch(",
            id="without a prefetch",
        ),
        pytest.param(
            table(ROWS, PREFETCH),
            "several from_generator",
            "dataset = tf.data.Dataset.range(4)",
            id="waits",
        ),
        pytest.param(
            table(ROWS, PREFETCH, wait_cores=1.0),
            "a parallel map of TensorFlow",
            "dataset = dataset.map(load",
            id="computes",
        ),
        pytest.param(
            table(Stage("map(decode)", "Map", 21.0), PREFETCH, wait_cores=1.0),
            "num_parallel_calls=tf.data.AUTOTUNE",
            "dataset = dataset.map(decode, num_parallel_calls=",
            id="a serial map",
        ),
        pytest.param(
            table(Stage("map(decode)", "ParallelMapV2", 84.0, 4.0), PREFETCH, wait_cores=4.0),
            ".cache() where it fits into memory, cheaper operations or a map over whole batches:"
            " all workers of",
            "dataset = dataset.cache()  # after the slow stages, both before shuffle and anything"
            " random",
            id="cpu",
        ),
        pytest.param(
            table(Stage("map(read)", "ParallelMapV2 files", 84.0, 4.0), PREFETCH),
            "num_parallel_calls=16 and a private_threadpool_size of 16: more calls wait at the same"
            " time",
            "dataset = dataset.map(read, num_parallel_calls=16)",
            id="storage",
        ),
        pytest.param(
            table(
                Stage("map(load)", "ParallelMapV2 files", 84.0, 4.0), PREFETCH, wait_cores=math.nan
            ),
            ".cache() where it fits into memory, cheaper operations or a map over whole batches:"
            " all workers of",
            "dataset = dataset.cache()  # after the slow stages, both before shuffle and anything"
            " random",
            id="files, of which nothing says whether they wait",
        ),
        pytest.param(
            table(
                Stage("map(load)", "ParallelMapV2 python", 84.0, 4.0), PREFETCH, wait_cores=math.nan
            ),
            "TensorFlow operations in place of Python where it computes; where it waits,"
            " num_parallel_calls=16 and a private_threadpool_size of 16",
            "",
            id="parallel Python of which nothing says whether it waits",
        ),
        pytest.param(
            table(Stage("interleave", "InterleaveDataset", 21.0), PREFETCH, wait_cores=1.0),
            "num_parallel_calls=tf.data.AUTOTUNE on the interleave",
            "",
            id="a serial interleave",
        ),
        pytest.param(
            table(Stage("batch(32)", "BatchV2", 21.0), PREFETCH, wait_cores=1.0),
            "make batches cheaper: a parallel map, cache, a map over whole batches; prefetch is on"
            " already",
            "",
            id="a serial batch",
        ),
        pytest.param(
            table(Stage("map(load)", "Map python", 21.0), PREFETCH),
            "num_parallel_calls=tf.data.AUTOTUNE on the map: its calls wait at the same time",
            "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)",
            id="Python that waits",
        ),
        pytest.param(
            table(Stage("map(load)", "ParallelMapV2 python", 84.0, 4.0), PREFETCH),
            "num_parallel_calls=16 and a private_threadpool_size of 16: more calls wait at the same"
            " time",
            "dataset = dataset.map(load, num_parallel_calls=16)",
            id="parallel Python that waits",
        ),
        pytest.param(
            table(Stage("map(load)", "ParallelMapV2 python", 84.0, 4.0), PREFETCH, wait_cores=1.0),
            "TensorFlow operations in place of Python: the GIL allows no parallel calls",
            "",
            id="Python that computes",
        ),
        pytest.param(
            None,
            ".prefetch(tf.data.AUTOTUNE) at the end of the pipeline; if it is there",
            "",
            id="never read",
        ),
    ],
)
def test_prefetch_is_advised_only_where_it_is_not_the_last_stage(
    stages: StageTable | None, advice: str, edit: str
) -> None:
    one = found(SourceKind.TF_DATA, stages)

    assert one.advice.startswith(advice)
    assert one.code.startswith(edit)
    assert bool(one.code) == bool(edit)


@pytest.mark.parametrize("now", [SCRIPT, RUNNING], ids=["a script", "a workload of tfwatch's"])
def test_with_a_full_buffer_and_fast_stages_the_wait_is_the_fetch_itself(now: Situation) -> None:
    ready = changed(
        now,
        split=judged(0.4, 0.8, 0.1),
        stages=StageTable(0, (Stage("shuffled, batch(32)", "Map", 0.1), FULL)).with_bottleneck(
            8, 0.0, 0.4, 0.9
        ),
        knobs={**now.knobs, "prefetch": "4"},
        started={**now.manifest.knobs, "prefetch": "4"},
        origin=SourceKind.TF_DATA,
    )
    one = banner(ready)

    assert ready.stages is not None
    assert ready.stages.bottleneck is None
    assert one.sentence.endswith("each step waits 0.4 of 1.3 ms for data")
    assert one.advice.startswith("larger batches need fewer fetches")
    assert "prefetch" not in one.advice + one.code


def test_with_an_empty_buffer_or_slow_stages_the_wait_is_not_the_fetch() -> None:
    quick, slow = Stage("map", "Map", 0.1), Stage("map", "Map", 1.1)

    assert StageTable(0, (quick, FULL)).is_ahead(0.9)
    assert not StageTable(0, (quick, PREFETCH)).is_ahead(0.9)
    assert not StageTable(0, (slow, FULL)).is_ahead(0.9)
    assert not StageTable(0, (quick,)).is_ahead(0.9)


@pytest.mark.parametrize(
    ("now", "cores", "advice"),
    [
        ({}, 0.0, "w, from the next epoch: workers=4, max_queue_size=8 for the PyDataset"),
        ({}, 1.0, "w and m, from the next epoch: workers=4, use_multiprocessing=True"),
        ({"workers": "4"}, 0.0, "tfwatch set workers=8 in a second terminal, if __getitem__ waits"),
        (
            {"workers": "4", "multiprocessing": "on"},
            0.0,
            "more workers for the PyDataset: tfwatch set workers=8 in a second terminal",
        ),
    ],
)
def test_the_keys_of_a_py_dataset_give_it_workers(
    now: dict[str, str], cores: float, advice: str
) -> None:
    found = of_py_dataset(now, live=True, stages=table(ROWS, wait_cores=cores))
    assert found.advice.startswith(advice)


@pytest.mark.parametrize(
    ("used", "free", "advice"),
    [
        pytest.param(0.7, 7.3, "more workers for the PyDataset: workers=8", id="threads wait"),
        pytest.param(0.8, 7.2, "workers=8, if __getitem__ waits", id="they compute half the time"),
        pytest.param(1.0, 7.0, "use_multiprocessing=True", id="one computes at any time"),
        pytest.param(1.0, 0.0, "workers=8, if __getitem__ waits", id="others take the cores"),
        pytest.param(math.nan, math.nan, "workers=8, if __getitem__ waits", id="unknown"),
    ],
)
def test_the_threads_that_a_script_has_share_the_gil_only_where_they_use_a_core(
    used: float, free: float, advice: str
) -> None:
    """A step of 23.4 ms computes for 13.8: that is 0.6 cores."""
    now = {"cores_used": used, "cores_free": free}

    assert of_py_dataset({"workers": "4"}, **now).advice.startswith(advice)
    live = of_py_dataset({"workers": "4"}, live=True, **now)
    assert live.advice.startswith("m, from the next epoch") == advice.startswith("use_multi")


THREADS_FASTER = {("workers", "off"): "auto"}
PROCESSES_SLOWER = {("multiprocessing", "on"): "off"}
WORKERS_SLOWER = {("workers", "auto"): "off"}


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("knobs", "better", "advice", "code"),
    [
        pytest.param(
            {"workers": "auto"},
            THREADS_FASTER,
            "more workers for the PyDataset: ",
            "dataset.workers = max(os.cpu_count(), 4)  # before fit, after import os\n"
            "dataset.max_queue_size = max(dataset.max_queue_size, 2 * dataset.workers)\n"
            "# then workers=16: not measured",
            id="threads that gain wait",
        ),
        pytest.param(
            {"workers": "auto"},
            THREADS_FASTER | PROCESSES_SLOWER,
            "more workers for the PyDataset: ",
            "dataset.workers = max(os.cpu_count(), 4)  # before fit",
            id="undone processes",
        ),
        pytest.param(
            {"workers": "4"},
            PROCESSES_SLOWER,
            "more workers for the PyDataset",
            "dataset.workers = 8  # before fit",
            id="undone processes of a script with workers",
        ),
        pytest.param(
            {"workers": "auto", "multiprocessing": "on"},
            THREADS_FASTER | PROCESSES_SLOWER,
            "threads for the PyDataset: its processes measured slower",
            "dataset.workers = max(os.cpu_count(), 4)  # before fit, after import os",
            id="processes that lose",
        ),
        pytest.param(
            {},
            WORKERS_SLOWER,
            "a cheaper __getitem__ for the PyDataset: workers measured slower",
            "",
            id="workers that lose",
        ),
        pytest.param(
            {"workers": "8"},
            {("workers", "off"): "8", ("workers", "16"): "8"},
            "a cheaper __getitem__ for the PyDataset",
            "dataset.workers = 8  # before fit",
            id="as many as gain",
        ),
    ],
)
def test_the_advice_for_a_py_dataset_is_never_what_measured_slower(
    knobs: dict[str, str],
    better: dict[tuple[str, str], str],
    advice: str,
    code: str,
    *,
    live: bool,
) -> None:
    said = of_py_dataset(knobs, live=live, better=better)

    assert said.advice.startswith(advice)
    assert said.code.startswith(code)
    assert "use_multiprocessing" not in said.code + said.advice
    assert said.code.count("dataset.workers = ") == bool(code)


GETITEM = {"batch_class": "Npy", "batch_place": "pyds.py:17"}


def test_the_class_and_the_line_of_a_py_dataset_are_its_cause() -> None:
    stage = Stage("PyDataset", "FlatMap python PyDataset", 21.0)
    serial = of_py_dataset({}, stages=table(stage, PREFETCH), **GETITEM)
    parallel = of_py_dataset({"workers": "4"}, **GETITEM)

    assert serial.cause.startswith("Npy.__getitem__ at pyds.py:17 waits in Python: 21.0 ms/batch")
    assert parallel.cause == serial.where == "Npy.__getitem__ at pyds.py:17"


@pytest.mark.parametrize(
    ("knobs", "better", "code"),
    [
        pytest.param(
            {},
            {},
            "Npy(..., workers=4, max_queue_size=8)  # in place of Npy(...)",
            id="to try",
        ),
        pytest.param(
            {"workers": "auto"},
            THREADS_FASTER,
            "Npy(..., workers=8, max_queue_size=16)  # in place of Npy(...)\n"
            "# then workers=16: not measured",
            id="proved",
        ),
        pytest.param(
            {"workers": "auto", "multiprocessing": "on"},
            THREADS_FASTER | {("multiprocessing", "off"): "on"},
            "Npy(..., workers=8, max_queue_size=16, use_multiprocessing=True)  # in place of"
            " Npy(...); below if __name__ == '__main__':\n"
            "# then workers=16: not measured",
            id="processes",
        ),
    ],
)
def test_a_py_dataset_without_a_name_is_made_with_its_workers(
    knobs: dict[str, str], better: dict[tuple[str, str], str], code: str
) -> None:
    assert of_py_dataset(knobs, better=better, **GETITEM).code == code


@pytest.mark.parametrize("given", [SourceKind.TF_DATA, SourceKind.UNKNOWN])
def test_a_strategy_prepares_ahead_so_its_maps_come_first(given: SourceKind) -> None:
    said = banner(
        changed(SCRIPT, origin=given, replicas=["GPU:0", "GPU:1"], switchable=[], live=True)
    )

    assert said.advice.startswith(
        "num_parallel_calls=tf.data.AUTOTUNE on the map below the strategy"
    )
    assert "num_parallel_calls=tf.data.AUTOTUNE" in said.code


DECODE = Stage("map(decode)", "ParallelMapV2", 84.0, 4.0)
AUGMENT = Stage("map(augment)", "ParallelMapV2", 4.0, 4.0)
LINE = "data = data.map(decode)"
CACHED = CodeEdit(
    "cache", "train.py", 9, LINE, len(LINE), len(LINE), ".cache()", "tf.data.AUTOTUNE"
)
BUSY = "cheaper operations or a map over whole batches: all workers of map("


def busy(*stages: Stage, **known: Any) -> Finding:
    now = changed(
        SCRIPT, origin=SourceKind.TF_DATA, stages=table(*stages, PREFETCH, wait_cores=4.0)
    )
    return banner(changed(now, **known))


def test_a_cache_for_busy_workers_has_the_line_of_the_script_and_its_size() -> None:
    cached = busy(DECODE, AUGMENT, code=(CACHED,), cache_after="map(decode)", cache_bytes=4 * 2**30)

    assert cached.advice.startswith(f".cache() (4.0 GB), {BUSY}")
    assert cached.code == f"# train.py:9  in place of: {LINE}\n{LINE}.cache()"


@pytest.mark.parametrize(
    ("changes", "advised"),
    [
        pytest.param({"cores_free": 0.2}, True, id="all cores are busy"),
        pytest.param({"cores_free": 4.0}, False, id="cores are free"),
        pytest.param({}, False, id="free cores are not known"),
        pytest.param({"cores_free": 0.2, "loop": "train.py:22"}, False, id="a loop"),
    ],
)
def test_other_machines_are_advised_where_all_cores_are_busy(
    changes: dict[str, Any], advised: bool
) -> None:
    found = busy(DECODE, **changes)

    assert ("; or other machines (tfwatch run --feed)" in found.advice) is advised


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(
            {"fixed": {"cache": "map(decode) draws random numbers"}},
            id="each epoch gives something else",
        ),
        pytest.param(
            {"cache_after": "map(read)", "code": (CACHED,)}, id="only what is below is the same"
        ),
        pytest.param(
            {"knobs": {**SCRIPT.knobs, "cache": "on"}, "started": {**SCRIPT.knobs, "cache": "on"}},
            id="it is on",
        ),
        pytest.param({"better": {("cache", "on"): "off"}}, id="it was slower"),
    ],
)
def test_no_cache_is_advised_where_it_would_not_save_the_work(known: dict[str, Any]) -> None:
    found = busy(Stage("map(read)", "ParallelMapV2", 1.0, 4.0), DECODE, **known)

    assert found.advice.startswith(BUSY)
    assert ".cache()" not in found.code


# -- a map that draws random numbers ---------------------------------------------------------------

NO_GAIN_BY_WORKERS = Forecast("workers", "auto", 22.7, 10.0, 27.5, "cores are shared", 23.4)
GAIN_BY_WORKERS = changed(NO_GAIN_BY_WORKERS, step_ms=14.0, high_ms=16.0)
MAY_GAIN_BY_WORKERS = changed(NO_GAIN_BY_WORKERS, step_ms=14.0)
RANDOM = {
    "batch_bytes": 3_539_072,
    "steps_per_epoch": 47,
    "epochs": 20,
    "fixed": {"cache": "map(load) draws random numbers: a cache would give those of one epoch"},
    "random_maps": "map(load) draws random numbers, in the order of its calls",
    "machine": MachineFigures({"memory_available_bytes": 12e9}),
    "forecasts": {("workers", "auto"): NO_GAIN_BY_WORKERS},
    "code": (CodeEdit("workers", "train.py", 23, "ds = ds.map(load)", 16, 16, ", {}", "AUTO"),),
}
SPLIT = (
    "decode in a map of its own, .cache() after it (0.2 GB), both before shuffle, then the random"
    " part"
)


def load(kind: str, workers: float = 1.0, **known: Any) -> Finding:
    """Return the finding on a map of a file that is read, decoded and flipped at random."""
    maps = Stage("map(load), batch(32)", f"{kind} random", 22.0 * workers, workers)
    stages = table(Stage("shuffle(1500)", "Shuffle", 0.1), maps, wait_cores=workers)
    now = changed(SCRIPT, origin=SourceKind.TF_DATA, stages=stages)
    return banner(changed(now, **{**RANDOM, **known}))


@pytest.mark.parametrize(
    ("known", "advice"),
    [
        pytest.param({}, SPLIT, id="parallel calls gain nothing"),
        pytest.param({"forecasts": {}}, SPLIT, id="no forecast"),
        pytest.param({"forecasts": {("workers", "auto"): MAY_GAIN_BY_WORKERS}}, SPLIT, id="may"),
        pytest.param(
            {"forecasts": {("workers", "auto"): GAIN_BY_WORKERS}},
            "num_parallel_calls=tf.data.AUTOTUNE on the map",
            id="parallel calls gain for sure",
        ),
        pytest.param({"kind": "MapAndBatch files", "workers": 2.0}, SPLIT, id="parallel already"),
        pytest.param({"kind": "MapAndBatch"}, "what is not random in a map of its own", id="rows"),
        pytest.param({"epochs": 1}, "cheaper operations", id="read once"),
        pytest.param(
            {"machine": MachineFigures({"memory_available_bytes": 100e6})},
            "cheaper operations or a map over whole batches: parallel calls of map(load), batch(32)"
            " gain nothing",
            id="no room",
        ),
        pytest.param({"batch_bytes": None}, "cheaper operations", id="unknown size"),
        pytest.param({"steps_per_epoch": None}, "cheaper operations", id="may be endless"),
    ],
)
def test_a_map_that_draws_random_numbers_is_split_at_a_cache(
    known: dict[str, Any], advice: str
) -> None:
    found = load(**{"kind": "MapAndBatch files", **known})

    assert found.advice.startswith(advice)
    assert (".cache()" in found.code) is (".cache()" in found.advice)


def test_the_lines_of_a_split_map_have_the_names_of_the_script() -> None:
    found = load("MapAndBatch files", names={"dataset": "ds"})

    assert found.code.split("\n") == [
        "# train.py:23: map(load) becomes two, of functions that you write",
        "ds = ds.map(decode).cache()  # decode: load without what is random, before shuffle",
        "ds = ds.map(augment)  # augment: the random part of load, after shuffle",
    ]
    # It saves the work of later epochs, not only the share of the idle cores.
    assert found.claims["data_wait_s"] == pytest.approx(9.6, rel=0.01)


def test_the_lines_of_a_split_map_build_on_the_parallel_calls_that_are_proved() -> None:
    proved = {"knobs": {"workers": "8"}, "better": {("workers", "default"): "8"}}
    found = load("MapAndBatch files", workers=2.0, started={"workers": "default"}, **proved)

    first, _, then, decode, augment = found.code.split("\n")
    assert first.startswith("# train.py:23  in place of: ")
    assert then.startswith("# then train.py:23: map(load) becomes two")
    assert ".map(decode, num_parallel_calls=8).cache()" in decode
    assert ".map(augment, num_parallel_calls=8)" in augment


def test_the_lines_of_a_remedy_in_a_line_that_a_proved_switch_changes_have_both() -> None:
    edits = [
        CodeEdit("workers", "train.py", 9, LINE, len(LINE) - 1, len(LINE) - 1, ", {}", "-1"),
        CodeEdit("prefetch", "train.py", 9, LINE, len(LINE), len(LINE), ".prefetch({})", "-1"),
    ]
    started = {"workers": "off", "prefetch": "off"}
    now = changed(RUNNING, code=tuple(edits), started=started, knobs={**started, "prefetch": "4"})
    now = changed(now, better={("prefetch", "off"): "4"})

    lines = lines_with_switches(now, line_with_switch(now, "workers", "8"))

    assert lines == f"# train.py:9  in place of: {LINE}\n{LINE[:-1]}, 8).prefetch(4)"


@pytest.mark.parametrize(
    ("forecast", "advice"),
    [
        (NO_GAIN_BY_WORKERS, f"{SPLIT}; no key helps"),
        (MAY_GAIN_BY_WORKERS, SPLIT),
        (GAIN_BY_WORKERS, "w workers auto: 23.4 to about 14.0 ms"),
    ],
)
def test_a_key_that_may_not_gain_does_not_stand_before_a_split_map(
    forecast: Forecast, advice: str
) -> None:
    found = load(
        "MapAndBatch files",
        live=True,
        switchable=["prefetch", "workers"],
        forecasts={("workers", "auto"): forecast},
    )

    assert found.advice.startswith(advice)
    assert ("; no key helps" in found.advice) is (forecast is NO_GAIN_BY_WORKERS)


@pytest.mark.parametrize("live", [True, False])
def test_no_switch_is_advised_that_is_forecast_to_gain_nothing(live: bool) -> None:
    serial = table(Stage("map(decode)", "Map", 22.0), PREFETCH, wait_cores=1.0)
    known = {("workers", "auto"): NO_GAIN_BY_WORKERS}
    cache = changed(CACHE_ON, high_ms=26.0)
    now = changed(SCRIPT, origin=SourceKind.TF_DATA, stages=serial, live=live)
    now = changed(now, switchable=["prefetch", "workers", "cache"])

    for forecasts in (known, {**known, ("cache", "on"): cache}):
        found = banner(changed(now, forecasts=forecasts))
        assert "num_parallel_calls" not in found.advice + found.code
        assert "workers auto" not in found.advice
        assert ".cache()" in found.code


def test_arrays_with_large_batches_need_fewer_bytes() -> None:
    gather = table(Stage("map", "ParallelMapV2 arrays", 21.0, 1.0), PREFETCH)
    now = changed(SCRIPT, origin=SourceKind.ARRAYS, stages=gather)
    large, small = (
        banner(changed(now, batch_bytes=25 * 2**20)),
        banner(changed(now, batch_bytes=5_000)),
    )

    assert large.advice.startswith("fewer bytes: each batch is 25 MB of the arrays; as uint8")
    assert large.code.startswith('x = x.astype("uint8")')
    assert "batch_size=4 * batch_size" in small.code


def test_a_ready_batch_of_arrays_is_fetched_less_often_by_larger_batches() -> None:
    stages = table(Stage("map", "ParallelMapV2 arrays", 0.2, 1.0), FULL)

    for origin, is_larger in ((SourceKind.ARRAYS, True), (SourceKind.TF_DATA, False)):
        found = banner(changed(SCRIPT, origin=origin, stages=stages))
        assert ("batch_size=" in found.code) is is_larger


# -- switches that gain ----------------------------------------------------------------------------

CACHE_ON = Forecast("cache", "on", 18.0, 16.5, 19.5, "compute and data share the cores", 23.4)
NO_GAIN = changed(CACHE_ON, step_ms=23.0)
#: Batches wait in a full buffer: the data wait is the fetch itself.
READY = StageTable(0, (Stage("map", "Map", 0.1), FULL)).with_bottleneck(8, 0.0, 0.1, 0.9)


READY_AND_STARVING = {
    "split": judged(0.4, 0.8, 0.1),
    "stages": READY,
    "knobs": {"prefetch": "4", "workers": "auto", "cache": "off"},
}
WELL_FED = {"split": judged(0.0, 13.0, 0.1), "knobs": {"cache": "off"}}


def situation(changes: dict[str, Any], **more: Any) -> Situation:
    values = {"switchable": ("prefetch", "workers", "cache"), "origin": SourceKind.TF_DATA}
    return changed(RUNNING, **{**values, **changes, **more})


LIMITS = [
    pytest.param(READY_AND_STARVING, "larger batches", id="the wait is the fetch"),
    pytest.param(WELL_FED, "smaller model", id="compute"),
]


@pytest.mark.parametrize(("changes", "otherwise"), LIMITS)
def test_a_cache_that_is_forecast_to_gain_is_the_advice(
    changes: dict[str, Any], otherwise: str
) -> None:
    found = banner(situation(changes, forecasts={("cache", "on"): CACHE_ON}))
    assert (
        "c cache on: 23.4 so far to about 18.0 ms, 1.3 x (compute and data share the cores)"
        in found.advice
    )
    assert otherwise not in found.advice
    assert "dataset = dataset.cache()" in found.code


@pytest.mark.parametrize(("changes", "otherwise"), LIMITS)
def test_without_a_gain_the_limit_is(changes: dict[str, Any], otherwise: str) -> None:
    assert otherwise in banner(situation(changes, forecasts={("cache", "on"): NO_GAIN})).advice


@pytest.mark.parametrize(
    ("data", "kind"),
    [("arrays", SourceKind.ARRAYS), ("tf.data", SourceKind.TF_DATA), ("other", SourceKind.UNKNOWN)],
)
def test_a_fit_too_short_for_its_stages_has_the_source_of_its_manifest(
    data: str, kind: SourceKind
) -> None:
    assert batch_source(make_manifest(data=data), {}) is kind


@pytest.mark.parametrize("live", [True, False])
def test_a_switch_that_gains_nothing_is_no_line_either(live: bool) -> None:
    no_gain = changed(CACHE_ON, knob="prefetch", value="4", step_ms=23.4)
    found = banner(
        changed(RUNNING, split=judged(), live=live, forecasts={("prefetch", "4"): no_gain})
    )

    assert found.code == ""
    assert found.advice == (
        "prefetch cannot hide the wait: make batches cheaper: a parallel map, cache, a map over"
        f" whole batches{'; no key helps' * live}"
    )


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_key_that_may_not_gain_does_not_stand_before_the_cause(is_sure: bool) -> None:
    serial = Stage("map(decode)", "Map", 21.0)
    stages = StageTable(0, (serial, PREFETCH), wait_cores=1.0).with_bottleneck(8, 0.0)
    cache = CACHE_ON if is_sure else changed(CACHE_ON, high_ms=26.0)
    changes = {"split": judged(), "stages": stages, "knobs": {"prefetch": "4", "workers": "off"}}
    switchable = ("prefetch", "cache")

    found = banner(situation(changes, switchable=switchable, forecasts={("cache", "on"): cache}))

    words = "c cache on: 23.4 to about 18.0 ms" if is_sure else "num_parallel_calls="
    assert found.advice.startswith(words)


@pytest.mark.parametrize(
    ("wait_ms", "free", "given_ms"),
    [
        pytest.param(30.0, 2.0, 25.0, id="the idle cores"),
        pytest.param(30.0, 0.0, 10.0, id="none is idle"),
        pytest.param(30.0, math.nan, 30.0, id="unknown"),
        pytest.param(90.0, 0.0, 100 - (99 + 10) / 8, id="TensorFlow's threads spin in a wait"),
    ],
)
def test_a_serial_map_beside_long_steps_gives_back_no_more_than_the_idle_cores(
    wait_ms: float, free: float, given_ms: float
) -> None:
    serial = Stage("map(decode)", "Map", 99.0)
    stages = StageTable(0, (serial, PREFETCH), wait_cores=1.0)
    stages = stages.with_bottleneck(8, 0.0, wait_ms, 100 - wait_ms)
    part = judged(wait_ms, 100 - wait_ms, 0.0)
    now = changed(SCRIPT, origin=SourceKind.TF_DATA, stages=stages, split=part)
    machine = msgspec.structs.replace(now.manifest, machine=Machine(cores=8))
    found = data_wait.find(with_regime(changed(now, manifest=machine, cores_free=free)))

    assert found
    assert found.claims["data_wait_s"] == pytest.approx(given_ms, rel=0.01)


@pytest.mark.parametrize(
    ("epochs", "life_s", "above", "keeps"),
    [
        pytest.param(3, 6.0, PREFETCH, True, id="short epochs"),
        pytest.param(1, 6.0, PREFETCH, False, id="one epoch"),
        pytest.param(3, 700.0, PREFETCH, False, id="long epochs"),
        pytest.param(3, 6.0, Stage("repeat", "Repeat", 0.0), False, id="one iterator already"),
    ],
)
def test_in_short_epochs_a_parallel_map_keeps_its_iterator(
    epochs: int, life_s: float, above: Stage, keeps: bool
) -> None:
    """The thread that tunes a parallel map often misses the end of its epoch."""
    serial = Stage("map(decode)", "Map", 18.0)
    stages = StageTable(0, (serial, above, PREFETCH), wait_cores=1.0)
    stages = stages.with_bottleneck(2, 0.0, 16.0, 4.0)
    part = judged(16.0, 4.0, 0.0)
    now = changed(SCRIPT, origin=SourceKind.TF_DATA, stages=stages, split=part)
    newest = (TimeSpent(data_wait_s=life_s), TimeSpent(data_wait_s=life_s, first_batch_s=4.22))
    spent = TimeSpent(steps=100, data_wait_s=epochs * life_s, first_batch_s=4.22)
    regime = Regime(spent=spent, epochs=epochs, newest=newest)
    found = data_wait.find(changed(now, regime=regime))

    assert found
    assert (".repeat() and steps_per_epoch" in found.advice) is keeps
    assert ("model.fit(dataset.repeat(), steps_per_epoch=" in found.code) is keeps
    assert ("first_batch_s" in found.claims) is keeps


@pytest.mark.parametrize(("on_gpu", "given_ms"), [(False, 10.0 - 13.0 / 2), (True, 10.0 - 9.4 / 2)])
def test_a_parallel_map_shares_the_cores_with_the_compute_of_a_cpu(
    on_gpu: bool, given_ms: float
) -> None:
    serial = Stage("map(decode)", "Map", 9.4)
    stages = StageTable(0, (serial, PREFETCH), wait_cores=1.0).with_bottleneck(2, 0.0, 6.4, 3.6)
    now = changed(SCRIPT, origin=SourceKind.TF_DATA, stages=stages, split=judged(6.4, 3.6, 0.0))
    machine = msgspec.structs.replace(now.manifest, machine=Machine(cores=2), accelerated=on_gpu)
    found = data_wait.find(with_regime(changed(now, manifest=machine, cores_free=2.0)))

    assert found
    # A thousand steps.
    assert found.claims["data_wait_s"] == pytest.approx(given_ms, rel=0.01)
