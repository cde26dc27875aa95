"""What TensorFlow has traced so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def find_trace_count(note: Callable[[str], None]) -> Callable[[], int] | None:
    """Microseconds that TensorFlow has traced functions for, in all; None, and a note, where it has no such count."""
    try:
        from tensorflow.python.eager.polymorphic_function import tracing_compilation

        cell = tracing_compilation._graph_building_time_counter.get_cell()
        int(cell.value())
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # no public name: it may change
        note(f"steps that trace anew are not marked: TensorFlow's count of traces cannot be read ({error})")
        return None
    return cell.value  # type: ignore[no-any-return]
