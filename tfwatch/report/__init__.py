"""Reports of a run: the summary, the progress line and the JSON object."""
