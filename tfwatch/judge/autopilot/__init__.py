"""The search of the autopilot: the measurement of a setting, the moves, and the choice of the next
one."""
