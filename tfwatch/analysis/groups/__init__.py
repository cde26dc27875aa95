"""Ranks that train together: which of them the others wait for, and why."""
