"""Findings: the banner, advice, code suggestions, the bottleneck, machine and log warnings."""
