"""The runs of one script of `tfwatch run`."""
