"""What runs a model: torch, or an exported graph on onnxruntime."""
