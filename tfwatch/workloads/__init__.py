"""What can be trained: the registry, and a module for each workload."""
