"""Text to vectors. The service loads `onnx` only; what makes the model file (`build` and its parts) stays out of it."""
