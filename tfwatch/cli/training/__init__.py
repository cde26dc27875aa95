"""The commands that train a workload."""
