"""The search of the autopilot: estimates of each setting, the moves, and the choice of the next
one."""
