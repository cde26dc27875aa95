"""A profiled step: its parts and their groups, in words, and when a run is due for one."""
