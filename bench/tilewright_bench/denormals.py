"""Whether an engine flushes denormal numbers to zero: found out by running, since engines differ in what they
say.

The speed of a model can depend on it several times over, so a result that does not state it cannot be
compared.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tilewright.errors import CacheError
from tilewright_bench.engines.base import Engine, EngineSpec, Settings

# Long enough that every worker gets a share of the elementwise kernel.
ELEMENTS = 1 << 18


def flushes_denormals(engine: Engine, spec: EngineSpec, settings: Settings, folder: Path) -> bool | str:
    """True or False; a sentence that begins with 'unknown' when the engine could not run the probe.

    The probe multiplies two inputs whose product is a denormal. Matrix units of a CPU always flush: the probe
    speaks of ordinary vector arithmetic.
    """
    path = folder / "denormals.onnx"
    onnx.save(_probe(), path)
    try:
        session = engine.load(engine.prepare(path, spec, settings, folder), spec, settings)
        inputs = {"x": np.full(ELEMENTS, 1e-30, np.float32), "y": np.full(ELEMENTS, 1e-10, np.float32)}
        product = session.run(inputs)["z"]
    except CacheError:
        raise  # not the engine's fault, and nothing else would work either
    except Exception as error:  # whatever the engine raises is the reason that the result states
        return f"unknown: {error}"
    return bool(np.any(product == 0))


def _probe() -> onnx.ModelProto:
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [ELEMENTS]) for name in "xyz")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "y"], ["z"], name="product")], "probe", [x, y], [z]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
