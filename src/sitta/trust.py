"""Trust: how far the members agree, where they differ, and what a person should be told."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sitta.entropy import Activation, full_precision, probability_entropy
from sitta.integration import ballots, is_flat, weighted

DISAGREE = 0.7  # mean pairwise Dice of the members below which a person should look


@dataclass(frozen=True)
class Limits:
    """From where on a person should look.

    Attributes:
        agreement: Members that agree less than this disagree.
        distance: Statistics further from the source's than this are far.
    """

    agreement: float = DISAGREE
    distance: float = math.inf

    @classmethod
    def of(cls, model: nn.Module) -> Limits:
        """Those in the card of a model's checkpoint, chosen on its own validation images."""
        card = getattr(model, "card", None)
        kept = card.get("trust", {}) if isinstance(card, dict) else {}
        return cls(kept.get("agreement", DISAGREE), kept.get("distance", math.inf))


NOTES = {
    "no-foreground": "No member finds any foreground: the mask is empty.",
    "empty-mask": "The mask is empty although some members find foreground.",
    "foreground-in-some-members": "Some members find foreground and others find none.",
    "all-foreground": "The mask covers the whole image.",
    "members-disagree": "The masks of the members differ widely.",
    "far-from-source": "Its statistics are far outside those of the training images.",
    "equal-entropies": "All members are equally certain, so all count alike.",
    "constant-image": "The image has the same value everywhere.",
    "member-overflow": "A member gave values that are not finite; it does not count.",
    "tiny-feature-map": "A layer saw a single value per channel and kept its source statistics.",
    "no-statistics": "The model has no BatchNorm statistics, so lambda has no effect.",
    "no-reliable-pixel": "No pixel was certain enough to learn from; nothing was updated.",
    "zero-gradient": "The loss has no slope at this image; nothing was updated.",
    "unstable-update": "An update gave values that are not finite; it was undone.",
}


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

    Args:
        maps: Foreground of the members, ``(K, N, F, P)``.
        usable: Which members count, ``(K, N)``.

    Example:
        >>> maps = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]).view(2, 1, 1, 3)
        >>> agreement(maps, torch.ones(2, 1, dtype=torch.bool))
        tensor([0.6667])
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
    each = probability_entropy(members.flatten(0, 1), activation).unflatten(0, members.shape[:2])
    return (probability_entropy(mixture, activation) - weighted(each, share)).clamp(min=0.0)


def notes(
    images: Tensor,
    areas: Tensor,
    integrated: Tensor,
    figures: Tensor,
    usable: Tensor,
    agreed: Tensor,
    distance: Tensor,
    limits: Limits,
) -> list[list[str]]:
    """Codes of ``NOTES`` for every image.

    Args:
        images: ``(N, C, *S)``.
        areas: Share of foreground pixels of each member, ``(K, N)``.
        integrated: Share of foreground pixels of the final mask, ``(N,)``.
        figures: What the strategy weighed, ``(K, N)``.
        usable: Which members count, ``(K, N)``.
        agreed: Agreement, ``(N,)``.
        distance: From the source's statistics, ``(N,)``; NaN if not measured.
        limits: Of agreement and distance.
    """
    found = (areas > 0) & usable
    some = found.any(dim=0)
    flat = images.flatten(1)
    checks = {
        "no-foreground": ~some & (integrated == 0),
        "empty-mask": some & (integrated == 0),
        "foreground-in-some-members": some & (found != usable).any(dim=0),
        "all-foreground": integrated == 1,
        "members-disagree": agreed < limits.agreement,
        "far-from-source": distance > limits.distance,
        "equal-entropies": is_flat(figures) & (usable.sum(dim=0) > 1),
        "constant-image": flat.amax(dim=1) == flat.amin(dim=1),
        "member-overflow": ~usable.all(dim=0),
    }
    return [[code for code, hit in checks.items() if hit[n]] for n in range(len(images))]
