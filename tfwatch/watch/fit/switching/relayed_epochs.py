"""The epochs of a `fit` over several devices of one process, whose batches go through a relay once that is requested.

Keras makes the iterator of an epoch from a distributed data set, which holds batches ahead. A relay stands below it, in
place of the script's data set, so what is switched there takes effect after those batches. Until a switch is requested
Keras' own distributed data set gives the batches, and nothing is replaced.
"""

from __future__ import annotations

import copy
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import reason
from tfwatch.core.refusals import Refusal
from tfwatch.tfdata.relay import Relay
from tfwatch.watch.fit.fit_data import kind_of_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter

_NO_OTHER = (
    "steps_per_epoch: one iterator gives the batches of all epochs; set it before fit begins"
)
#: Kinds of data behind one Python generator: what an iterator took ahead of it, no other one gets.
_READ_ONCE = ("generator", "PyDataset")
_FROM_FUNCTION = "DistributedDatasetsFromFunction"


@dataclass(frozen=True, slots=True)
class RelayedIterator:
    """An iterator of Keras' over a relay.

    iterator: the strategy's. base: an iterator of the script's data set, with the order that Keras' own would have.
    parts: the elements of the relay that make a batch.
    """

    iterator: Any
    base: tf.data.Iterator
    relay: Relay
    parts: int


class RelayedEpochs:
    """Stands in for the distributed data set of Keras' epochs, from the first epoch after a request on.

    stock: Keras' own. why_not: the reason why a relay cannot stand below it; empty if one can. is_active: the newest
    iterator reads from one. begin: called with each such iterator, before a batch of it is asked for. note_failure:
    called with the reason why a relay was not built again.
    """

    def __init__(self, epochs: Any) -> None:
        self._epochs = weakref.ref(epochs)
        self.stock = epochs._distributed_dataset
        self._prepared: tuple[Relay, Any] | None = None
        self._fills: bool | None = None
        self._is_due = False
        self.is_active = False
        self.why_not = self._find_obstacle()
        self.begin: Callable[[RelayedIterator], None] = lambda iterator: None
        self.note_failure: Callable[[str], None] = lambda why: None

    def _find_obstacle(self) -> str:
        strategy = getattr(self.stock, "_strategy", None)
        if (
            not isinstance(strategy, tf.distribute.MirroredStrategy)
            or strategy.extended._in_multi_worker_mode()
        ):
            return Refusal.OTHER_STRATEGY.words
        if kind_of_data(self._epochs()) in _READ_ONCE:
            return Refusal.ONE_READER.words
        try:
            return "" if self._dataset is not None else Refusal.SPREAD.words
        except (AttributeError, IndexError) as error:  # private names of another TensorFlow
            return f"{Refusal.SPREAD.words} ({reason(error)})"

    @property
    def _dataset(self) -> Any:
        """The data set that the script made; of a function of the script's, its data set for each replica."""
        is_made = type(self.stock).__name__ == _FROM_FUNCTION
        return self.stock._datasets[0] if is_made else self.stock._original_dataset

    @property
    def why_not_later(self) -> str:
        """The reason why no relay can begin with a later epoch; empty if one can."""
        epochs = self._epochs()
        if self.why_not or epochs is None or self.is_active:
            return self.why_not
        return _NO_OTHER if epochs.steps_per_epoch and not epochs._num_batches else ""

    def describe(self, writer: RunWriter) -> None:
        """Write into run.json how prefetch is switched, until the stages are read."""
        if why := self.why_not_later:
            writer.describe(switchable=[], fixed={**writer.manifest().fixed, "prefetch": why})
        else:
            writer.describe(from_epoch=["prefetch"])

    def install(self) -> None:
        """Have the next iterator that Keras makes read from a relay.

        Raises:
            Exception: this TensorFlow builds no relay; nothing has changed.
        """
        epochs = self._epochs()
        if epochs is None or self.why_not:
            return
        if epochs._distributed_dataset is not self:
            self._prepared = self._make()
            epochs._distributed_dataset = self
        self._is_due = True

    def uninstall(self) -> None:
        """Restore Keras' own data set."""
        epochs = self._epochs()
        if epochs is not None and epochs._distributed_dataset is self:
            epochs._distributed_dataset = self.stock
        self._prepared = None
        self.begin = lambda iterator: None
        self.note_failure = lambda why: None

    def __iter__(self) -> Any:
        """Return the iterator of an epoch.

        At the end of one Keras makes an iterator that it replaces at once, unless `steps_per_epoch` is given. That one
        is Keras' own: a shuffle takes the seeds that it takes without Watch.
        """
        epochs = self._epochs()
        if epochs is None or not (self._is_due or epochs.steps_per_epoch):
            return iter(self.stock)
        self._is_due = self.is_active = False
        try:
            prepared, self._prepared = self._prepared, None
            relay, distributed = prepared or self._make()
            iterator = iter(distributed)
        except Exception as error:  # noqa: BLE001  the boundary between tfwatch and the training
            self.note_failure(reason(error))
            return iter(self.stock)
        base = iter(self._dataset)
        relay.start(base)  # whatever fails from here on, the batches come from it
        self.is_active = True
        self.begin(RelayedIterator(iterator, base, relay, self._parts))
        return iterator

    @property
    def _parts(self) -> int:
        return (
            self.stock._strategy.num_replicas_in_sync
            if type(self.stock).__name__ == _FROM_FUNCTION
            else 1
        )

    def _make(self) -> tuple[Relay, Any]:
        """Return a relay, and the distributed data set over it, which splits a batch as Keras' own one does."""
        relay = Relay(self._dataset.element_spec)
        distributed = copy.copy(self.stock)
        if type(self.stock).__name__ == _FROM_FUNCTION:
            distributed._datasets = [relay.dataset]
            return relay, distributed
        distributed._cloned_datasets = [self._split(relay.dataset)]
        return relay, distributed

    def _split(self, data: Any) -> Any:
        """Return a data set with the batches of `data` in parts, one for each replica."""
        from tensorflow.python.distribute import input_ops

        replicas = self.stock._num_replicas_in_sync
        if replicas is None or replicas < 2:
            return data
        # The size of a batch is that of the script's data set: a relay has none.
        data = self.stock._make_rebatch_fn(self._dataset, 1, replicas)(data, 0)
        self._fills = self._fills_parts() if self._fills is None else self._fills
        if self._fills:
            return data
        chosen = tf.data.Options()
        chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return input_ops.auto_shard_dataset(data.with_options(chosen), 1, 0, replicas)

    def _fills_parts(self) -> bool:
        """Return whether the parts of a ragged batch are filled one after the other, instead of evenly.

        It depends on how TensorFlow shards the data, also for a single process: by files it leaves the stage that
        splits the batches as it is, else it puts an older one in its place.
        """
        made = self.stock._cloned_datasets[0]
        graph = made._as_serialized_graph(
            external_state_policy=tf.data.experimental.ExternalStatePolicy.IGNORE
        )
        return b"RebatchDatasetV2" in graph.numpy()


def find_relayed(epochs: Any | None) -> RelayedEpochs | None:
    """Return the epochs of a `fit` that a relay can serve; None where one iterator of tf.data gives the batches."""
    dataset = getattr(epochs, "_distributed_dataset", None)
    return (
        None if dataset is None or isinstance(dataset, tf.data.Dataset) else RelayedEpochs(epochs)
    )
