"""The stages of a pipeline: tf.data's own model of them, their names, and the stage in which a
stall lies."""
