"""The steps of a `fit`: run as Keras does, and timed."""
