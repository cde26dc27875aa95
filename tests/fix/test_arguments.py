"""An argument of `compile` is set by the position of the call; the rest of the source stays."""

from __future__ import annotations

import ast

import pytest

from tfwatch.fix.arguments import Argument, set_argument
from tfwatch.fix.user_file import NoPatchError

JIT = Argument("jit_compile", "True")
GRAPH = Argument("run_eagerly", "False", old="True")


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
    assert set_argument(source, JIT) == expected
    ast.parse(expected)


def test_a_value_is_replaced_where_it_is_the_expected_one() -> None:
    assert set_argument("m.compile('a', run_eagerly=True)", GRAPH) == (
        "m.compile('a', run_eagerly=False)"
    )


@pytest.mark.parametrize(
    ("source", "argument", "why"),
    [
        ("m.fit(x)", JIT, "no calls of compile"),
        ("a.compile('x')\nb.compile('x')", JIT, "2 calls of compile"),
        ("m.compile('a', jit_compile=args.jit)", JIT, "compile has jit_compile=args.jit"),
        ("m.compile('a', **options)", JIT, "arguments from a dict"),
        ("m.compile('a')", GRAPH, "no run_eagerly=True"),
        ("m.compile('a', run_eagerly=debug)", GRAPH, "compile has run_eagerly=debug"),
    ],
)
def test_an_argument_that_cannot_be_set_is_refused(
    source: str, argument: Argument, why: str
) -> None:
    with pytest.raises(NoPatchError, match=why):
        set_argument(source, argument)
