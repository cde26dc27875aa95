"""A group of ranks in words and as a JSON object."""
