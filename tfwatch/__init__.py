"""tfwatch: a live terminal monitor for TensorFlow and Keras training, with live switches of the
input pipeline."""

from __future__ import annotations

#: Not imported from `typing`: that takes 8 ms, in which ctrl+c would show a traceback until
#: `cli.main` handles it.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from tfwatch.report.run_facts import summary
    from tfwatch.runs.run import open_run
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.watch.fit.callback import Watch
    from tfwatch.watch.loops.track import Track, track

__version__ = "0.1.0"
__all__ = ["Snapshot", "Track", "Watch", "__version__", "open_run", "summary", "track"]


def load_ipython_extension(ipython: Any) -> None:
    """Record the trainings of a notebook: IPython calls this for `%load_ext tfwatch`."""
    from tfwatch.notebook import load

    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Record nothing more: IPython calls this for `%unload_ext tfwatch`."""
    from tfwatch.notebook import unload

    unload(ipython)


def __getattr__(name: str) -> Any:
    """Load the public names on first use: `Watch` imports Keras, which takes seconds."""
    if name == "Watch":
        from tfwatch.watch.tensorflow_info import require_keras

        require_keras()
        from tfwatch.watch.fit.callback import Watch

        return Watch
    if name in ("track", "Track"):
        from tfwatch.watch.loops import track

        return getattr(track, name)
    if name in ("open_run", "Snapshot"):
        from tfwatch.runs import run

        return getattr(run, name)
    if name == "summary":
        from tfwatch.report.run_facts import summary

        return summary
    raise AttributeError(f"module 'tfwatch' has no attribute {name!r}")
