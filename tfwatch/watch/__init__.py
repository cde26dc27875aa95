"""Watch and track: the timing of anybody's training."""
