"""Attributes of a library that are replaced, all or none, and put back."""

from __future__ import annotations

from typing import Any


class Patches:
    """The replaced attributes of one library."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Any]] = []
        self._done: list[tuple[Any, str, Any, Any]] = []

    def add(self, owner: type, name: str, value: Any) -> None:
        """Add an attribute that `apply` is to replace."""
        self._wanted.append((owner, name, value))

    def apply(self) -> None:
        """Replace the attributes.

        Raises:
            AttributeError, TypeError: one of them cannot be replaced; none is.
        """
        try:
            for owner, name, value in self._wanted:
                before = vars(owner)[name]
                setattr(owner, name, value)
                self._done.append((owner, name, value, before))
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Put the attributes back, except one that somebody else has replaced since."""
        while self._done:
            owner, name, value, before = self._done.pop()
            if vars(owner).get(name) is value:
                setattr(owner, name, before)


def definer(kind: type, name: str) -> type:
    """Return the class that defines an attribute of a class.

    Raises:
        AttributeError: no class does.
    """
    for one in kind.__mro__:
        if name in vars(one):
            return one
    raise AttributeError(f"{kind.__name__} has no {name}")
