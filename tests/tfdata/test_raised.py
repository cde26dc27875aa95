"""The place of an error in a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tensorflow


def error_of(call: Any) -> Exception:
    try:
        call()
    except ValueError as error:
        return error
    raise AssertionError("nothing was raised")


def test_a_library_module_with_the_name_of_the_fetch_is_no_fetch() -> None:
    from tfwatch.training.raised import raised

    names: dict[str, Any] = {"__name__": "lib.feed"}
    exec(compile("def step():\n    raise ValueError('no')", "/opt/lib/tfwatch/training/feed.py", "exec"), names)

    found = raised(error_of(names["step"]))

    assert (str(found.error), found.in_fetch, found.shape) == ("no", False, None)


def test_an_error_of_the_pipeline_is_located_in_the_fetch() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.live_switch import SwitchablePipeline
    from tfwatch.training.raised import raised

    def broken(batches: tf.data.Dataset, knobs: object) -> tf.data.Dataset:
        raise ValueError("no")

    feed = SwitchablePipeline(broken, lambda: None)
    from tfwatch.core.knobs import Knobs

    found = raised(error_of(lambda: feed.start(iter(tf.data.Dataset.range(3)), Knobs())))

    assert (found.in_fetch, found.shape) == (True, None)


def test_an_error_in_a_step_has_the_shape_of_its_batch() -> None:
    import tensorflow as tf

    from tfwatch.training.raised import raised
    from tfwatch.watch.fit.step_runners import BatchStep

    def step(iterator: Any) -> None:
        raise ValueError("no")

    class BatchSpec:
        @staticmethod
        def pack(batch: Any) -> Any:
            return batch

    failing = BatchStep(step, BatchSpec(), eager=True)  # type: ignore[arg-type]

    found = raised(error_of(lambda: failing((tf.zeros((4, 3)), tf.zeros(4)))))

    assert (found.in_fetch, found.shape) == (False, (4, 3))


def test_an_error_of_the_users_iterator_is_located_in_the_fetch(tmp_path: Path) -> None:
    import tensorflow as tf

    from tfwatch.runs.create import begin_run
    from tfwatch.training.raised import raised
    from tfwatch.watch.fit.fetch import Fetch
    from tfwatch.watch.session import Session

    class Broken:
        element_spec = tf.TensorSpec(())

        def __next__(self) -> None:
            raise ValueError("no")

    writer, _ = begin_run(tmp_path, "broken")
    fetch = Fetch(Session(writer))
    fetch.use_iterator(Broken())

    found = raised(error_of(lambda: fetch.next(0)))

    fetch.close()
    writer.close()
    assert (str(found.error), found.in_fetch, found.shape) == ("no", True, None)
