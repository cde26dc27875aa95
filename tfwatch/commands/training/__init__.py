"""`tfwatch train` and `tfwatch ab`."""
