"""A Keras `fit`: its callback, the fetch of each batch, and the ways to run a step."""
