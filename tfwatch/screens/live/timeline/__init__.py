"""The timeline: step chart, marks, starving, GPU and CPU lanes."""
