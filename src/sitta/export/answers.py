"""Entropies, weights, integration and trust of InTEnt, from the logits of all members.

The numbers are those of ``sitta.InTEnt``; only what depends on values there (where something
overflowed) is a choice between tensors here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sitta.adaptation import InTEnt
from sitta.core.entropy import probabilities, resolve
from sitta.core.integration import are_usable, integrate, weigh, without_unusable
from sitta.core.masks import labels
from sitta.prediction.scores import computed

COMPUTED = computed()
ANSWERS = ("probability", "mask", "members", "weights", "entropies", "usable", *COMPUTED)


class Answers(nn.Module):
    """From the logits of all members ``(K, N, C, *S)`` to all that ``ANSWERS`` names."""

    def __init__(self, method: InTEnt) -> None:
        super().__init__()
        self.method = [method]  # in a list, so that its network is not part of this graph

    def forward(self, logits: Tensor) -> tuple[Tensor, ...]:
        """In the order of ``ANSWERS``."""
        method = self.method[0]
        activation = resolve(method.activation, logits.shape[2])
        scores = method.scores(logits, activation)
        usable = are_usable(logits, scores)  # (K, N)
        logits, scores = without_unusable(logits, scores, usable)
        weights = weigh(method.strategy, torch.where(usable, scores, torch.inf), method.topk)
        members = probabilities(logits.flatten(0, 1), activation).unflatten(0, usable.shape)
        whole = integrate(members, weights, method.strategy, activation, method.ties)
        return (
            whole,
            labels(whole, activation),
            members,
            weights,
            scores,
            usable,
            *(compute(whole, members, usable, activation) for compute in COMPUTED.values()),
        )
