"""The graph verifier: what every function must satisfy before and after every pass."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import VerifyError
from tilewright.graph.ir import Constant, Function, Node, Placeholder, Value
from tilewright.types import TensorType

Infer = Callable[[Node], tuple[TensorType, ...]]

# The operators whose results say in which storage they lie; everywhere else a pass may have assigned one.
EXACT = frozenset({"Pack", "Unpack"})


def verify(function: Function, infer: Infer) -> None:
    """Check a function and, recursively, the bodies of its nodes.

    Every value is produced before it is used and by the node that it names; names of values and of nodes are
    unique; constants fill their memory shape; the results of a node have the types that `infer` gives
    (storages only count for Pack and Unpack). Raises VerifyError that names the function and the node.
    """
    try:
        _Checker(function, infer).run()
    except VerifyError as error:
        raise VerifyError(f"function '{function.name}': {error}") from error


class _Checker:
    def __init__(self, function: Function, infer: Infer) -> None:
        self.function = function
        self.infer = infer
        self.produced: set[int] = set()
        self.names: dict[str, Value] = {}
        self.node_names: set[str] = set()

    def run(self) -> None:
        for value in self.function.inputs:
            if not isinstance(value, Placeholder):
                raise VerifyError(f"input '{value.name}' is not a placeholder")
            self._produce(value)
        for node in self.function.nodes:
            self._node(node)
        for result in self.function.outputs:
            self._use(result, "the function's outputs")
        named, count = len(self.function.output_names), len(self.function.outputs)
        if named not in (0, count):
            raise VerifyError(f"{count} outputs have {named} names")

    def _node(self, node: Node) -> None:
        where = f"node '{node.name}' ({node.op})"
        if node.name in self.node_names:
            raise VerifyError(f"{where}: another node has this name")
        self.node_names.add(node.name)
        for value in node.inputs:
            if value is not None:
                self._use(value, where)
        for index, value in enumerate(node.outputs):
            if (
                value.producer is not node
                or value.index != index
                or isinstance(value, Constant | Placeholder)
            ):
                raise VerifyError(f"{where}: result '{value.name}' does not name it as its producer {index}")
            self._produce(value)
        try:
            expected = self.infer(node)
        except VerifyError as error:
            raise VerifyError(f"{where}: {str(error).removeprefix(f'{node.op}: ')}") from error
        _compare(node, expected, where)
        for body in node.bodies:
            try:
                verify(body, self.infer)
            except VerifyError as error:
                raise VerifyError(f"{where}: {error}") from error

    def _use(self, value: Value, where: str) -> None:
        if isinstance(value, Constant):
            self._name(value)
            _check_constant(value)
        elif id(value) not in self.produced:
            source = "no input of this function" if value.producer is None else f"'{value.producer.name}'"
            raise VerifyError(f"{where}: '{value.name}' is used before it is produced (by {source})")

    def _produce(self, value: Value) -> None:
        self._name(value)
        self.produced.add(id(value))

    def _name(self, value: Value) -> None:
        if self.names.setdefault(value.name, value) is not value:
            raise VerifyError(f"two values have the name '{value.name}'")


def _compare(node: Node, expected: tuple[TensorType, ...], where: str) -> None:
    if len(expected) != len(node.outputs):
        raise VerifyError(f"{where}: has {len(node.outputs)} results, expected {len(expected)}")
    for value, wanted in zip(node.outputs, expected, strict=True):
        found = value.type if node.op in EXACT else value.type.with_storage(wanted.storage)
        if found != wanted:
            raise VerifyError(f"{where}: result '{value.name}' has type {value.type}, expected {wanted}")
        value.type.physical_shape  # noqa: B018  (raises when the storage does not fit the rank)


def _check_constant(value: Constant) -> None:
    if value.data.shape != value.type.physical_shape or value.data.dtype != value.type.dtype.numpy:
        raise VerifyError(
            f"constant '{value.name}' of type {value.type} holds an array {value.data.dtype}"
            f"{list(value.data.shape)}, expected {value.type.dtype.numpy}{list(value.type.physical_shape)}"
        )
