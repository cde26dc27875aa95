"""A change of a source is made at the place of its call; the rest of the source stays."""

import ast
from typing import Any

import numpy as np
import pytest

from tfwatch.cli import parsers
from tfwatch.fix.changes import ALLOWED, BY_NAME
from tfwatch.fix.user_file import NoPatchError

JIT, GRAPH = "jit_compile", "run_eagerly"


def made(name: str, source: str) -> str:
    changed = BY_NAME[name].make(source)
    ast.parse(changed)
    return changed


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("m.compile()", "m.compile(jit_compile=True)"),
        ("m.compile('adam', loss)  # note", "m.compile('adam', loss, jit_compile=True)  # note"),
        ("m.compile('adam', (loss), )", "m.compile('adam', (loss), jit_compile=True, )"),
        ("ä = 'ö'; m.compile('ü')", "ä = 'ö'; m.compile('ü', jit_compile=True)"),
        (
            "m.compile(\n    'adam',  # one\n    metrics=[\n        'mae',\n    ],  # two\n)\n",
            "m.compile(\n    'adam',  # one\n    metrics=[\n        'mae',\n    ],  # two\n    jit_compile=True,\n)\n",  # noqa: E501
        ),
        (
            "m.compile(\n    'adam', 'mse'  # two\n)",
            "m.compile(\n    'adam', 'mse', jit_compile=True  # two\n)",
        ),
        ("m.compile('a', jit_compile=None)", "m.compile('a', jit_compile=True)"),
        ("m.compile('a', jit_compile='auto', b=1)", "m.compile('a', jit_compile=True, b=1)"),
        (
            "import re\nre.compile('x')\nnet.model.compile('a')",
            "import re\nre.compile('x')\nnet.model.compile('a', jit_compile=True)",
        ),
    ],
)
def test_an_argument_is_set(source: str, expected: str) -> None:
    assert made(JIT, source) == expected


def test_a_value_is_replaced_where_it_is_the_expected_one() -> None:
    assert made(GRAPH, "m.compile('a', run_eagerly=True)") == "m.compile('a', run_eagerly=False)"


@pytest.mark.parametrize(
    ("source", "name", "why"),
    [
        ("m.fit(x)", JIT, "no calls of compile"),
        ("a.compile('x')\nb.compile('x')", JIT, "2 calls of compile"),
        ("m.compile('a', jit_compile=args.jit)", JIT, "compile has jit_compile=args.jit"),
        ("m.compile('a', **options)", JIT, "arguments from a dict"),
        ("m.compile('a')", GRAPH, "no run_eagerly=True"),
        ("m.compile('a', run_eagerly=debug)", GRAPH, "compile has run_eagerly=debug"),
    ],
)
def test_an_argument_that_cannot_be_set_is_refused(source: str, name: str, why: str) -> None:
    with pytest.raises(NoPatchError, match=why):
        made(name, source)


WAITING = """\
import tensorflow as tf
if a:
    d = s.map(f).map(g, num_parallel_calls=2)
    d = d.batch(8)
"""
PARALLEL = """\
import tensorflow as tf
if a:
    d = s.map(f, num_parallel_calls=16).map(g, num_parallel_calls=16)
    parallel_options = tf.data.Options()
    parallel_options.threading.private_threadpool_size = 16
    d = d.batch(8).with_options(parallel_options)
"""
TWO = "d = d.map(f)\n# note\nd = d.map(lambda x: x, num_parallel_calls=2)\nd = d.batch(8, True)\n"


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        (
            "batch_first",
            "d = r.map(f).map(g).batch(8).map(h)",
            "d = r.batch(8).map(f).map(g).map(h)",
        ),
        (
            "batch_first",
            TWO,
            (
                "d = d.batch(8, True)\n# note\nd = d.map(f)\n"
                "d = d.map(lambda x: x, num_parallel_calls=2)\n"
            ),
        ),
        (
            "batch_first",
            "d = (\n    r.map(f)  # a.b\n    .batch(8)\n)\n",
            "d = (\n    r.batch(8)  # a.b\n    .map(f)\n)\n",
        ),
        ("num_parallel_calls", WAITING, PARALLEL),
        ("take_first", "m.fit(r.cache().take(9).batch(4))", "m.fit(r.take(9).cache().batch(4))"),
        (
            "validation_freq",
            "scaler.fit(x)\nm.fit(x, validation_data=v, epochs=9)",
            "scaler.fit(x)\nm.fit(x, validation_data=v, epochs=9, validation_freq=5)",
        ),
        (
            "deterministic",
            "d.map(f, num_parallel_calls=4).map(g)",
            "d.map(f, num_parallel_calls=4, deterministic=False).map(g)",
        ),
        ("batch_size", "m.fit(x, batch_size=32)", "m.fit(x, batch_size=64)"),
        (
            "batch_size",
            "SIZE = 8\nd.batch(SIZE)\ne.batch(SIZE)",
            "SIZE = 16\nd.batch(SIZE)\ne.batch(SIZE)",
        ),
        (
            "mixed_bfloat16",
            "import tensorflow as tf\nx = 1\n",
            'import tensorflow as tf\ntf.keras.config.set_dtype_policy("mixed_bfloat16")\nx = 1\n',
        ),
        (
            "float32",
            "keras.mixed_precision.set_global_policy('mixed_float16')  # half",
            'keras.mixed_precision.set_global_policy("float32")  # half',
        ),
        (
            "cudnn",
            "a = LSTM(8, unroll=True)\nb = k.GRU(8, use_cudnn=False, unroll=False)",
            'a = LSTM(8, unroll=False)\nb = k.GRU(8, use_cudnn="auto", unroll=False)',
        ),
    ],
)
def test_a_change_is_made(name: str, source: str, expected: str) -> None:
    assert made(name, source) == expected


#: What stands in `compile`, and what remains of it.
LEFT_OUT = [
    ("'a', metrics=['acc', k.AUC()]", "'a', metrics=['acc']"),
    ("'a', metrics=[AUC(), 'acc', AUC(4000)], b=1", "'a', metrics=['acc'], b=1"),
    ("'a', metrics=[AUC()]", "'a'"),
    ("'a', metrics=[AUC(), k.PrecisionAtRecall(0.5)], b=1", "'a', b=1"),
    ("metrics=[AUC(name='of')], weighted_metrics=['acc', AUC()]", "weighted_metrics=['acc']"),
    ("metrics=[Recall(thresholds=marks), Precision()]", "metrics=[Precision()]"),
    ("\n    'a',  # one\n    metrics=[AUC()],  # two\n", "\n    'a',  # one\n"),
    ("\n    'a', metrics=[AUC()],  # two\n    b=1,\n", "\n    'a',  # two\n    b=1,\n"),
    ("'a',\n    metrics=[AUC()]", "'a'"),
    ("'a',  # one\n    metrics=[AUC()]", "'a',  # one\n    "),
    (
        "metrics=[\n    'acc',  # one\n    AUC(\n        9,\n    ),\n    'mae',\n]",
        "metrics=[\n    'acc',  # one\n    'mae',\n]",
    ),
]


@pytest.mark.parametrize(("given", "expected"), LEFT_OUT)
def test_metrics_over_thresholds_are_left_out(given: str, expected: str) -> None:
    rest = "\nm.evaluate(x)\nlogs = m.evaluate(x, return_dict=True)\nprint('the auc', logs['loss'])"
    assert made("metrics", f"m.compile({given}){rest}") == f"m.compile({expected}){rest}"


HEAD = """\
import tensorflow as tf
m = keras.Sequential(
    [
        keras.Input((8, 8, 3)),
        k.RandomFlip(),
        k.RandomZoom(0.1),  # a little
        k.Flatten(),
    ]
)
m.fit(data, epochs=3)
"""
AUGMENTED = """\
import tensorflow as tf
m = keras.Sequential(
    [
        keras.Input((8, 8, 3)),
        k.Flatten(),
    ]
)
augment = keras.Sequential([
    k.RandomFlip(),
        k.RandomZoom(0.1),  # a little
])
m.fit(data.MAP, epochs=3)
"""
OF_ITS_OWN = """\
import tensorflow as tf
flip = keras.Sequential([k.RandomFlip()])
x = k.Flatten()(flip(inputs))
m.fit(read().batch(8))
"""
FLIPPED = """\
import tensorflow as tf
flip = keras.Sequential([k.RandomFlip()])
x = k.Flatten()(inputs)
m.fit(read().batch(8).MAP)
"""


@pytest.mark.parametrize(
    ("source", "expected", "name"), [(HEAD, AUGMENTED, "augment"), (OF_ITS_OWN, FLIPPED, "flip")]
)
def test_random_layers_move_into_a_map(source: str, expected: str, name: str) -> None:
    moved = (
        f"map(lambda x, y: ({name}(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)"
        ".prefetch(tf.data.AUTOTUNE)"
    )
    assert made("augmentation", source) == expected.replace("MAP", moved)


ROWS = """\
import tensorflow as tf
def rows():
    for number in range(21):
        yield np.full(3, number), {"twice": 2.0 * number}
if True:
    data = tf.data.Dataset.from_generator(rows, output_signature=(
        tf.TensorSpec((3,), tf.int32), {"twice": tf.TensorSpec((), tf.float32)}))
    data = data.batch(8)
found = [(x.numpy().tolist(), y["twice"].numpy().tolist()) for x, y in data]
"""


AREA = "m.compile('a', metrics=[AUC()])\n"
SPLIT = "m.fit(x, validation_split=0.2"
GENERATOR = "tf.data.Dataset.from_generator(g, output_signature=s).batch(8)"


@pytest.mark.tensorflow
def test_batches_of_a_generator_are_those_of_its_rows() -> None:
    changed = made("batches_from_generator", ROWS)
    assert ".batch(" not in changed
    sides = []
    for source in (ROWS, changed):
        names: dict[str, Any] = {"np": np}
        exec(source, names)
        sides.append(names["found"])
    assert sides[0] == sides[1]


@pytest.mark.parametrize(
    ("name", "source", "why"),
    [
        ("batch_first", "d.map(f).shuffle(9).batch(8)", "no calls of batch right after map"),
        ("batch_first", "d.map(f).batch(8)\ne.map(f).batch(8)", "2 calls of batch right after map"),
        (
            "batches_from_generator",
            "tf.data.Dataset.from_generator(g, tf.float32).batch(8)",
            "other arguments than a function and a signature",
        ),
        (
            "batches_from_generator",
            "tf.data.Dataset.from_generator(g, output_signature=s).batch(8, True)",
            "other arguments than its size",
        ),
        ("take_first", "d.cache().batch(2).take(9)", "no calls of take right after cache"),
        ("take_first", "d = d.cache()\nt = d.take(8)\nv = d.skip(8)", "no calls of take right"),
        ("take_first", "d = d.cache()\nd = d.take(len(d) // 2)", "no calls of take right"),
        ("batch_first", "d = d.map(f)\nt = d.batch(8)\nv = d.take(4)", "no calls of batch right"),
        ("batch_first", "d = r.map(lambda x: d)\nd = d.batch(8)", "no calls of batch right"),
        ("batches_from_generator", f"x = 1; {GENERATOR}", "another statement begins its line"),
        ("batches_from_generator", f"if a:\n    pass\nelif b: {GENERATOR}", "begins its line"),
        ("batches_from_generator", f"@f({GENERATOR})\ndef g(): pass\n", "begins its line"),
        ("batches_from_generator", f"x = 1; \\\n{GENERATOR}", "the changed script is no Python"),
        ("num_parallel_calls", "import tensorflow as tf\nn += 1; d = d.map(f)", "begins its line"),
        ("validation_freq", "m.fit(x)", "no calls of fit"),
        ("validation_freq", f"{SPLIT}, validation_freq=2)", "fit has validation_freq=2"),
        ("deterministic", "d.map(f)", "no map has num_parallel_calls"),
        ("batch_size", "d.batch(8)\ne.batch(16)", "2 numbers of a batch size"),
        ("mixed_bfloat16", "k.set_dtype_policy('float16')", "a policy of its own"),
        ("mixed_bfloat16", "x = 1\n", "does not import keras"),
        ("float32", "k.set_global_policy('float64')", "not mixed_float16"),
        ("cudnn", "a = LSTM(8)", "no layer has unroll=True"),
        ("augmentation", HEAD.replace("k.RandomFlip", "k.RandomCrop"), "no models that begin"),
        (
            "augmentation",
            HEAD.replace("k.Flatten()", "k.Flatten(), k.RandomFlip()"),
            "no models that begin",
        ),
        ("augmentation", HEAD.replace("import tensorflow as tf", ""), "no name for TensorFlow"),
        ("augmentation", OF_ITS_OWN.replace("flip(inputs)", "m"), "no calls of flip"),
        ("metrics", "m.compile('a', metrics=['acc', Recall()])", "no list with a metric over"),
        ("metrics", "m.compile('a', metrics=METRICS)", "has metrics=METRICS, not a list in the"),
        ("metrics", f"{AREA}EarlyStopping(monitor='val_auc')", "line 2 reads the metric as 'val_a"),
        ("metrics", f"{AREA}ModelCheckpoint('{{epoch}}-{{auc:.2f}}.keras')", "line 2 reads"),
        ("metrics", f"{AREA}print(f'{{history[\"auc_1\"]}}')", "reads the metric as 'auc_1'"),
        ("metrics", AREA.replace("()", "(name='area')") + "logs['val_area']", "as 'val_area'"),
        ("metrics", f"{AREA}loss, auc = m.evaluate(x)", "line 2 uses the metrics that evaluate"),
        (
            "metrics",
            AREA.replace("AUC", "PrecisionAtRecall") + "'precision_at_recall'",
            "reads the metric",
        ),
        (JIT, "m.compile(", "cannot be parsed"),
    ],
)
def test_a_change_without_a_single_place_is_refused(name: str, source: str, why: str) -> None:
    with pytest.raises(NoPatchError, match=why):
        made(name, source)


def test_the_allowed_kinds_are_those_of_the_command() -> None:
    assert tuple(ALLOWED) == parsers._ALLOWED
