"""Losses of classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import F32
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.ops.through_float32 import is_half


def _attrs(site: Site) -> dict[str, Any]:
    attrs = {"reduction": site.attr("reduction", "mean")}
    if "ignore_index" in site.attributes:
        attrs["ignore_index"] = site.attr("ignore_index")
    return attrs


@importer("NegativeLogLikelihoodLoss", 12, 13, 22)
def negative_log_likelihood(site: Site) -> Sequence[Value]:
    operands = (site.operand(0), site.operand(1), site.optional(2))
    return [site.emit("NegativeLogLikelihoodLoss", *operands, **_attrs(site))]


@importer("SoftmaxCrossEntropyLoss", 12, 13)
def softmax_cross_entropy(site: Site) -> Sequence[Value]:
    """The negative log likelihood of LogSoftmax over the classes; the second result is that LogSoftmax."""
    scores, weight = site.operand(0), site.optional(2)
    dtype = scores.dtype
    if is_half(dtype):
        scores = site.emit("Cast", scores, to=F32)
        weight = weight if weight is None else site.emit("Cast", weight, to=F32)
    logs = site.emit("LogSoftmax", scores, axis=1)
    loss = site.emit("NegativeLogLikelihoodLoss", logs, site.operand(1), weight, **_attrs(site))
    return [v if v.dtype == dtype else site.emit("Cast", v, to=dtype) for v in (loss, logs)]
