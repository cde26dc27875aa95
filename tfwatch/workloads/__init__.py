"""The workloads: a registry, and a module for each one."""
