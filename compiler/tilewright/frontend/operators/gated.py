"""SwiGLU."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import F32
from tilewright.frontend.registry import importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.ops.through_float32 import is_half


@importer("SwiGLU", 28)
def swiglu(site: Site) -> Sequence[Value]:
    """Swish of the gate times the value; half types are rounded once."""
    gate, value = site.operand(0), site.operand(1)
    dtype = gate.dtype
    if gate.shape != value.shape:
        raise site.fail(f"gate and value have shapes {list(gate.shape)} and {list(value.shape)}")
    if is_half(dtype):
        gate, value = (site.emit("Cast", x, to=F32) for x in (gate, value))
    y = site.emit("Mul", site.emit("Swish", gate, alpha=site.attr("alpha", 1.0)), value)
    return [y if y.dtype == dtype else site.emit("Cast", y, to=dtype)]
