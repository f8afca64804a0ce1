"""The operations that a layer's result needs, counted from the model.

What a kernel executes may be more (lanes of a tile that nobody reads) or less (algorithms that save
products), so rates that can be compared between engines and kernels rest on the model.
"""

from collections.abc import Mapping, Sequence
from math import prod

import onnx

Shapes = Mapping[str, Sequence[int]]


def needed_flops(nodes: Sequence[onnx.NodeProto], shapes: Shapes) -> int | None:
    """Two for each multiply-accumulate of the products among the nodes; None when there is no product, or one
    whose shapes are not known.
    """
    counts = [_flops(node, shapes) for node in nodes if node.op_type in _COUNTS]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _flops(node: onnx.NodeProto, shapes: Shapes) -> int | None:
    second = 3 if node.op_type in _QUANTISED else 1
    operands = [shapes.get(name) for name in (node.input[0], node.input[second], node.output[0])]
    x, w, y = (None if shape is None else tuple(shape) for shape in operands)
    if x is None or w is None or (y is None and node.op_type not in _RECURRENT):
        return None
    if node.op_type in _RECURRENT:
        return 2 * _recurrent(node, x, w)
    return 2 * _COUNTS[node.op_type](node, x, w, y or ())


def _convolution(node: onnx.NodeProto, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]) -> int:
    return prod(y) * prod(w[1:])


def _transposed(node: onnx.NodeProto, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...]) -> int:
    return prod(x) * prod(w[1:])


def _product(node: onnx.NodeProto, a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...]) -> int:
    return prod(y) * a[-1]


def _general_product(node: onnx.NodeProto, a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...]) -> int:
    transposed = any(item.name == "transA" and item.i for item in node.attribute)
    return prod(y) * a[0 if transposed else 1]


def _recurrent(node: onnx.NodeProto, x: tuple[int, ...], w: tuple[int, ...]) -> int:
    """x [steps, batch, inputs], w [directions, gates * hidden, inputs]; R is [directions, gates * hidden,
    hidden].
    """
    directions, rows, inputs = w
    return x[0] * x[1] * directions * rows * (inputs + rows // _RECURRENT[node.op_type])


_RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}  # gates
_QUANTISED = ("QLinearConv", "QLinearMatMul")  # scale and zero point stand behind each operand
_COUNTS = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), _convolution),
    "ConvTranspose": _transposed,
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _product),
    "Gemm": _general_product,
    **dict.fromkeys(_RECURRENT, _product),
}
