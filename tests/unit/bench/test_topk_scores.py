"""Intervals, class scores, disagreements and label offsets."""

import numpy as np
import pytest

from tilewright.errors import RunError, UsageError
from tilewright_bench.accuracy.intervals import wilson
from tilewright_bench.accuracy.labels import check_offset, chosen_offset
from tilewright_bench.accuracy.scores import best, class_scores, disagreement


def test_wilson_interval_of_a_known_case() -> None:
    # 81 of 263: 0.2553 to 0.3662, a case often printed (Newcombe 1998, table I).
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == 1
    with pytest.raises(ValueError, match="no share"):
        wilson(0, 0)


def test_logits_become_probabilities_and_probabilities_stay() -> None:
    logits = np.array([[1000.0, 1000.0, -1000.0]], np.float32)
    np.testing.assert_allclose(class_scores({"y": logits}), [0.5, 0.5, 0.0])
    shares = np.array([[0.2, 0.5, 0.3]])
    np.testing.assert_array_equal(class_scores({"y": shares}), shares[0])


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"a": np.ones((1, 3)), "b": np.ones((1, 3))}, "has 2: a, b"),
        ({"y": np.ones((2, 3))}, "one row of class scores"),
        ({"y": np.array([[1.0, np.nan]])}, "NaN"),
    ],
)
def test_other_outputs_are_refused(outputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(RunError, match=message):
        class_scores(outputs)


def test_equal_scores_take_the_lower_index_first() -> None:
    assert best(np.array([0.2, 0.4, 0.4]), 3) == [1, 2, 0]


def test_margins_of_a_disagreement() -> None:
    a, b = np.array([0.5, 0.4, 0.1]), np.array([0.3, 0.6, 0.1])
    found = disagreement(a, b)
    assert found is not None
    assert (found.a_index, found.b_index) == (0, 1)
    assert found.a_margin == pytest.approx(0.1)
    assert found.b_margin == pytest.approx(0.3)
    assert disagreement(a, a) is None


def test_1001_outputs_stop_and_ask() -> None:
    with pytest.raises(UsageError, match=r"1001 outputs.*--label-offset 1"):
        chosen_offset(1001, None, 0)
    assert chosen_offset(1001, 0, 0) == 0
    assert chosen_offset(1001, None, 1) == 1
    assert chosen_offset(1000, None, 0) == 0


@pytest.mark.parametrize("true_offset", [-1, 0, 1])
def test_a_shifted_label_is_detected(true_offset: int) -> None:
    """Issue tensorflow/tpu 594: a background class at output 0 gives no error, only a score near zero."""
    labels = list(range(1, 41))
    tops = [[label + true_offset, 0] for label in labels]
    check = check_offset(tops, labels, used=0)
    assert check.hits[true_offset] == 40
    assert check.better == (None if true_offset == 0 else true_offset)


def test_chance_hits_do_not_raise_the_alarm() -> None:
    labels = list(range(1, 41))
    tops = [[label + (1 if index < 15 else 0)] for index, label in enumerate(labels)]
    assert check_offset(tops, labels, used=0).better is None
