"""Findings: bottleneck, advice, code suggestions, machine and log warnings."""
