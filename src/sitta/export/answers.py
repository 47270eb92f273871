"""Entropies, weights, integration and trust of InTEnt, from the logits of all members.

The numbers are those of ``sitta.InTEnt``; only what depends on values there (where something
overflowed) is a choice between tensors here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sitta.adaptation import InTEnt
from sitta.entropy import labels, probabilities, probability_entropy, resolve
from sitta.integration import integrate, weigh
from sitta.trust import agreement, disagreement, foreground

ANSWERS = (
    "probability",
    "mask",
    "members",
    "weights",
    "entropies",
    "usable",
    "agreement",
    "uncertainty",
    "disagreement",
)


class Answers(nn.Module):
    """From the logits of all members ``(K, N, C, *S)`` to all that ``ANSWERS`` names.

    Args:
        method: The same InTEnt.
    """

    def __init__(self, method: InTEnt) -> None:
        super().__init__()
        self.method = [method]  # not a child: its network is none of this graph's business

    def forward(self, logits: Tensor) -> tuple[Tensor, ...]:
        """In the order of ``ANSWERS``."""
        method = self.method[0]
        activation = resolve(method.activation, logits.shape[2])
        figures = method.figures(logits, activation)
        usable = logits.flatten(2).isfinite().all(dim=2) & figures.isfinite()  # (K, N)
        shape = (*usable.shape, *[1] * (logits.dim() - 2))
        logits = torch.where(usable.view(shape), logits, 0.0)
        figures = torch.where(usable, figures, 1.0)
        weights = weigh(method.strategy, torch.where(usable, figures, torch.inf), method.topk)
        members = probabilities(logits.flatten(0, 1), activation).unflatten(0, usable.shape)
        whole = integrate(members, weights, method.strategy, activation, method.ties)
        return (
            whole,
            labels(whole, activation),
            members,
            weights,
            figures,
            usable,
            agreement(foreground(members, activation), usable),
            probability_entropy(whole, activation),
            disagreement(members, activation, usable),
        )
