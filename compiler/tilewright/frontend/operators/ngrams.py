"""TfIdfVectorizer: counts of n-grams, weighted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tilewright.dtypes import F32, I64
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value

_MODES = ("TF", "IDF", "TFIDF")


def refuse_vectorizer(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Texts, and tables that contradict one another."""
    mode, columns = attributes["mode"], attributes["ngram_indexes"]
    if mode not in _MODES:
        yield f"attribute 'mode' is '{mode}', expected one of {', '.join(_MODES)}"
    if attributes.get("pool_strings") or not attributes.get("pool_int64s"):
        yield "n-grams of strings ('pool_strings') are not supported, 'pool_int64s' is needed"
        return
    if not columns or min(columns) < 0:
        yield "attribute 'ngram_indexes' must name columns from 0 on"
        return
    weights = attributes.get("weights", ())
    if mode != "TF" and weights and len(weights) <= max(columns):
        yield f"attribute 'weights' has {len(weights)} numbers for {max(columns) + 1} columns"
    starts, pool = attributes["ngram_counts"], attributes["pool_int64s"]
    bounds = [*starts, len(pool)]
    sizes = [(stop - start, n) for n, (start, stop) in enumerate(pairwise(bounds), 1)]
    if not starts or starts[0] < 0 or any(size < 0 or size % n for size, n in sizes):
        yield "attribute 'ngram_counts' does not cut 'pool_int64s' into whole n-grams"
    elif sum(size // n for size, n in sizes) != len(columns):
        yield f"attribute 'ngram_indexes' has {len(columns)} numbers, one for each n-gram is needed"
    least, most = attributes["min_gram_length"], attributes["max_gram_length"]
    skips = attributes["max_skip_count"]
    if not 1 <= least <= most or skips < 0:
        yield f"n-grams of {least} to {most} numbers with {skips} skipped do not exist"


@importer("TfIdfVectorizer", 9, refuse=refuse_vectorizer)
def tf_idf_vectorizer(site: Site) -> Sequence[Value]:
    """One count for each length of n-gram; IDF counts no n-gram twice. A weight belongs to a column."""
    x = site.operand(0)
    if len(x.shape) > 2 or not x.dtype.is_integer:
        raise site.fail(f"the input is {x.type}, expected a row or rows of integers")
    rows = x.shape[0] if len(x.shape) == 2 else 1
    extent = x.shape[-1] if x.shape else 1
    numbers = site.reshape(x if x.dtype == I64 else site.emit("Cast", x, to=I64), (rows, extent))
    size = max(site.attr("ngram_indexes")) + 1
    counts: Value | None = None
    for table, columns in _tables(site):
        length = table.shape[1]
        # one number is where it is, however many are skipped between two
        distance = 1 if length == 1 else site.attr("max_skip_count") + 1
        found = site.emit(
            "NGramCount", numbers, site.constant(table), site.constant(columns), distance=distance, size=size
        )
        counts = found if counts is None else site.emit("Add", counts, found)
    if counts is None:
        counts = site.constant(np.zeros((rows, size), np.int64))
    if site.attr("mode") == "IDF":
        counts = site.emit("Min", counts, site.scalar(1, counts))
    result = site.emit("Cast", counts, to=F32)
    weights = site.attr("weights", ())
    if site.attr("mode") != "TF" and weights:
        result = site.emit("Mul", result, site.constant(np.array(weights[:size], np.float32)))
    return [site.reshape(result, (rows, size) if len(x.shape) == 2 else (size,))]


def _tables(site: Site) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each length that counts, the n-grams in order, and their columns. The last of equal ones counts."""
    pool, starts = site.attr("pool_int64s"), site.attr("ngram_counts")
    names = iter(site.attr("ngram_indexes"))
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        grams = [tuple(pool[at : at + length]) for at in range(start, stop, length)]
        column = {gram: next(names) for gram in grams}
        if column and site.attr("min_gram_length") <= length <= site.attr("max_gram_length"):
            ordered = sorted(column)
            yield np.array(ordered, np.int64), np.array([column[gram] for gram in ordered], np.int64)
