"""From an integrated map back to what a network returns, for what follows in other frameworks."""

from __future__ import annotations

import torch
from torch import Tensor


def to_logits(probability: Tensor, activation: str) -> Tensor:
    """Logits whose sigmoid, or log-probabilities whose softmax, are these ``(N, C, *S)``."""
    tiny = torch.finfo(probability.dtype).tiny
    if activation == "softmax":
        return probability.clamp(min=tiny).log()
    return probability.clamp(min=tiny).log() - (1 - probability).clamp(min=tiny).log()
