"""Text to vectors. The service loads `onnx` only; what makes the model file (`build`, `quantize`) stays out of it."""
