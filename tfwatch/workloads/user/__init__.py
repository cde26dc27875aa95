"""A workload in a file of the user's own."""
