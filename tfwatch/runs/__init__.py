"""The run folder: its format, the one that writes it and the ones that read it."""
