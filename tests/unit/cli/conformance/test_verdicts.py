"""What counts as passed, failed and refused, and the rule for tensor cases, on cases made up for it."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.cli.conformance.cases import Case, is_tensor_model, load_cases
from tilewright.cli.conformance.compare import difference
from tilewright.cli.conformance.outcome import Outcome, run_case
from tilewright.cli.conformance.report import as_json, by_operator, totals
from tilewright.errors import UsageError

X = np.array([[1, -2], [3, np.nan]], np.float32)


def model_of(op="Relu", kind=TensorProto.FLOAT, domains=("",), shape=(2, 2)):
    node = helper.make_node(op, ["x"], ["y"], name="node")
    infos = [helper.make_tensor_value_info(name, kind, shape) for name in "xy"]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, 17) for d in domains], ir_version=8)


def case_of(op="Relu", given=X, wanted=None, tensor=True):
    expected = np.maximum(X, 0) if wanted is None else wanted
    return Case("c", "node", op, tensor, 1e-3, 1e-7, model_of(op), (([given], [expected]),), None)


def verdict(case):
    return run_case(case, {"target": "numpy"})


def test_a_right_result_passes():
    outcome = verdict(case_of())
    assert (outcome.status, outcome.reason) == ("passed", "")


def test_a_wrong_result_fails():
    outcome = verdict(case_of(wanted=X))
    assert outcome.status == "failed"
    assert outcome.reason == "output 0: 1 of 4 elements differ, first at [0, 1]: 0.0, expected -2.0"


def test_an_unsupported_operator_is_a_refusal():
    outcome = verdict(case_of("NoSuchOperator"))
    assert outcome.status == "refused"
    assert "NoSuchOperator" in outcome.reason


def test_any_other_error_is_a_failure():
    outcome = verdict(case_of(given=X[:1]))
    assert outcome.status == "failed"
    assert outcome.reason.startswith("RunError: input 'x'")


@pytest.mark.parametrize(
    ("wanted", "found", "reason"),
    [
        (X, X, ""),
        (np.float32(np.inf), np.float32(-np.inf), "1 of 1 elements differ"),
        (X, X.astype(np.float64), "float64, expected float32"),
        (X, X[:1], r"shape \[1, 2\], expected \[2, 2\]"),
        (np.array([1, 2]), np.array([1, 3]), r"first at \[1\]: 3, expected 2"),
        (np.array([True]), np.array([False]), "1 of 1"),
        (np.ones(1, ml_dtypes.bfloat16), np.array([1.008], ml_dtypes.bfloat16), ""),
        (np.ones(1, ml_dtypes.bfloat16), np.array([1.1], ml_dtypes.bfloat16), "1 of 1"),
        ([X], X, "a list is expected"),
        (np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), ""),
    ],
)
def test_differences(wanted, found, reason):
    text = difference([wanted], [found], 1e-3, 1e-7)
    if reason:
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(text)
    else:
        assert text == ""


def test_the_number_of_outputs_counts():
    assert difference([X], [], 1e-3, 1e-7) == "0 outputs, expected 1"


@pytest.mark.parametrize("kind", ["FLOAT", "BFLOAT16", "INT8", "UINT64", "BOOL"])
def test_tensors_of_numbers_are_tensor_cases(kind):
    assert is_tensor_model(model_of(kind=getattr(TensorProto, kind)))


@pytest.mark.parametrize("kind", ["STRING", "INT4", "UINT2", "FLOAT8E4M3FN", "FLOAT4E2M1", "COMPLEX64"])
def test_other_element_types_are_not(kind):
    assert not is_tensor_model(model_of(kind=getattr(TensorProto, kind)))


@pytest.mark.parametrize("domain", ["ai.onnx.ml", "ai.onnx.preview.training"])
def test_other_domains_are_not(domain):
    assert not is_tensor_model(model_of(domains=("", domain)))


def test_sequences_are_not():
    model = model_of()
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    model.graph.value_info.append(sequence)
    assert not is_tensor_model(model)


def test_totals_and_rows():
    cases = [case_of("Relu"), case_of("Abs"), case_of("Abs", tensor=False)]
    results = {0: Outcome("passed"), 1: Outcome("refused", "why"), 2: Outcome("failed")}
    counts = totals(cases, results)
    assert counts["all"] == {"passed": 1, "failed": 1, "refused": 1}
    assert counts["tensor"] == {"passed": 1, "failed": 0, "refused": 1}
    assert by_operator(cases, results)["Abs"] == {"passed": 0, "failed": 1, "refused": 1}
    value = as_json(cases, results, {"target": "numpy"})
    assert value["cases"][1]["reason"] == "why"
    assert [row["operator"] for row in value["operators"]] == ["Abs", "Relu"]


def test_unknown_kinds_and_patterns_are_refused():
    with pytest.raises(UsageError, match="--kind real: known are node, simple"):
        load_cases(["real"])
    with pytest.raises(UsageError, match=r"-k \(: no regular expression"):
        load_cases(["simple"], "(")


def test_stored_cases_are_read_with_all_their_data():
    cases = load_cases(["simple"], "expand_shape_model1$|sign_model")
    assert len(cases) == 2
    for case in cases:
        model, data_sets = case.read()
        assert isinstance(model, onnx.ModelProto)
        assert data_sets
        assert all(len(wanted) == len(model.graph.output) for _, wanted in data_sets)
        assert verdict(case).status == "passed"
