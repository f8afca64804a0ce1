"""Model definitions, one file per family; each builds an ONNX model from a seed or from weights."""
