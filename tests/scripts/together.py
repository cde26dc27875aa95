"""Scripts with loops of their own, in one process: TensorFlow is imported once."""

import gradient_tape
import train_on_batch

print([script.__name__ for script in (gradient_tape, train_on_batch)])
