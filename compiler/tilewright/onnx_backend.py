"""The interface `onnx.backend` on top of the driver: for the conformance suite, and for other users of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper
from onnx.backend.base import Backend, BackendRep

from tilewright.driver import compile
from tilewright.runtime.executable import Executable


class TilewrightRep(BackendRep):
    """A prepared model. Sizes and shape operands that the model leaves open are bound by `run`."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Outputs in the model's order.

        inputs: arrays in the model's order, or by name, or one array. Raises RunError and, for open sizes,
        what `tilewright.compile` raises.
        """
        results = self.executable.run(self._by_name(inputs))
        return tuple(results[output.name] for output in self.executable.outputs)

    def _by_name(self, inputs: Any) -> Mapping[str, np.ndarray]:
        if isinstance(inputs, Mapping):
            return inputs
        arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        names = [argument.name for argument in self.executable.inputs]
        if len(arrays) != len(names):
            raise ValueError(f"{len(arrays)} inputs given, the model takes {len(names)}: {', '.join(names)}")
        return {name: np.asarray(array) for name, array in zip(names, arrays, strict=True)}


class TilewrightBackend(Backend):
    """The entry points that `onnx.backend` defines; options are those of `tilewright.compile`."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> TilewrightRep:
        """Compile a model; target: `cpu` unless given. Raises as `tilewright.compile`."""
        if not cls.supports_device(device):
            raise ValueError(f"device '{device}' is not supported; use CPU, and target= for other targets")
        return TilewrightRep(compile(model.SerializeToString(), **kwargs))

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[np.ndarray, ...]:
        """Run one node as a model of its own; opset_version: of ONNX's operators, the newest by default."""
        names = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in inputs]
        given = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)
            )
            for name, array in zip(names, arrays, strict=True)
        ]
        results = [ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], node.op_type, given, results)
        opset = kwargs.pop("opset_version", None)
        imports = None if opset is None else [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=imports)
        return cls.run_model(model, dict(zip(names, arrays, strict=True)), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU: other targets are chosen by `target=`."""
        return device.partition(":")[0] == "CPU"


prepare = TilewrightBackend.prepare
run_model = TilewrightBackend.run_model
run_node = TilewrightBackend.run_node
supports_device = TilewrightBackend.supports_device
