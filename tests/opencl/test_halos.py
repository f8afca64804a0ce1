"""The padding of a convolution as a halo of its input, when somebody else reads that input too."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw

pytest.importorskip("pyopencl", reason="the extra 'opencl' is not installed")

SHAPE = [1, 4, 6, 8]


def loop_body(state, captured="v"):
    """A turn of a loop that adds the captured value to its state, or convolves the state."""
    info = helper.make_tensor_value_info
    step = {
        "add": helper.make_node("Add", ["s", captured], ["t"]),
        "conv": helper.make_node("Conv", [captured, "w"], ["t"], pads=[1, 1, 1, 1]),
    }[state]
    return helper.make_graph(
        [step, helper.make_node("Identity", ["going"], ["on"])],
        "body",
        [info("i", 7, []), info("going", 9, []), info("s", 1, SHAPE)],
        [info("on", 9, []), info("t", 1, SHAPE)],
    )


READERS = {
    "output": ([], ["v"]),
    "cumsum": ([helper.make_node("CumSum", ["v", "axis"], ["y"])], ["y"]),
    "topk": ([helper.make_node("TopK", ["v", "k"], ["y", "i"])], ["y", "i"]),
    "loop state": ([helper.make_node("Loop", ["n", "", "v"], ["y"], body=loop_body("add"))], ["y"]),
    "loop capture": ([helper.make_node("Loop", ["n", "", "x"], ["y"], body=loop_body("conv"))], ["y"]),
}


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("reader", READERS)
def test_a_padded_input_with_another_reader(reader, target, tmp_path):
    nodes, outputs = READERS[reader]
    check(helper.make_node("Sin", ["x"], ["v"]), nodes, outputs, target, tmp_path)


WRITERS = {
    "cumsum": helper.make_node("CumSum", ["x", "axis"], ["v"]),
    "topk": helper.make_node("TopK", ["x", "k8"], ["v", ""]),
    "scatter": helper.make_node("ScatterElements", ["x", "indices", "updates"], ["v"], axis=2),
    "loop": helper.make_node("Loop", ["n", "", "x"], ["v"], body=loop_body("add", "x")),
}


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_padded_input_that_knows_plain_memory_only(writer, target, tmp_path):
    check(WRITERS[writer], [], [], target, tmp_path)


def check(writer, nodes, outputs, target, tmp_path):
    """`writer` makes v, a padded convolution and `nodes` read it."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.standard_normal((4, 4, 3, 3)).astype(np.float32),
        "axis": np.array(2),
        "k": np.array([3]),
        "k8": np.array([SHAPE[-1]]),
        "indices": np.array([[[[1]]]]),
        "updates": np.array([[[[2.0]]]], np.float32),
        "n": np.array(3),
    }
    graph = helper.make_graph(
        [
            writer,
            helper.make_node("Conv", ["v", "w"], ["c"], pads=[1, 1, 1, 1]),
            *nodes,
        ],
        "halos",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_empty_tensor_value_info(name) for name in ("c", *outputs)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 18)]
    data = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
    x = random.standard_normal(SHAPE).astype(np.float32)
    wanted = tw.evaluate(data, {"x": x})
    for name, found in tw.compile(data, target=target, cache_dir=tmp_path).run({"x": x}).items():
        np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)
