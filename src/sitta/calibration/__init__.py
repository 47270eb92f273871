"""What a model looks like on images of its own domain."""
