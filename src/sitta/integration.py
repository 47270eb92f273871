"""Strategies: from a figure of each member to weights, and from weights to one probability map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sitta.entropy import Activation, full_precision, labels
from sitta.notes import FLAT

Figure = Literal["mean", "balanced", "sharpness"]


@dataclass(frozen=True)
class Strategy:
    """How members are weighted.

    Attributes:
        figure: What is weighed: the mean entropy, the balanced entropy, or the sharpness.
        weigh: From figures ``(K, N)``, infinite for a member that must not count, to weights.
        description: One line for people.
        votes: Whether masks are integrated, not probabilities.
    """

    figure: Figure
    weigh: Callable[[Tensor, int], Tensor]
    description: str
    votes: bool = False


def _uniform(figures: Tensor, _k: int) -> Tensor:
    usable = figures.isfinite().to(figures.dtype)
    return usable / usable.sum(dim=0)


def _softmax(figures: Tensor, _k: int) -> Tensor:
    return (-figures).softmax(dim=0)


def _normalised(figures: Tensor, _k: int) -> Tensor:
    # Softmax does not see a shift, so (H - min) / (max - min) is the paper's H / (max - min).
    return (-(figures - _lowest(figures)) / _range(figures).clamp(min=FLAT)).softmax(dim=0)


def _lowest_k(figures: Tensor, k: int) -> Tensor:
    place = torch.arange(len(figures), device=figures.device)
    ahead = figures[:, None] < figures  # (K, K, N); a count, as ONNX has no stable sort
    tied = (figures[:, None] == figures) & (place[:, None] < place)[..., None]
    rank = (ahead | tied).sum(dim=0)  # of equals, the one listed first
    weights = ((rank < k) & figures.isfinite()).to(figures.dtype)
    return weights / weights.sum(dim=0)


def _lowest(figures: Tensor) -> Tensor:
    return figures.amin(dim=0)


def _range(figures: Tensor) -> Tensor:
    return torch.where(figures.isfinite(), figures, -torch.inf).amax(dim=0) - _lowest(figures)


STRATEGIES: dict[str, Strategy] = {
    "average": Strategy("mean", _uniform, "mean of the members' probabilities"),
    "vote": Strategy("mean", _uniform, "majority of the members' masks", votes=True),
    "entropy": Strategy("mean", _softmax, "softmax of minus the mean entropy"),
    "ent-min": Strategy("mean", lambda f, _k: _lowest_k(f, 1), "the member of lowest entropy"),
    "ent-topk": Strategy("mean", _lowest_k, "mean of the k members of lowest entropy"),
    "ent-norm": Strategy("mean", _normalised, "as entropy, range normalised to 1"),
    "ent-baln": Strategy("balanced", _normalised, "as ent-norm, classes balanced (InTEnt)"),
    "sharpness": Strategy("sharpness", _normalised, "as ent-norm, on the entropy's sharpness"),
}


def is_flat(figures: Tensor) -> Tensor:
    """Whether all members of an image have the same figure, up to rounding: ``(N,)``.

    Example:
        >>> is_flat(torch.tensor([[0.5, 0.1], [0.5, 0.2]]))
        tensor([ True, False])
    """
    return _range(figures) <= FLAT


def weigh(strategy: str, figures: Tensor, topk: int = 2) -> Tensor:
    """Weights of the members, which sum to 1 over K. Equal figures give equal weights.

    Args:
        strategy: One of ``STRATEGIES``.
        figures: ``(K, N)``, the lower the better; infinite where a member must not count.
        topk: How many members ``ent-topk`` keeps.

    Returns:
        Weights, ``(K, N)``.

    Example:
        >>> weigh("ent-norm", torch.tensor([[0.2], [0.4]])).T  # ratio e, whatever the range
        tensor([[0.7311, 0.2689]])
    """
    weights = STRATEGIES[strategy].weigh(figures, topk)
    return torch.where(is_flat(figures), _uniform(figures, topk), weights)


def integrate(
    members: Tensor,
    weights: Tensor,
    strategy: str,
    activation: Activation,
    ties: str = "background",
) -> Tensor:
    """One probability map from all members (Eq. 7); for ``vote``, the share of votes.

    Args:
        members: Probabilities, ``(K, N, C, *S)``.
        weights: ``(K, N)``.
        strategy: One of ``STRATEGIES``.
        activation: How the probabilities were made.
        ties: Where a tied vote goes, ``background`` or ``foreground``.

    Returns:
        Integrated probabilities, ``(N, C, *S)``.
    """
    if not STRATEGIES[strategy].votes:
        return weighted(members, weights)
    voters = (weights > 0).to(members.dtype)  # counted in whole votes, so that a tie is a tie
    votes = weighted(ballots(members, activation).to(members.dtype), voters)
    share = votes / voters.sum(dim=0).view(-1, *[1] * (votes.dim() - 1))
    return _favour_foreground(share, activation) if ties == "foreground" else share


def _favour_foreground(share: Tensor, activation: Activation) -> Tensor:
    """Shares of votes in which what was a tie with the background no longer is one."""
    if activation == "sigmoid":
        return torch.where(share == 0.5, 0.5 + FLAT, share)
    return torch.cat([(share[:, :1] - FLAT).clamp(min=0), share[:, 1:]], dim=1)


def weighted(values: Tensor, weights: Tensor) -> Tensor:
    """Sum over the members of values ``(K, N, ...)`` times weights ``(K, N)``."""
    with full_precision(values):
        return torch.einsum("kn...,kn->n...", values, weights)


def ballots(members: Tensor, activation: Activation) -> Tensor:
    """Each member's mask as a 0/1 map of the shape of its probabilities ``(K, N, C, *S)``."""
    if activation == "sigmoid":
        return members > 0.5
    hard = labels(members.flatten(0, 1), activation)  # (K*N, *S)
    classes = torch.arange(members.shape[2], device=members.device)
    maps: Tensor = hard.unsqueeze(1) == classes.view(-1, *[1] * (hard.dim() - 1))
    return maps.reshape(members.shape)
