"""Adapt, Sitta's own method: members weighted by confidence and by how likely their shape is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from sitta._util.settings import MOST, option
from sitta.adaptation.base import Cost, Members, Method, Needs
from sitta.core.entropy import Activation, balanced_entropy, probabilities
from sitta.core.integration import are_usable, ballots
from sitta.core.members import member_logits_chunked
from sitta.core.prior import ShapePrior
from sitta.core.twin import Twin, unwrap
from sitta.prediction.calibration import (
    Calibration,
    ClassCalibration,
    calibration_from,
    calibration_of,
)

ENDS = (1.0, 0.0)  # lambdas that always run: the model as trained, and the image's own statistics
INNER = (0.8, 0.6, 0.4, 0.2)
SPLIT = 3  # the split member has the first third of the layers at source statistics
GRID = (1.0, *INNER, 0.0, 0.0)  # lambdas of the members, the split member last
NAMES = (*(f"{lam:.2f}" for lam in GRID[:-1]), "split")
ORDER = (0, 2, 3, 4, 5, 1, 6)  # ends, inner and split as listed: lambda 1 to 0, then split
AGREE = 0.9  # Dice of the ends from which on the other members change nothing
# Exponents of the entropy and of the implausibility, and the floor of the latter. Results are flat
# in all three; they were chosen on source images under synthetic shifts.
POWER, FLOOR = 20.0, 0.02
FLAT = 0.25  # range of log entropies below which they tell members apart too little for a power
ANCHOR = 0.5  # weight of the model as trained before anything is known of the image
ALIKE = (0.5, 0.9)  # Dice of the ends at which an image is a sign of shift, and of none
TWO_ENOUGH, LEFT_ALONE = "two-members-agree", "left-as-trained"


@dataclass(frozen=True, eq=False)
class Adapt(Method):
    r"""Weighs members by confidence and by how plausible their shapes are; leaves well alone.

    .. math:: w_k \propto \pi_k \, H_k^{-20} \, (1 - S_k + 0.02)^{-20}

    Members mix statistics in each layer, at lambda 1 to 0; in one more, the split member, the first
    third of the layers stays at source statistics and the others follow the image. H is the
    balanced entropy of a member, and S the soft Dice of its map with the nearest in-domain shape. A
    member that finds nothing comes last. Weights are of each class by itself.

    With a calibration (``sitta calibrate``), S is known, the model as trained has half of the prior
    weight, and classes that adapting does not help stay as trained. Without one, the prior weight
    of the model as trained rises to one half as the members at lambda 1 and 0 agree. Where
    entropies are nearly equal, the weights go over to those of InTEnt.

    Attributes:
        budget: ``adaptive`` runs lambda 1 and 0 first, and the other members only for images on
            which these two disagree; ``full`` runs all seven.
        profile: The calibration: a profile, its path, or the calibration itself. By default, the
            one that came with the model.
        members_at_once: Members in one pass; fewer save memory. None is as many as fit into it.

    Example:
        >>> import sitta, torch
        >>> adapt = Adapt(sitta.models.UNet(channels=4, multipliers=(1, 2)))
        >>> adapt(torch.rand(2, 1, 16, 16)).weights.shape
        torch.Size([7, 2])
    """

    description: ClassVar[str] = "members weighted by entropy and plausible shape; gated in-domain"
    citation: ClassVar[str] = "this project; InTEnt's members (arXiv 2402.09604)"
    needs: ClassVar[Needs] = "batch-norm"

    budget: str = option("adaptive", "members to run", choices=("adaptive", "full"), main=True)
    profile: Any = field(default=None, repr=False)
    members_at_once: int | None = option(
        None,
        "members in one pass, as many as fit if not given",
        low=1,
        high=MOST,
        optional=True,
        whole=True,
    )

    @property
    def cost(self) -> Cost:
        """All members; an image on which the ends agree takes two passes only."""
        return Cost(forward=len(ORDER))

    @cached_property
    def calibration(self) -> Calibration | None:
        """What is known of the model in-domain: of the profile, or of the model's own file."""
        own = self.profile is None
        return calibration_of(unwrap(self.model)) if own else calibration_from(self.profile)

    @property
    def how(self) -> dict[str, Any]:
        """How statistics are mixed, as keywords of ``member_logits``."""
        return {"statistics": "in-layer", "unbiased": False}

    @property
    def grid(self) -> tuple[float, ...]:
        """The lambdas of the members, that of the split member last."""
        return GRID

    def depths(self, layers: int) -> list[int]:
        """How many of so many layers stay at source statistics, of each member."""
        return [*[0] * (len(GRID) - 1), layers // SPLIT]

    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        run = {"statistics": "in-layer", "at_once": self.members_at_once}
        ends, distance = member_logits_chunked(twin, images, ENDS, **run)  # type: ignore[arg-type]
        layers = twin.served
        activation = self._activation(ends.shape[2])
        alone = self.calibration is not None and not self.calibration.adapts
        more = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        if not alone:
            more |= ~are_usable(ends, ends.flatten(2).sum(dim=2)).all(dim=0)
            more |= _agreement(ends, activation) < AGREE
            more |= self.budget == "full"
        rest = ends.new_zeros(len(ORDER) - len(ENDS), *ends.shape[1:])
        if more.any():
            depths = self.depths(layers)[-len(rest) :]
            lambdas = (*INNER, 0.0)
            part, _ = member_logits_chunked(twin, images[more], lambdas, depths=depths, **run)  # type: ignore[arg-type]
            rest[:, more] = part
        logits = torch.cat([ends, rest])[list(ORDER)]
        ran = torch.ones(logits.shape[:2], dtype=torch.bool, device=images.device)
        ran[1:-2], ran[-1] = more, more
        return self.members(logits, distance, ran)

    def members(self, logits: Tensor, distance: Tensor, ran: Tensor | None = None) -> Members:
        """Members of logits ``(K, N, C, *S)``, weighted; all ran if ``ran`` does not say."""
        if ran is None:
            ran = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
        entropies, weights = self._weights(logits, ran, self._activation(logits.shape[2]))
        return Members(
            (*GRID[:-1], 1 / SPLIT),
            logits,
            distance,
            entropies,
            class_weights=weights,
            ran=ran,
            names=NAMES,
            codes=[self._codes(all_ran) for all_ran in ran.all(dim=0).tolist()],
        )

    def _codes(self, all_ran: bool) -> tuple[str, ...]:
        if self.calibration is not None and not self.calibration.adapts:
            return (LEFT_ALONE,)
        return () if all_ran else (TWO_ENOUGH,)

    def _weights(
        self, logits: Tensor, ran: Tensor, activation: Activation
    ) -> tuple[Tensor, Tensor]:
        """Entropies ``(K, N)`` and weights ``(K, N, C)`` of members, by class."""
        odds = class_odds(logits, activation)  # (K, N, F, *S)
        flat = odds.flatten(0, 2).unsqueeze(1).double()
        entropy = balanced_entropy(flat, "sigmoid").view(odds.shape[:3])
        usable = ran & are_usable(logits, entropy.sum(dim=2))
        maps = _maps(logits, activation)
        finds = maps.any(dim=3)  # (K, N, F)
        alike = _dice(maps[0], maps[len(ENDS) - 1 + len(INNER)])  # (N, F), of the ends
        entropy = torch.where(finds, entropy, 1.0).nan_to_num(1.0, 1.0, 1.0)
        each = [
            self._class_weights(
                n, entropy[:, :, n], odds[:, :, n], finds[:, :, n], usable, alike[:, n]
            )
            for n in range(odds.shape[2])
        ]
        shares = torch.stack(each, dim=2)
        if activation == "softmax":  # the background goes with the classes on average
            shares = torch.cat([shares.mean(dim=2, keepdim=True), shares], dim=2)
        return entropy.mean(dim=2).to(logits), shares.to(logits)

    def _class_weights(
        self, n: int, entropy: Tensor, odds: Tensor, finds: Tensor, usable: Tensor, alike: Tensor
    ) -> Tensor:
        """Weights ``(K, N)`` of the members for one class."""
        known = self.calibration.classes if self.calibration else ()
        log = _by_entropy(entropy, finds & usable, usable)
        anchor = torch.full_like(alike, ANCHOR)
        if n >= len(known):  # what the image shows of a shift stands in for a calibration
            even, (low, high) = 1 / len(ORDER), ALIKE
            anchor = even + (ANCHOR - even) * ((alike - low) / (high - low)).clamp(0, 1)
        log = log + _shared(anchor, len(ORDER)).log().to(log)
        if n < len(known):
            log = log + self._known(known[n], odds, finds, usable).to(log)
        return torch.where(usable, log, -torch.inf).softmax(dim=0)

    def _known(self, mine: ClassCalibration, odds: Tensor, finds: Tensor, usable: Tensor) -> Tensor:
        """What the calibration adds to the logarithms of the weights ``(K, N)``."""
        log = odds.new_zeros(usable.shape).double()
        if mine.prior is not None and self.calibration is not None:
            shape = _plausibility(mine.prior, odds)
            log = log - POWER * self.calibration.shape_trust * (1 - shape + FLOOR).log()
            # Where the model as trained finds nothing, an unlikely shape is taken for invented.
            invented = finds & ~finds[:1] & (shape < mine.plausible)
            log = torch.where(invented & usable[:1], -torch.inf, log)
        if not mine.adapts:  # only the model as trained counts, unless it is not usable
            others = usable[:1] & usable
            others[0] = False
            log = torch.where(others, -torch.inf, log)
        return log


def _by_entropy(entropy: Tensor, counted: Tensor, usable: Tensor) -> Tensor:
    """Logarithms of weights ``(K, N)`` from entropies: a power, where these tell members apart.

    Where they are nearly equal, a power leans on one member by chance, and the weights go over to
    those of InTEnt.
    """
    log = entropy.clamp(min=1e-6).log()
    sharp = (_range(log, counted)[1] / FLAT).clamp(max=1)
    low, span = _range(entropy, usable)
    return -sharp * POWER * log - (1 - sharp) * (entropy - low) / span.clamp(min=1e-6)


def _range(values: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Least value ``(N,)`` over the members that count, and how far the largest is above it."""
    low = torch.where(counted, values, torch.inf).amin(dim=0)
    high = torch.where(counted, values, -torch.inf).amax(dim=0)
    some = counted.any(dim=0)
    return torch.where(some, low, 0.0), torch.where(some, high - low, 0.0)


def _shared(first: Tensor, count: int) -> Tensor:
    """Prior weights ``(K, N)``: that of the first member, and the others share the rest."""
    return torch.stack([first, *[(1 - first) / (count - 1)] * (count - 1)])


def class_odds(logits: Tensor, activation: Activation) -> Tensor:
    """Log-odds ``(K, N, F, *S)`` of each foreground class against all else."""
    if activation == "sigmoid":
        return logits
    log = logits.log_softmax(dim=2)
    rest = torch.log1p(-log.exp().clamp(max=1 - 1e-6))
    return (log - rest)[:, :, 1:]


def _plausibility(prior: ShapePrior, odds: Tensor) -> Tensor:
    """Of the maps of members ``(K, N, *S)``: ``(K, N)``."""
    maps = odds.flatten(0, 1).sigmoid().nan_to_num(0.0)
    return prior.plausibility(maps).view(odds.shape[:2]).double()


def _maps(logits: Tensor, activation: Activation) -> Tensor:
    """Masks of the foreground classes, flat: ``(K, N, F, P)``."""
    flat = probabilities(logits.nan_to_num(0.0).flatten(0, 1), activation)
    maps = ballots(flat.unflatten(0, logits.shape[:2]), activation)
    return (maps[:, :, 1:] if activation == "softmax" else maps).flatten(3)


def _agreement(ends: Tensor, activation: Activation) -> Tensor:
    """Dice ``(N,)`` of the two members, of the class on which they agree least."""
    return _dice(*_maps(ends, activation)).amin(dim=1)


def _dice(one: Tensor, other: Tensor) -> Tensor:
    """Dice of flat masks ``(..., P)``; 1 if both are empty."""
    total = one.sum(dim=-1) + other.sum(dim=-1)
    dice = 2 * (one & other).sum(dim=-1) / total.clamp(min=1)
    return torch.where(total > 0, dice, 1.0)
