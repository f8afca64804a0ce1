"""MatMul and Gemm."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value


@importer("MatMul", 1, 9, 13)
def matmul(site: Site) -> Sequence[Value]:
    return [site.emit("MatMul", site.operand(0), site.operand(1))]


@importer("Gemm", 7, 9, 11, 13)
def gemm(site: Site) -> Sequence[Value]:
    """With beta zero the third operand is not read at all, so that its NaNs do not reach the result."""
    beta = site.attr("beta", 1.0)
    return [
        site.emit(
            "Gemm",
            site.operand(0),
            site.operand(1),
            site.optional(2) if beta != 0 else None,
            alpha=site.attr("alpha", 1.0),
            beta=beta,
            transA=site.flag("transA"),
            transB=site.flag("transB"),
        )
    ]
