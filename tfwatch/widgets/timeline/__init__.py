"""The stacked time axis: step chart, marks, starving, sensor lanes."""
