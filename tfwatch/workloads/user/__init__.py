"""A workload in the user's own file."""
