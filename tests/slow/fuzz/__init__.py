"""Differential fuzzing: random valid ONNX graphs, which all engines must compute alike (docs/fuzzing.md)."""
