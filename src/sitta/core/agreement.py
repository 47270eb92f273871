"""Trust: how far the members agree, and where they differ."""

from __future__ import annotations

import torch
from torch import Tensor

from sitta.core.entropy import Activation, full_precision, in_parts, probability_entropy
from sitta.core.integration import ballots, weighted


def foreground(probability: Tensor, activation: Activation) -> Tensor:
    """0/1 maps of the foreground classes, flat: ``(K, N, C, *S)`` becomes ``(K, N, F, P)``.

    Class 0 of a softmax is background; every channel of a sigmoid is foreground.
    """
    maps = ballots(probability, activation)
    maps = maps[:, :, 1:] if activation == "softmax" else maps
    return maps.flatten(3).to(probability.dtype)


def agreement(maps: Tensor, usable: Tensor) -> Tensor:
    """Mean Dice over all pairs of members and all classes that any of them predicts, ``(N,)``.

    Two members that both find nothing of a class agree on it. A single member agrees with itself.
    ``maps`` are the foreground ``(K, N, F, P)`` of members that count where ``usable`` ``(K, N)``.
    """
    one, other = torch.triu_indices(len(maps), len(maps), offset=1, device=maps.device)
    area = maps.sum(dim=3)  # (K, N, F)
    with full_precision(maps):
        shared = torch.einsum("jnfp,knfp->jknf", maps, maps)[one, other]  # (pairs, N, F)
    total = area[one] + area[other]
    dice = torch.where(total > 0, 2 * shared / total.clamp(min=1), 1.0)
    predicted = ((area > 0) & usable[..., None]).any(dim=0)  # (N, F)
    counts = (usable[one] & usable[other])[..., None] & predicted
    number = counts.sum(dim=(0, 2))  # (N,)
    mean = (dice * counts).sum(dim=(0, 2)) / number.clamp(min=1)
    return torch.where(number > 0, mean, 1.0)


def disagreement(members: Tensor, activation: Activation, usable: Tensor) -> Tensor:
    """Mutual information between pixel and member, in bits: ``(N, *S)``.

    The entropy of the members' plain mean less the mean of their entropies: what is uncertain
    because they differ, and not because each of them is unsure. It does not depend on the strategy.
    """
    share = usable.to(members.dtype) / usable.sum(dim=0)  # (K, N)
    mixture = weighted(members, share)
    each = in_parts(lambda rows: probability_entropy(rows, activation), members)
    return (probability_entropy(mixture, activation) - weighted(each, share)).clamp(min=0.0)
