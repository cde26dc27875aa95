"""Arrays in memory, batched by hand and trained by train_on_batch: Python picks each batch."""

from workload_setup import arguments, begin, optimizer, patterns

args = arguments(__doc__, epochs=10, steps_in_call=False).parse_args()

import keras
import numpy as np

begin(args)
images, labels = patterns(60_000, (784,))
rng = np.random.default_rng(args.seed)

model = keras.Sequential(
    [
        keras.Input((784,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10, activation="softmax", dtype="float32"),
    ]
)
model.compile(
    optimizer(args),
    "sparse_categorical_crossentropy",
    metrics=["accuracy"],
    run_eagerly=args.eager,
    jit_compile=args.jit,
)
for epoch in range(args.epochs):
    order = rng.permutation(len(images))
    for first in range(0, len(order), args.batch_size):
        batch = order[first : first + args.batch_size]
        logs = model.train_on_batch(
            images[batch].astype(np.float32) / 255.0, labels[batch], return_dict=True
        )
    print(f"epoch {epoch + 1}: loss {logs['loss']:.4f}, accuracy {logs['accuracy']:.4f}")
