"""A few random graphs and broken files; `make fuzz` and `make slow` try many (docs/fuzzing.md)."""

import numpy as np
import pytest
from fuzz.drawing import Case
from fuzz.engines import judge
from fuzz.graphs import draw
from fuzz.mutant_run import judge_mutants
from fuzz.shrinking import shrink

SEEDS = 40


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_engines_agree(first, tmp_path):
    for seed in range(first, first + 10):
        verdict = judge(draw(seed), seed, tmp_path, opencl=False)
        assert not verdict.fault, f"seed {seed}: {verdict.fault}"


def test_broken_files(tmp_path):
    assert judge_mutants(list(range(60)), 1, tmp_path) == []


def test_a_seed_is_a_graph():
    first, again = draw(7), draw(7)
    assert first.model.SerializeToString() == again.model.SerializeToString()
    assert all(np.array_equal(array, again.feeds[name]) for name, array in first.feeds.items())


def test_a_failure_becomes_small():
    """The fault is a stand-in: any graph that still holds the operator fails."""

    def fails(case: Case) -> bool:
        return any(node.op_type == "Conv" for node in case.model.graph.node)

    case = next(case for case in map(draw, range(100)) if fails(case) and len(case.model.graph.node) > 5)
    small = shrink(case, fails)
    assert [node.op_type for node in small.model.graph.node] == ["Conv"]
    assert not any(array.any() for array in small.feeds.values())
