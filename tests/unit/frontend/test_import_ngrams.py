"""TfIdfVectorizer: counts of n-grams against ONNX's reference, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tilewright.errors import ImportModelError

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]

POOL: dict[str, Any] = {
    "pool_int64s": [2, 3, 0, 5, 4, 5, 2, 2, 0, 1, 1, 2, 3, 4],
    "ngram_counts": [0, 4, 8],
    "ngram_indexes": [0, 1, 2, 3, 7, 6, 5, 4],
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 3,
    "max_skip_count": 0,
}


@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 0.25, 3.0, 1.5, 0.75, 4.0, 0.125]])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 2), (2, 3), (1, 3), (3, 3), (4, 5)])
@pytest.mark.parametrize("skips", [0, 1, 5])
@pytest.mark.parametrize("shape", [(23,), (4, 9), (1,)])
def test_counts_equal_the_reference(
    build: Build, run: Run, shape: Any, skips: int, least: int, most: int, mode: str, weights: Any
) -> None:
    pool = POOL | {"max_skip_count": skips, "min_gram_length": least, "max_gram_length": most, "mode": mode}
    x = np.random.default_rng(3).integers(0, 6, shape)
    # ONNX's reference stumbles over absent weights, which are ones
    full = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **pool, weights=weights or [1.0] * 8)
    wanted = ReferenceEvaluator(build([full], {"x": x}, ["y"])).run(None, {"x": x})[0]
    pool |= {"weights": weights} if weights else {}
    model = build([helper.make_node("TfIdfVectorizer", ["x"], ["y"], **pool)], {"x": x}, ["y"])
    found = run(model, {"x": x})["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)


def test_rows_of_nothing_count_nothing(build: Build, run: Run) -> None:
    x = np.zeros((2, 0), np.int32)
    model = build([helper.make_node("TfIdfVectorizer", ["x"], ["y"], **POOL)], {"x": x}, ["y"])
    np.testing.assert_array_equal(run(model, {"x": x})["y"], np.zeros((2, 8), np.float32))


def test_the_last_of_equal_n_grams_counts(build: Build, run: Run) -> None:
    pool = POOL | {"pool_int64s": [7, 7, 8], "ngram_counts": [0], "ngram_indexes": [0, 1, 2]}
    x = np.array([7, 8, 7])
    model = build([helper.make_node("TfIdfVectorizer", ["x"], ["y"], **pool)], {"x": x}, ["y"])
    np.testing.assert_array_equal(run(model, {"x": x})["y"], [0, 2, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "BM25"}, "attribute 'mode' is 'BM25'"),
        ({"pool_int64s": None, "pool_strings": ["a"]}, "n-grams of strings"),
        ({"ngram_indexes": [0, 1]}, "'ngram_indexes' has 2 numbers"),
        ({"ngram_indexes": [-1] * 8}, "columns from 0 on"),
        ({"ngram_counts": [0, 3, 8]}, "whole n-grams"),
        ({"mode": "IDF", "weights": [1.0]}, "'weights' has 1 numbers for 8 columns"),
        ({"min_gram_length": 0}, "do not exist"),
    ],
)
def test_contradictions_are_refused(build: Build, run: Run, change: dict[str, Any], message: str) -> None:
    attributes = {key: value for key, value in (POOL | change).items() if value is not None}
    x = np.arange(5)
    model = build([helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)], {"x": x}, ["y"])
    with pytest.raises(ImportModelError, match=message):
        run(model, {"x": x})
