"""The panes of the live screen."""
