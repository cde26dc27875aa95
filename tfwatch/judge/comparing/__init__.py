"""Two sides of runs, compared."""
