"""A run for people and as JSON: read from its folder, for whoever prints."""
