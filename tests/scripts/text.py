"""Text from files: `TextVectorization` adapted to them and used in the pipeline, padded batches, a
recurrent model."""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(15)
rng = np.random.default_rng(15)
words = "the a film plot actor was is great awful slow bright dull I saw it twice never again"
words = np.array(words.split(" "))
with tempfile.TemporaryDirectory() as folder:
    for number in range(4):
        lines = [" ".join(rng.choice(words, rng.integers(4, 14))) for _ in range(80)]
        pathlib.Path(folder, f"{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    files = tf.data.Dataset.list_files(f"{folder}/*.txt", shuffle=False)
    lines = files.interleave(tf.data.TextLineDataset, cycle_length=2, num_parallel_calls=2)

    vectorize = keras.layers.TextVectorization(max_tokens=30, output_mode="int")
    vectorize.adapt(lines.batch(32))

    def with_label(line):
        return vectorize(line), tf.cast(tf.strings.regex_full_match(line, ".*great.*"), tf.float32)

    data = lines.shuffle(320, seed=15).map(with_label, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.padded_batch(16).prefetch(tf.data.AUTOTUNE)
    tokens = keras.Input((None,), dtype="int64")
    embedded = keras.layers.Embedding(vectorize.vocabulary_size(), 8, mask_zero=True)(tokens)
    output = keras.layers.Dense(1, activation="sigmoid")(keras.layers.GRU(8)(embedded))
    model = keras.Model(tokens, output)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(data, epochs=2, verbose=2)
    print(vectorize.get_vocabulary()[:4], len(vectorize.get_vocabulary()))
    whole = keras.Sequential([keras.Input((), dtype="string"), vectorize, model])
    print(
        [
            float(one).hex()
            for one in whole.predict(
                tf.constant(["a great film", "it was slow"]), verbose=0
            ).flatten()
        ]
    )
digest(model, history.history)
