"""Inference optimisations: the same numbers with less time and memory."""
