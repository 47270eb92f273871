"""Names of the activations that a network may return. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping

# With the activation of its logits; ``auto``: one channel is binary, several are classes.
ACTIVATIONS: Mapping[str, str] = {
    "logits": "auto",
    "sigmoid": "sigmoid",  # logits of labels that may overlap
    "softmax": "softmax",  # logits of classes
    "probabilities": "auto",  # several are classes that sum to 1
    "probabilities-sigmoid": "sigmoid",  # of labels that may overlap
}
INSIDE = tuple(name for name in ACTIVATIONS if name.startswith("probabilities"))
