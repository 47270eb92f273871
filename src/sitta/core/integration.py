"""Strategies: from a score of each member to weights, and from weights to one probability map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sitta.core.entropy import Activation, balanced_entropy, full_precision, mean_entropy
from sitta.core.masks import labels
from sitta.core.sharpness import member_sharpness
from sitta.core.tolerances import FLAT

# How far ``ent-power`` trusts the entropy. The softmax of the other strategies gives the best
# member at most 2.7 times the weight of the worst. Chosen on source images under synthetic shifts.
POWER = 20.0


@dataclass(frozen=True)
class Strategy:
    """How members are weighted. To add one, add it to ``STRATEGIES``: everything else asks there.

    Attributes:
        weigh: From scores ``(K, N)``, infinite for a member that must not count, and the setting
            ``topk`` to weights ``(K, N)``.
        score: Of a member, the lower the better, from its logits: ``(B, C, *S)`` to ``(B,)``.
        own_passes: For a score that the members' logits alone do not give: computes logits,
            distances and scores in passes of its own, with the arguments of ``member_sharpness``.
    """

    weigh: Callable[[Tensor, int], Tensor]
    description: str  # one line for people
    score: Callable[[Tensor, Activation], Tensor] = mean_entropy
    empty_last: bool = False  # whether a member without foreground knows nothing
    votes: bool = False  # whether masks are integrated, not probabilities
    own_passes: Callable[..., tuple[Tensor, Tensor, Tensor]] | None = None
    passes: tuple[int, int] = (1, 0)  # forward and backward, for each member

    @property
    def needs_own_passes(self) -> bool:
        """Whether it cannot share the members' logits with others, and takes gradients."""
        return self.own_passes is not None


def _uniform(scores: Tensor, _k: int) -> Tensor:
    usable = scores.isfinite().to(scores.dtype)
    return usable / usable.sum(dim=0)


def _softmax(scores: Tensor, _k: int) -> Tensor:
    return (-scores).softmax(dim=0)


def _normalised(scores: Tensor, _k: int) -> Tensor:
    # Softmax does not see a shift, so (H - min) / (max - min) is the paper's H / (max - min).
    return (-(scores - _lowest(scores)) / _range(scores).clamp(min=FLAT)).softmax(dim=0)


def _power(scores: Tensor, _k: int) -> Tensor:
    return (-POWER * scores.clamp(min=FLAT).log()).softmax(dim=0)


def _lowest_k(scores: Tensor, k: int) -> Tensor:
    place = torch.arange(len(scores), device=scores.device)
    ahead = scores[:, None] < scores  # (K, K, N); a count, as ONNX has no stable sort
    tied = (scores[:, None] == scores) & (place[:, None] < place)[..., None]
    rank = (ahead | tied).sum(dim=0)  # of equals, the one listed first
    weights = ((rank < k) & scores.isfinite()).to(scores.dtype)
    return weights / weights.sum(dim=0)


def _lowest(scores: Tensor) -> Tensor:
    return scores.amin(dim=0)


def _range(scores: Tensor) -> Tensor:
    return torch.where(scores.isfinite(), scores, -torch.inf).amax(dim=0) - _lowest(scores)


STRATEGIES: dict[str, Strategy] = {
    "average": Strategy(_uniform, "mean of the members' probabilities"),
    "vote": Strategy(_uniform, "majority of the members' masks", votes=True),
    "entropy": Strategy(_softmax, "softmax of minus the mean entropy"),
    "ent-min": Strategy(lambda scores, _k: _lowest_k(scores, 1), "the most confident member"),
    "ent-topk": Strategy(_lowest_k, "mean of the k most confident members"),
    "ent-norm": Strategy(_normalised, "as entropy, range normalised to 1"),
    "ent-baln": Strategy(
        _normalised, "as ent-norm, classes balanced (InTEnt)", score=balanced_entropy
    ),
    "ent-power": Strategy(
        _power,
        f"balanced entropy to the power of -{POWER:g}; empty members last",
        score=balanced_entropy,
        empty_last=True,
    ),
    "sharpness": Strategy(
        _normalised,
        "as ent-norm, on the entropy's sharpness",
        own_passes=member_sharpness,
        passes=(2, 1),
    ),
}


def shared_strategies() -> tuple[str, ...]:
    """Strategies that one pass over the members serves: those without passes of their own."""
    return tuple(name for name, s in STRATEGIES.items() if not s.needs_own_passes)


def is_flat(scores: Tensor) -> Tensor:
    """Whether all members of an image have the same score, up to rounding: ``(N,)``."""
    return _range(scores) <= FLAT


def weigh(strategy: str, scores: Tensor, topk: int = 2) -> Tensor:
    """Weights ``(K, N)`` of the members, which sum to 1 over K. Equal scores give equal weights.

    Scores ``(K, N)`` are the lower the better, and infinite where a member must not count.
    """
    weights = STRATEGIES[strategy].weigh(scores, topk)
    return torch.where(is_flat(scores), _uniform(scores, topk), weights)


def are_usable(logits: Tensor, scores: Tensor) -> Tensor:
    """Which members ``(K, N)`` are finite, of logits ``(K, N, C, *S)`` and scores ``(K, N)``."""
    return logits.flatten(2).isfinite().all(dim=2) & scores.isfinite()


def without_unusable(logits: Tensor, scores: Tensor, usable: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and scores with neutral values for members that are not usable."""
    shape = (*usable.shape, *[1] * (logits.dim() - 2))
    return torch.where(usable.view(shape), logits, 0.0), torch.where(usable, scores, 1.0)


def integrate(
    members: Tensor,
    weights: Tensor,
    strategy: str,
    activation: Activation,
    ties: str = "background",
) -> Tensor:
    """One probability map ``(N, C, *S)`` of all members (Eq. 7); for ``vote``, the share of votes.

    A tied vote goes to ``ties``, ``background`` or ``foreground``.
    """
    if not STRATEGIES[strategy].votes:
        return weighted(members, weights)
    voters = (weights > 0).to(members.dtype)  # counted in whole votes, so that a tie is a tie
    votes = weighted(ballots(members, activation).to(members.dtype), voters)
    share = votes / voters.sum(dim=0).view(-1, *[1] * (votes.dim() - 1))
    return _favour_foreground(share, activation) if ties == "foreground" else share


def integrate_by_class(members: Tensor, weights: Tensor, activation: Activation) -> Tensor:
    """One map ``(N, C, *S)`` of members whose weights ``(K, N, C)`` differ by class.

    Classes of a softmax sum to 1 again afterwards; where all weigh alike, they do already.
    """
    with full_precision(members):
        whole = torch.einsum("knc...,knc->nc...", members, weights)
    if activation == "sigmoid":
        return whole
    alike = (weights == weights[:, :, :1]).all(dim=2).all(dim=0)  # (N,)
    scaled = whole / whole.sum(dim=1, keepdim=True)
    return torch.where(alike.view(-1, *[1] * (whole.dim() - 1)), whole, scaled)


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
