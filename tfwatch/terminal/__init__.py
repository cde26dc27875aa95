"""The terminal while a command runs: descriptors 1 and 2, signals, output, and the guard that
restores it."""
