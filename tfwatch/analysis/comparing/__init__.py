"""Comparisons of whole runs, with intervals that contain the differences between equal runs, and limits on one run."""
