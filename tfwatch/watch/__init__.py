"""Watch and track: the timing of any training."""
