"""Switches: comparison, experiment, forecast, and the autopilot's search."""
