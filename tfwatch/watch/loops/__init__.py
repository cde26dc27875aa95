"""A loop of one's own: `track`."""
