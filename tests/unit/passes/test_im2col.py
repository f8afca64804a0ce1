"""Convolutions as patches and products: each case of the pass, equal numbers, and what it leaves alone."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.graph.ir import Constant, Function
from tilewright.passes.im2col import Im2col


def convolution(shape=(2, 4, 7, 6), kernel=(3, 3), constant=True, **attrs) -> Function:
    """8 output channels with a bias; attrs change those of a convolution without padding."""
    graph, rank = Graph(), len(kernel)
    given = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank, "group": 1} | attrs
    sizes = (8, shape[1] // given["group"], *kernel)
    x, weights = graph.input(*shape), graph.weights(*sizes) if constant else graph.input(*sizes, name="w")
    return graph.returning(graph.op("Relu", graph.op("Conv", x, weights, graph.weights(8), **given)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pads": (1, 1, 1, 1)},
        {"pads": (1, 0, 2, 1), "strides": (2, 1)},
        {"dilations": (2, 1), "pads": (2, 1, 2, 1)},
        {"group": 2, "pads": (1, 1, 1, 1)},
        {"kernel": (1, 1), "strides": (2, 2)},
        {"kernel": (1, 1), "pads": (1, 0, 0, 0)},
        {"shape": (1, 1, 5, 5)},
        {"shape": (2, 4, 9), "kernel": (4,), "strides": (2,)},
        {"shape": (1, 4, 4, 5, 3), "kernel": (2, 1, 2), "group": 2},
    ],
    ids=str,
)
def test_equals_the_convolution(options):
    function = fires(convolution(**options), Im2col())
    assert operators(function) == ["Patches", "Conv", "Relu"]


def test_patches_lie_by_group_then_tap_then_channel():
    function = fires(convolution(group=2), Im2col())
    patches, product = node_of(function, "Patches"), node_of(function, "Conv")
    assert patches.output.shape == (2, 9 * 4, 5, 4)
    matrix, weights = product.operand(1), Graph().weights(8, 2, 3, 3)
    assert isinstance(matrix, Constant)
    np.testing.assert_array_equal(matrix.data[:, :2, 0, 0], weights.data[:, :, 0, 0])  # the first tap
    assert matrix.shape == (8, 18, 1, 1)
    assert product.attrs["group"] == 2


def test_weights_that_are_inputs_are_put_in_order_by_nodes():
    function = fires(convolution(constant=False), Im2col())
    assert operators(function) == ["Patches", "Transpose", "Reshape", "Conv", "Relu"]


def test_the_product_keeps_the_name_and_the_origin():
    function = convolution()
    before = node_of(function, "Conv")
    name, origin = before.name, before.origin
    product = node_of(fires(function, Im2col()), "Conv")
    assert (product.name, product.origin) == (name, origin)
    assert node_of(function, "Patches").origin == origin


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": (1, 1)},
        {"group": 4, "pads": (1, 1, 1, 1)},
        {"group": 4, "strides": (2, 2)},
    ],
    ids=str,
)
def test_products_and_depthwise_convolutions_are_left_alone(options):
    keeps(convolution(**options), Im2col())
