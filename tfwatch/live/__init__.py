"""One view of a run, live or over: the only place where a run is judged."""
