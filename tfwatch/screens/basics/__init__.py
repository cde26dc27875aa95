"""The base classes and helpers of all panes."""
