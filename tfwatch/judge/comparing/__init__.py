"""Runs that are over, judged for a question: compared, explained, checked against limits."""
