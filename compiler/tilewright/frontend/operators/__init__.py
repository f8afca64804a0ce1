"""The ONNX operators that the front end reads, one file per family; importing them fills the table."""

from tilewright.frontend.operators import (  # noqa: F401
    activation,
    arithmetic,
    constants,
    convolution,
    gathering,
    indexing,
    matrix,
    normalisation,
    normalisation_rows,
    padding,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resize,
    sampling,
    shape,
)
