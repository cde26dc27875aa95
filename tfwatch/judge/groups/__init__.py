"""A group of ranks as it is judged and shown."""
