"""Entropy of a segmentation, from logits: safe where a probability is 0 or 1, also in its gradient.

All entropies are in bits, divided by log2 of the number of classes: 0 is certain, 1 knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sitta.errors import InvalidSetting

Activation = Literal["sigmoid", "softmax"]
LARGE = 1 << 22  # values: above, temporaries of all members at once take too much memory


def in_parts(measure: Callable[[Tensor], Tensor], members: Tensor) -> Tensor:
    """``measure`` of rows ``(B, C, *S)`` for members ``(K, N, C, *S)``; if large, one by one."""
    if members.numel() < LARGE:
        values: Tensor = measure(members.flatten(0, 1)).unflatten(0, members.shape[:2])
        return values
    return torch.stack([measure(rows) for rows in members])


def full_precision(x: Tensor) -> torch.autocast:
    """A context in which autocast does not round products."""
    return torch.autocast(x.device.type, enabled=False)


def resolve(activation: str, channels: int) -> Activation:
    """The activation that ``auto`` stands for: one channel is binary, more are classes."""
    if activation == "softmax" and channels == 1:
        raise InvalidSetting(
            "A softmax over one channel is always 1.", fix="use activation='sigmoid' or 'auto'"
        )
    if activation == "sigmoid" or (activation == "auto" and channels == 1):
        return "sigmoid"
    return "softmax"


def foreground_classes(channels: int, activation: Activation) -> int:
    """How many of the channels are foreground: all, or for a softmax all but the first."""
    return channels - (activation == "softmax")


def probabilities(logits: Tensor, activation: Activation) -> Tensor:
    """Probabilities of the classes, ``(B, C, *S)`` like the logits."""
    return logits.sigmoid() if activation == "sigmoid" else logits.softmax(dim=1)


def pixel_entropy(logits: Tensor, activation: Activation) -> Tensor:
    """Entropy of every pixel ``(B, *S)`` (Eq. 2), for several labels the mean over them."""
    if activation == "sigmoid":
        return binary_entropy(logits).mean(dim=1)
    log = logits.log_softmax(dim=1)
    nats = -(log.exp() * log).sum(dim=1)
    return nats.clamp(min=0.0) / math.log(logits.shape[1])


def binary_entropy(logits: Tensor) -> Tensor:
    """Entropy of a sigmoid in bits: ln(1 + e^-|z|) + |z| sigmoid(-|z|), over ln 2."""
    size = logits.abs().clamp(max=1e3)  # where it has long been 0, and a product may overflow
    return (F.softplus(-size) + size * torch.sigmoid(-size)) / math.log(2)


def probability_entropy(probability: Tensor, activation: Activation) -> Tensor:
    """Entropy of every pixel where only probabilities are left, as of an average; ``(B, *S)``."""
    nats: Tensor = torch.special.entr(probability)
    if activation == "softmax":
        return (nats.sum(dim=1) / math.log(probability.shape[1])).clamp(0.0, 1.0)
    both: Tensor = nats + torch.special.entr(1 - probability)
    return (both / math.log(2)).clamp(0.0, 1.0).mean(dim=1)


def mean_entropy(logits: Tensor, activation: Activation) -> Tensor:
    """Mean entropy over the pixels of each image, ``(B,)``."""
    return pixel_entropy(logits, activation).flatten(1).mean(dim=1)


def balanced_entropy(logits: Tensor, activation: Activation) -> Tensor:
    """Foreground/background-balanced entropy (Eq. 3, with means): ``(B, C, *S)`` to ``(B,)``.

    The mean, over the classes predicted somewhere, of the mean entropy of the pixels predicted as
    that class. A class that is predicted nowhere does not count, so that an empty or a full mask
    has the mean entropy of all its pixels.
    """
    if activation == "sigmoid":  # each label by itself: p >= 1/2 is its foreground
        each = _class_mean(binary_entropy(logits).flatten(2), (logits >= 0).flatten(2), 2)
        return each.mean(dim=1)
    entropy = pixel_entropy(logits, activation).flatten(1)
    return _class_mean(entropy, logits.argmax(dim=1).flatten(1), logits.shape[1])


def _class_mean(entropy: Tensor, classes: Tensor, count: int) -> Tensor:
    """Mean over the classes present of the mean entropy inside the class; both (..., P).

    Two classes may be told by False and True.
    """
    total = torch.zeros_like(entropy[..., 0])
    present = torch.zeros_like(total)
    for c in range(count):
        inside = (classes == c).to(entropy.dtype)
        pixels = inside.sum(dim=-1)
        total = total + (entropy * inside).sum(dim=-1) / pixels.clamp(min=1)
        present = present + (pixels > 0).to(entropy.dtype)
    return total / present
