"""Text to vectors. The service loads `onnx` only; what makes the model file (`build`, `quantize`) stays out of it."""

import os

# Since 1.29 onnxruntime keeps an identifier of the device on the disk and sends events about sessions and models to its vendor,
# unless this is set before it is imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
