"""Findings on the machine: GPU, memory, heat, other programs, and the GPUs of a strategy."""
