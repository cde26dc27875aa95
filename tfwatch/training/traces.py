"""What TensorFlow has traced so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def find_trace_count() -> Callable[[], int] | None:
    """Microseconds that TensorFlow has traced functions for, in all; None where it has no such count."""
    try:
        from tensorflow.python.eager.polymorphic_function import tracing_compilation

        cell = tracing_compilation._graph_building_time_counter.get_cell()
        int(cell.value())
    except Exception:  # noqa: BLE001  no public name
        return None
    return cell.value  # type: ignore[no-any-return]
