"""Reports of a run: the summary and the JSON object."""
