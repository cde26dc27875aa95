"""A shuffle whose buffer size changes with the next pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tfwatch.tfdata.shuffle import Shuffle

pytestmark = pytest.mark.tensorflow

COUNT = 60


def make(seed: int = 5) -> Shuffle:
    from tfwatch.tfdata.shuffle import Shuffle

    return Shuffle(COUNT, seed)


def passes(shuffle: Shuffle, *settings: str) -> list[list[int]]:
    orders = []
    for setting in settings:
        shuffle.set(setting)
        orders.append([int(number) for number in shuffle.numbers.as_numpy_iterator()])
    return orders


def test_each_pass_holds_every_number_once_in_an_order_of_its_own() -> None:
    first, second = passes(make(), "auto", "auto")
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second
    assert passes(make(), "auto", "auto") == [first, second]
    assert passes(make(6), "auto") != [first]


def test_off_is_the_order_of_storage() -> None:
    assert passes(make(), "off") == [list(range(COUNT))]


@pytest.mark.parametrize("size", [2, 7])
def test_a_number_comes_no_earlier_than_the_buffer_allows(size: int) -> None:
    """As `Dataset.shuffle`: the n-th one out is one of the first n + size in."""
    (order,) = passes(make(), str(size))
    assert sorted(order) == list(range(COUNT))
    assert order != list(range(COUNT))
    assert all(number < place + size for place, number in enumerate(order))


def test_a_pass_depends_on_its_own_buffer_and_not_on_earlier_ones() -> None:
    still, turned = passes(make(), "auto", "auto", "auto"), passes(make(), "auto", "3", "auto")
    assert still[0] == turned[0]
    assert still[1] != turned[1]
    assert still[2] == turned[2]


def test_a_running_pass_keeps_its_order() -> None:
    (still,), shuffle = passes(make(), "auto"), make()
    under_way = iter(shuffle.numbers)
    order = [int(next(under_way))]
    shuffle.set("off")
    assert order + [int(number) for number in under_way] == still
