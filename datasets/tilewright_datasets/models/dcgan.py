"""The generator of DCGAN (Radford et al., arXiv 1511.06434) for 64×64 images."""

import math

import onnx

from tilewright_datasets.calibrate import measure_batch_norms
from tilewright_datasets.models import layers
from tilewright_datasets.writer import Draws, GraphWriter

_LATENT = 100
_KERNEL = 4
_LAYERS = ((512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1), (3, 2, 1))  # output channels, stride, padding
_VECTORS_MEASURED = 16


def dcgan(seed: int) -> onnx.ModelProto:
    """Input `z` 1×100×1×1, output `image` 1×3×64×64 in −1…1; 0.1 GMAC."""
    graph, draws = GraphWriter("dcgan"), Draws(seed)
    x = graph.input("z", [1, _LATENT, 1, 1])
    channels = _LATENT
    for index, (outputs, stride, pad) in enumerate(_LAYERS, start=1):
        name, last = f"deconv{index}", index == len(_LAYERS)
        # Each output pixel sees kernel² / stride² taps, one tap at stride 1 from a 1×1 input.
        fan_in = channels * (1 if stride == 1 else _KERNEL**2 // stride**2)
        weight = draws.normal((channels, outputs, _KERNEL, _KERNEL), math.sqrt((1 if last else 2) / fan_in))
        inputs = [x, graph.weight(f"{name}.weight", weight)]
        x = graph.node(
            "ConvTranspose",
            name,
            inputs,
            kernel_shape=[_KERNEL, _KERNEL],
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[1, 1],
            group=1,
        )
        if not last:
            x = layers.seeded_batch_norm(graph, draws, f"bn{index}", x, outputs)
            x = graph.node("Relu", f"relu{index}", [x])
        channels = outputs
    graph.node("Tanh", "tanh", [x], output="image")
    graph.output("image", [1, 3, 64, 64])
    measure_batch_norms(graph, draws.normal((_VECTORS_MEASURED, _LATENT, 1, 1), 1.0))
    return graph.model()
