"""Train a workload that has a custom loop, with the same fetches, step log and switches as under `fit`."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tfwatch.watch.fit.fetch import Fetch
from tfwatch.watch.fit.stepping.eager_operations import time_operations
from tfwatch.watch.fit.stepping.step_runners import BatchStep, StepByStepRunner, on_host
from tfwatch.watch.step_log import StepLog, count_examples
from tfwatch.watch.tensorflow_info import find_trace_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    import tensorflow as tf

    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.live_switch import BatchSpec
    from tfwatch.watch.session import Session
    from tfwatch.workloads.workload import LoopBody


class CustomLoop:
    """One training with a custom loop.

    eager: the body is not traced, so the first step compiles nothing.
    """

    def __init__(
        self, session: Session, body: LoopBody, validation: tf.data.Dataset | None, *, eager: bool
    ) -> None:
        self._session = session
        self._body = body
        self._validation = validation
        self._eager = eager
        self._step_log = StepLog(session.writer, session.metric, by_keras=False)
        self._fetch = Fetch(session)
        self._step: TracedBody | None = None
        session.writer.training_thread = threading.get_ident()
        session.writer.describe(split=StepByStepRunner.description)

    def fit(self, epochs: int, steps_per_epoch: int) -> dict[str, float]:
        """Train; return the last epoch's metrics, each the mean over its examples."""
        logs: dict[str, float] = {}
        try:
            for epoch in range(epochs):
                self._step_log.begin_epoch(epoch, epochs, steps_per_epoch)
                logs = self._epoch(steps_per_epoch)
                self._step_log.end_epoch(logs)
                if self._is_over():
                    break
        finally:
            self._step_log.end_step(self._session.writer.now_ns())
            self._fetch.close()
            self._step_log.closed = True
        return logs

    def _epoch(self, steps: int) -> dict[str, float]:
        self._fetch.switches.begin_epoch(self._step_log.steps)
        shape = self._fetch.use_iterator(None)
        if self._step is None:
            self._step = TracedBody(self._body, shape, self._session.writer, eager=self._eager)
        step, means = self._step, Means()
        run = StepByStepRunner(
            step, self._fetch, self._step_log, self._session.writer, is_scripts=False
        )
        begun = self._step_log.steps
        while not self._is_over() and self._step_log.steps - begun != steps:
            logs = run(step, None)  # neither is used, as Keras is not called at the end
            means.add(logs, step.examples)
        return {**means.values(), **self._validate()}

    def _validate(self) -> dict[str, float]:
        if self._validation is None or self._session.control.stop.is_set():
            return {}
        self._step_log.begin_validation()
        means = Means()
        for batch in self._validation:
            if self._session.control.stop.is_set():
                break
            means.add(on_host(self._body.validate(batch)), count_examples(batch) or 0)
        self._step_log.end_validation()
        return {f"val_{name}": value for name, value in means.values().items()}

    def _is_over(self) -> bool:
        return self._session.is_over(self._step_log.steps)


class TracedBody(BatchStep):
    """The body of a custom loop as `StepByStepRunner` runs it. TensorFlow's tracing time shows whether a step traced.

    examples: of the last batch.
    """

    def __init__(self, body: LoopBody, shape: BatchSpec, writer: RunWriter, *, eager: bool) -> None:
        operations = time_operations(writer) if eager else None
        super().__init__(
            lambda batches: body.train(next(batches)), shape, eager=True, operations=operations
        )
        self.is_ready = eager
        self.examples = 0
        self._traced = find_trace_count(writer.note) or (lambda: 0)

    def __call__(self, batch: Any) -> Any:
        before = self._traced()
        outputs = self._plain(batch)
        self.traces += self._traced() != before
        self.is_ready = True
        self.examples = count_examples(batch) or 0
        return outputs


class Means:
    """Means over examples, from the means of batches."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._count = 0

    def add(self, logs: Mapping[str, float], examples: int) -> None:
        """Add the means of a batch."""
        self._count += examples
        for name, value in logs.items():
            self._sums[name] += value * examples

    def values(self) -> dict[str, float]:
        """Return the means over all batches; empty before the first."""
        return (
            {name: total / self._count for name, total in self._sums.items()} if self._count else {}
        )
