"""Runs as evidence: comparisons, checks and explanations as text, JSON and for CI systems."""
