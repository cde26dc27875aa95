"""The child of `tfwatch run`: it runs a script, and adds Watch to each of its fits."""
