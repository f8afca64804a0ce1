"""A word-level language model of two LSTM layers (Zaremba et al., arXiv 1409.2329, the medium size)."""

import math

import numpy as np
import onnx
from onnx import TensorProto

from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

VOCABULARY = 10000
_WIDTH = 650
_STEPS = 35


def lstm_lm(seed: int) -> onnx.ModelProto:
    """Input `tokens` int64 [35, 1] in 0…9999, output `logits` [35, 1, 10000]; 0.46 GMAC."""
    graph, draws = GraphWriter("lstm_lm"), Draws(seed)
    tokens = graph.input("tokens", [_STEPS, 1], TensorProto.INT64)
    table = graph.weight("embedding.weight", draws.normal((VOCABULARY, _WIDTH), 1.0))
    x = graph.node("Gather", "embedding", [table, tokens], axis=0)
    direction_axis = graph.weight("direction_axis", np.array([1], np.int64))
    for index in (1, 2):
        x = graph.node("Squeeze", f"squeeze{index}", [_lstm(graph, draws, f"lstm{index}", x), direction_axis])
    weight = graph.weight("decoder.weight", draws.normal((_WIDTH, VOCABULARY), math.sqrt(1 / _WIDTH)))
    bias = graph.weight("decoder.bias", layers.small_bias(draws, VOCABULARY))
    x = graph.node("MatMul", "decoder.matmul", [x, weight])
    graph.node("Add", "decoder.add", [x, bias], output="logits")
    graph.output("logits", [_STEPS, 1, VOCABULARY])
    return graph.model()


def _lstm(graph: GraphWriter, draws: Draws, name: str, x: str) -> str:
    """Forward LSTM, gates in ONNX's order i, o, f, c; output [steps, directions = 1, batch, width]."""
    std = math.sqrt(1 / _WIDTH)
    tensors = {
        "W": draws.normal((1, 4 * _WIDTH, _WIDTH), std),
        "R": draws.normal((1, 4 * _WIDTH, _WIDTH), std),
        "B": draws.normal((1, 8 * _WIDTH), 0.01),
    }
    weights = [graph.weight(f"{name}.{key}", value) for key, value in tensors.items()]
    return graph.node("LSTM", name, [x, *weights], hidden_size=_WIDTH)
