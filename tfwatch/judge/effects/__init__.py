"""Switches, A/B tests and runs of the autopilot: their effects, and their words."""
