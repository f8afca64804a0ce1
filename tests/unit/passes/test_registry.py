"""Passes by name and the text that selects them."""

import pytest
from pass_checks import Graph

from tilewright.errors import UsageError
from tilewright.passes.fold import Fold
from tilewright.passes.fuse import Fuse
from tilewright.passes.registry import PASSES, parse_passes


def test_names_are_those_of_the_classes():
    assert all(kind.name == name for name, kind in PASSES.items())
    assert {"fold", "identity", "dce", "cse", "fold_batch_norm", "lower", "fuse"} <= set(PASSES)


def test_options():
    found = parse_passes("fold{max_bytes=1000, max_growth=2}, fuse ,dce")
    assert found[0] == Fold(max_bytes=1000, max_growth=2)
    assert found[1] == Fuse()
    assert len(found) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fold,typo", "pass 'typo' is not known; known: fold, identity"),
        ("fold{bytes=1}", "pass 'fold' has no option 'bytes'; its options: max_bytes, max_growth"),
        ("lower{should_lower=1}", "pass 'lower' has no option 'should_lower'; its options: none"),
        ("fold{max_bytes=many}", "option max_bytes takes a value of type int, not 'many'"),
        ("fold{max_bytes=True}", "option max_bytes takes a value of type int"),
        ("fold{max_bytes}", "option max_bytes takes a value of type int, not ''"),
        ("", "expected name"),
        ("fold,", "expected name"),
        ("fold fuse", "expected name"),
        ("fold{max_bytes=1", "expected name"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str):
    with pytest.raises(UsageError, match=message.replace("{", r"\{")):
        parse_passes(text)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_runs_on_an_empty_function_and_is_documented(name: str):
    (item,) = parse_passes(name)
    graph = Graph()
    assert not item.run(graph.returning(graph.input(2)))
    assert "->" in (PASSES[name].__doc__ or "")
