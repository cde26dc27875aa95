"""The workloads that tfwatch brings, a module each."""
