"""Data sets of elements that may be missing: a source whose end is one of its elements."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def until_empty(optionals: tf.data.Dataset) -> tf.data.Dataset:
    """Return the elements of optionals, up to the first that has none."""

    @tf.autograph.experimental.do_not_convert
    def has_value(element: tf.experimental.Optional) -> tf.Tensor:
        return element.has_value()

    @tf.autograph.experimental.do_not_convert
    def value(element: tf.experimental.Optional) -> Any:
        return element.get_value()

    return optionals.take_while(has_value).map(value)
