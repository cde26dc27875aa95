"""The selftest and the bench, and the programs that they run in a child process."""
