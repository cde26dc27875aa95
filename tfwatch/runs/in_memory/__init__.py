"""A run's rows in memory: buffers that grow, and sums over the steps."""
