"""Pure functions over rows and events: steps, tuning, findings."""
