"""The ONNX operators that the front end reads, one file per family. Importing this package fills the table."""

from tilewright.frontend.operators import (  # noqa: F401
    activation,
    arithmetic,
    constants,
    convolution,
    indexing,
    matrix,
    normalisation,
    padding,
    pooling,
    recurrent,
    reduction,
    shape,
)
