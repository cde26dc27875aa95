"""The vocabulary of a run: rows, events, knobs, clock and units. Standard library and numpy
only."""
