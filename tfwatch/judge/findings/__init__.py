"""Findings: each kind of loss in a module of its own, their rank, and the lines to change."""
