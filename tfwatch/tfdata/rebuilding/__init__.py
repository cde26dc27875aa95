"""A script's own pipeline read as a tree and rebuilt with other settings, every element equal and
in order."""
