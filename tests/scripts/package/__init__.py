"""A package that trains: `-m package --epochs 2`."""
