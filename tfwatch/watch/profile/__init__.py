"""The profile of a few steps, by TensorFlow's own profiler."""
