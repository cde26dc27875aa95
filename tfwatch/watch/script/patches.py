"""Attributes of a library that are replaced, all or none, and put back; and the user's code that
calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core.user_code import is_users

if TYPE_CHECKING:
    from types import FrameType

#: Libraries that loop over a data set for the loop of their caller: progress bars, and conversions
#: to numpy.
_LOOPS_FOR_CALLER = frozenset({"tqdm", "rich", "tensorflow_datasets"})
_NUMPY_ITERATOR = frozenset({"as_numpy_iterator", "__init__"})


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


def find_users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the user's code that loops over a data set; None where a library loops
    for itself."""
    while frame is not None and _loops_for_caller(frame):
        frame = frame.f_back
    return frame if frame is not None and is_users(frame.f_code.co_filename) else None


def _loops_for_caller(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    if module == "tensorflow.python.data.ops.dataset_ops":
        return frame.f_code.co_name in _NUMPY_ITERATOR
    return module.partition(".")[0] in _LOOPS_FOR_CALLER
