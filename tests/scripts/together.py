"""Scripts with loops of their own and a `CallbackList`, in one process: TensorFlow is imported
once."""

import callback_list
import gradient_tape
import train_on_batch

print([script.__name__ for script in (callback_list, gradient_tape, train_on_batch)])
