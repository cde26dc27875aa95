"""The switchable `tf.data` pipeline: options, live switch, cache, stage model, disposal."""
