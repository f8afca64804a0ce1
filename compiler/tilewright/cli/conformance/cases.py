"""The cases of the public ONNX backend suite, and which of them are tensor cases."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, load, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from tilewright.errors import UsageError

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
DataSet = tuple[Sequence[Any], Sequence[Any]]

_EXPANDED = re.compile(r"_expanded(_ver\d+)?$")
_STRUCTURAL = ("Constant", "Identity", "Cast")

# Element types that are not computed with: text, complex numbers, and small numbers that are stored only.
_OTHER_TYPES = frozenset(
    code
    for name, code in TensorProto.DataType.items()
    if name in ("STRING", "COMPLEX64", "COMPLEX128", "INT4", "UINT4", "INT2", "UINT2")
    or name.startswith(("FLOAT8", "FLOAT6", "FLOAT4"))
)


@dataclass(frozen=True)
class Case:
    """One case. operator: its subject; tensor: whether it counts as a tensor case.

    folder: of a case that is stored in files; others are in memory.
    """

    name: str
    kind: str
    operator: str
    tensor: bool
    rtol: float
    atol: float
    model: ModelProto | None
    data_sets: tuple[DataSet, ...]
    folder: Path | None

    def read(self) -> tuple[ModelProto, tuple[DataSet, ...]]:
        """The model and its inputs with the expected outputs."""
        if self.folder is None:
            assert self.model is not None
            return self.model, tuple((_arrays(given), _arrays(wanted)) for given, wanted in self.data_sets)
        model = load(self.folder / "model.onnx")
        sets = sorted(self.folder.glob("test_data_set*"))
        return model, tuple((_stored(folder, "input"), _stored(folder, "output")) for folder in sets)


def load_cases(kinds: Sequence[str], pattern: str = "") -> list[Case]:
    """All cases of the kinds whose names match a regular expression. Raises UsageError."""
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise UsageError(f"--kind {unknown[0]}: known are {', '.join(KINDS)}")
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"-k {pattern}: no regular expression: {error}") from error
    return [case for kind in kinds for case in _cases(kind) if wanted.search(case.name)]


def is_tensor_model(model: ModelProto) -> bool:
    """Whether a model computes with ordinary tensors only.

    Its declared inputs, outputs and intermediate values are tensors of numbers or booleans (no sequence, no
    optional, no text, no complex number, no float of 8 bits or less, no integer below 8 bits), and it uses
    the standard domain only (no ai.onnx.ml, no training).
    """
    if any("ml" in entry.domain or "training" in entry.domain for entry in model.opset_import):
        return False
    return all(_is_tensor(type_) for type_ in _declared_types(model.graph))


def _declared_types(graph: GraphProto) -> Iterator[TypeProto]:
    for infos in (graph.input, graph.output, graph.value_info):
        yield from (info.type for info in infos)


def _is_tensor(type_: TypeProto) -> bool:
    return type_.HasField("tensor_type") and type_.tensor_type.elem_type not in _OTHER_TYPES


def _cases(kind: str) -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes infinities and NaN on purpose
        tests: list[TestCase] = load_model_tests(kind=kind)
    operators = {test.name: _operator(test, kind) for test in tests}
    return [_case(test, kind, operators) for test in sorted(tests, key=lambda test: test.name)]


def _case(test: TestCase, kind: str, operators: dict[str, str]) -> Case:
    # The suite repeats cases with the operator's function body in its place: they count for that operator.
    whole = _EXPANDED.sub("", test.name)
    folder = None if test.model_dir is None else Path(test.model_dir)
    model = test.model if folder is None else load(folder / "model.onnx")
    assert model is not None
    return Case(
        name=test.name,
        kind=kind,
        operator=operators.get(whole, operators[test.name]),
        tensor=is_tensor_model(model),
        rtol=test.rtol,
        atol=test.atol,
        model=model if folder is None else None,
        data_sets=tuple(test.data_sets or ()),
        folder=folder,
    )


def _operator(test: TestCase, kind: str) -> str:
    """The operator that a node case is about; models are counted by their kind."""
    if kind != "node" or test.model is None:
        return f"models: {kind}"
    names: list[str] = [node.op_type for node in test.model.graph.node]
    subjects = [name for name in names if name not in _STRUCTURAL]
    return (subjects or names)[0]


def _arrays(values: Iterable[Any]) -> list[Any]:
    """Tensors as arrays; the suite has both, and its type hints do not say so."""
    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in values]


def _stored(folder: Path, role: str) -> list[np.ndarray]:
    files = sorted(folder.glob(f"{role}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [numpy_helper.to_array(TensorProto.FromString(path.read_bytes())) for path in files]
