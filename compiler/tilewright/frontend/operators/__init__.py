"""The ONNX operators that the front end reads, one file per family; importing them fills the table."""

from tilewright.frontend.operators import (  # noqa: F401
    activation,
    arithmetic,
    constants,
    convolution,
    indexing,
    matrix,
    normalisation,
    padding,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
)
