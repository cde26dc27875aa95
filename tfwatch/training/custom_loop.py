"""Trains where a workload writes its loop by hand: the same fetches, books and switches as under `fit`."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.batches import images_in
from tfwatch.watch.eager_operations import op_by_op
from tfwatch.watch.fetch import Fetch
from tfwatch.watch.step_log import Books
from tfwatch.watch.step_runners import BatchStep, StepByStep, on_host
from tfwatch.watch.tensorflow_info import find_trace_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    import tensorflow as tf

    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.batches import Shape
    from tfwatch.watch.session import Session
    from tfwatch.workloads.workload import Body


class ByHand:
    """One training.

    eager: the body is not traced, so its first step compiles nothing.
    """

    def __init__(self, session: Session, body: Body, validation: tf.data.Dataset | None, *, eager: bool) -> None:
        self._session = session
        self._body = body
        self._validation = validation
        self._eager = eager
        self._books = Books(session.writer, session.metric, by_keras=False)
        self._fetch = Fetch(session)
        self._step: TracedBody | None = None
        session.writer.trains_in = threading.get_ident()
        session.writer.describe(split=StepByStep.words)

    def fit(self, epochs: int, steps_per_epoch: int | None) -> dict[str, float]:
        """Train; returns the last epoch's metrics, each the mean over its examples.

        steps_per_epoch: None where the data's end is an epoch's.
        """
        logs: dict[str, float] = {}
        try:
            for epoch in range(epochs):
                self._books.begin_epoch(epoch, epochs, steps_per_epoch)
                logs = self._epoch(steps_per_epoch)
                self._books.end_epoch(logs)
                if self._is_over():
                    break
        finally:
            self._books.end_step(self._session.writer.now_ns())
            self._fetch.close()
            self._books.closed = True
        return logs

    def _epoch(self, steps: int | None) -> dict[str, float]:
        self._fetch.begin_epoch(self._books.steps)
        shape = self._fetch.adopt(None)
        if self._step is None:
            self._step = TracedBody(self._body, shape, self._session.writer, eager=self._eager)
        step, means = self._step, Means()
        run = StepByStep(step, self._fetch, self._books, self._session.writer, phantom=False)
        begun = self._books.steps
        while not self._is_over() and self._books.steps - begun != steps:
            try:
                logs = run(step, None)  # without a phantom step neither is used
            except StopIteration:
                break
            means.add(logs, step.examples)
        return {**means.values(), **self._validate()}

    def _validate(self) -> dict[str, float]:
        if self._validation is None or self._session.control.stop.is_set():
            return {}
        self._books.begin_validation()
        means = Means()
        for batch in self._validation:
            if self._session.control.stop.is_set():
                break
            means.add(on_host(self._body.validate(batch)), images_in(batch) or 0)
        self._books.end_validation()
        return {f"val_{name}": value for name, value in means.values().items()}

    def _is_over(self) -> bool:
        return self._session.is_over(self._books.steps)


class TracedBody(BatchStep):
    """The body as `StepByStep` runs it; what traces in it is found by TensorFlow's own count.

    examples: of the last batch.
    """

    def __init__(self, body: Body, shape: Shape, writer: RunWriter, *, eager: bool) -> None:
        operations = op_by_op(writer) if eager else None
        super().__init__(lambda batches: body.train(next(batches)), shape, eager=True, operations=operations)
        self.ready = eager
        self.examples = 0
        self._traced = find_trace_count(writer.note) or (lambda: 0)

    def __call__(self, batch: Any) -> Any:
        before = self._traced()
        outputs = self._plain(batch)
        self.traces += self._traced() != before
        self.ready = True
        self.examples = images_in(batch) or 0
        return outputs


class Means:
    """Means over examples, of figures that are means over a batch's."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._count = 0

    def add(self, logs: Mapping[str, float], examples: int) -> None:
        """Take a batch's."""
        self._count += examples
        for name, value in logs.items():
            self._sums[name] += value * examples

    def values(self) -> dict[str, float]:
        """Of all that were taken; empty before the first."""
        return {name: total / self._count for name, total in self._sums.items()} if self._count else {}
