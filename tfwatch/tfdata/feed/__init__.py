"""TensorFlow's tf.data service as a feed: its processes, and the part of a pipeline that moves to them."""
