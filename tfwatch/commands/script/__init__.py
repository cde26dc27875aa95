"""`tfwatch run`."""
