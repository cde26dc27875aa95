"""The facts of a model in words, for a step without a profile."""

from tests.runs.folders import make_manifest
from tfwatch.judge.profile.profiling import fact_lines
from tfwatch.runs.format import Embedding, Layer, ModelFacts, RecurrentLayer, ThresholdMetric

MODEL = ModelFacts(
    optimizer="Adam",
    largest_embedding=Embedding("items", 20_000, 64),
    without_cudnn=[RecurrentLayer("lstm", "LSTM", ["unroll=True", "use_bias=False"])],
    float16_convolutions=[Layer("conv", "Conv2D")],
    preprocessing=[Layer("flip", "RandomFlip")],
    threshold_metrics=[ThresholdMetric("auc", "AUC", 802)],
)
EVERYWHERE = [
    "Adam updates all rows of items (20 000 x 64) in each step",
    "metric auc (AUC) compares each prediction with 802 values",
    "flip (RandomFlip) preprocesses images within the step",
]


def test_each_fact_is_a_line() -> None:
    assert fact_lines(make_manifest(model=MODEL)) == [
        *EVERYWHERE,
        "conv (Conv2D) computes in float16",
    ]


def test_a_gpu_has_its_own_facts_and_a_mac_has_no_cudnn() -> None:
    gpu = make_manifest(model=MODEL, accelerated=True)
    mac = make_manifest(model=MODEL, accelerated=True, machine={"system": "macOS-15.1-arm64"})

    against = "lstm (LSTM) runs without cuDNN: unroll=True, use_bias=False"
    assert fact_lines(gpu) == [*EVERYWHERE, against]
    assert fact_lines(mac) == EVERYWHERE


def test_a_model_that_is_not_known_or_has_nothing_special_has_no_line() -> None:
    assert fact_lines(make_manifest()) == []
    assert fact_lines(make_manifest(model=ModelFacts(optimizer="SGD"))) == []
