"""The built-in workloads, one module each."""
