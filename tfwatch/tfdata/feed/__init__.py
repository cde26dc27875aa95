"""TensorFlow's tf.data service as a feed: its processes, and the part of a pipeline that moves to them."""

#: The variables by which a command passes its feed to the process that trains: the number of workers to start on this
#: machine, and the HOST:PORT of a dispatcher that runs.
WORKERS_VARIABLE, ADDRESS_VARIABLE = "TFWATCH_FEED_WORKERS", "TFWATCH_FEED"
