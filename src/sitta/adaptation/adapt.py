"""Adapt, Sitta's own method: members weighted by confidence and by how likely their shape is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from sitta._util.settings import AT_ONCE, option
from sitta.adaptation.base import Cost, Members, Method, Needs
from sitta.core.calibrated_statistics import SHORT_GRID, near
from sitta.core.entropy import Activation, balanced_entropy, probabilities
from sitta.core.integration import are_usable, ballots
from sitta.core.members import member_logits_chunked
from sitta.core.prior import ShapePrior
from sitta.core.twin import Twin, unwrap
from sitta.errors import InvalidSetting
from sitta.prediction.calibration import (
    Calibration,
    ClassCalibration,
    calibration_from,
    calibration_of,
)

ENDS = (1.0, 0.0)  # lambdas that always run: the model as trained, and the image's own statistics
INNER = (0.8, 0.6, 0.4, 0.2)
SPLIT_SHARE = 3  # the split member has the first third of the layers at source statistics
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

    InstanceNorm and GroupNorm keep no statistics. Experimental: a calibration has those of
    in-domain images, and members at lambda 0 (the model as trained), 0.2 and 0.4 mix them in. A
    member whose mask has a Dice below 0.7 with the model as trained does not count.

    Attributes:
        budget: ``adaptive`` runs lambda 1 and 0 first, and the other members only for images on
            which these two disagree; ``full`` runs all seven. Without BatchNorm, all three run.
        calibration: What ``sitta.calibrate`` returns, a profile that holds it, or the path of one.
            By default, the one that came with the model.
        profile: The same, by its name of before.
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
    takes_statistics: ClassVar[bool] = True
    measured_by: ClassVar[str] = "sitta.Adapt(model, calibration=sitta.calibrate(model, images))"

    budget: str = option("adaptive", "members to run", choices=("adaptive", "full"), main=True)
    profile: Any = field(default=None, repr=False)
    members_at_once: int | None = option(None, AT_ONCE)
    _: KW_ONLY
    calibration: Any = field(default=None, repr=False)

    @property
    def cost(self) -> Cost:
        """All members; an image on which the ends agree takes two passes only."""
        return Cost(forward=len(self.grid))

    @cached_property
    def known(self) -> Calibration | None:
        """What is known of the model in-domain: as given, or of the model's own file."""
        if self.profile is not None and self.calibration is not None:
            raise InvalidSetting("calibration and profile say the same.", allowed="one of the two")
        given = self.profile if self.calibration is None else self.calibration
        return calibration_of(unwrap(self.model)) if given is None else calibration_from(given)

    @property
    def is_split(self) -> bool:
        """Whether there is a split member; not where the image's own statistics are the usual."""
        return not self.source_statistics

    @property
    def how(self) -> dict[str, Any]:
        """How statistics are mixed, as keywords of ``member_logits``."""
        return {"statistics": "in-layer" if self.is_split else "captured", "unbiased": False}

    @property
    def grid(self) -> tuple[float, ...]:
        """The lambdas of the members: the model as trained first, the split member last."""
        return GRID if self.is_split else SHORT_GRID

    def depths(self, layers: int) -> list[int] | None:
        """How many of so many layers stay at source statistics, of each member; None: none do."""
        return _split(layers) if self.is_split else None

    def _take_statistics(self) -> None:
        """Statistics of the calibration, if the model keeps none."""
        given = None if self.known is None or self.census.mixable else self.known.statistics
        if given and self.source_statistics is None:
            object.__setattr__(self, "source_statistics", given)
        super()._take_statistics()

    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        if not self.is_split:
            return self._short(twin, images)
        run = {"statistics": "in-layer", "at_once": self.members_at_once}
        ends, distance = member_logits_chunked(twin, images, ENDS, **run)  # type: ignore[arg-type]
        layers = twin.served
        activation = self._activation(ends.shape[2])
        more = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        if not self._left_alone:
            more |= ~are_usable(ends, ends.flatten(2).sum(dim=2)).all(dim=0)
            more |= _agreement(ends, activation) < AGREE
            more |= self.budget == "full"
        rest = ends.new_zeros(len(ORDER) - len(ENDS), *ends.shape[1:])
        if more.any():
            depths = _split(layers)[-len(rest) :]
            lambdas = (*INNER, 0.0)
            part, _ = member_logits_chunked(twin, images[more], lambdas, depths=depths, **run)  # type: ignore[arg-type]
            rest[:, more] = part
        logits = torch.cat([ends, rest])[list(ORDER)]
        ran = torch.ones(logits.shape[:2], dtype=torch.bool, device=images.device)
        ran[1:-2], ran[-1] = more, more
        return self.members(logits, distance, ran)

    def _short(self, twin: Twin, images: Tensor) -> Members:
        """All members of a short grid; the model as trained alone, if that is left alone."""
        grid = self.grid[:1] if self._left_alone else self.grid
        how = {"at_once": self.members_at_once, **self.how}
        logits, distance = member_logits_chunked(twin, images, grid, **how)
        ran = torch.ones(len(self.grid), len(images), dtype=torch.bool, device=images.device)
        ran[len(grid) :] = False
        rest = logits.new_zeros(len(self.grid) - len(grid), *logits.shape[1:])
        return self.members(torch.cat([logits, rest]), distance, ran)

    @property
    def _left_alone(self) -> bool:
        return self.known is not None and not self.known.adapts

    def members(self, logits: Tensor, distance: Tensor, ran: Tensor | None = None) -> Members:
        """Members of logits ``(K, N, C, *S)``, weighted; all ran if ``ran`` does not say."""
        if ran is None:
            ran = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
        entropies, weights = self._weights(logits, ran, self._activation(logits.shape[2]))
        lambdas: Sequence[float] = (*GRID[:-1], 1 / SPLIT_SHARE) if self.is_split else self.grid
        return Members(
            lambdas,
            logits,
            distance,
            entropies,
            class_weights=weights,
            ran=ran,
            names=NAMES if self.is_split else (),
            codes=[self._codes(all_ran) for all_ran in ran.all(dim=0).tolist()],
        )

    def _codes(self, all_ran: bool) -> tuple[str, ...]:
        if self._left_alone:
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
        if not self.is_split:  # the model as trained is the first, unless it is not usable
            usable &= near(logits, activation, 0) | ~usable[:1]
        maps = _maps(logits, activation)
        finds = maps.any(dim=3)  # (K, N, F)
        last = len(ENDS) - 1 + len(INNER) if self.is_split else -1
        alike = _dice(maps[0], maps[last])  # (N, F), of the ends
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
        classes = self.known.classes if self.known else ()
        log = _by_entropy(entropy, finds & usable, usable)
        anchor = torch.full_like(alike, ANCHOR)
        if n >= len(classes):  # what the image shows of a shift stands in for a calibration
            even, (low, high) = 1 / len(self.grid), ALIKE
            anchor = even + (ANCHOR - even) * ((alike - low) / (high - low)).clamp(0, 1)
        log = log + _shared(anchor, len(self.grid)).log().to(log)
        if n < len(classes):
            log = log + self._known(classes[n], odds, finds, usable).to(log)
        return torch.where(usable, log, -torch.inf).softmax(dim=0)

    def _known(self, mine: ClassCalibration, odds: Tensor, finds: Tensor, usable: Tensor) -> Tensor:
        """What the calibration adds to the logarithms of the weights ``(K, N)``."""
        log = odds.new_zeros(usable.shape).double()
        if mine.prior is not None and self.known is not None:
            shape = _plausibility(mine.prior, odds)
            log = log - POWER * self.known.shape_trust * (1 - shape + FLOOR).log()
            # Where the model as trained finds nothing, an unlikely shape is taken for invented.
            invented = finds & ~finds[:1] & (shape < mine.plausible)
            log = torch.where(invented & usable[:1], -torch.inf, log)
        if not mine.adapts:  # only the model as trained counts, unless it is not usable
            others = usable[:1] & usable
            others[0] = False
            log = torch.where(others, -torch.inf, log)
        return log


def _split(layers: int) -> list[int]:
    """How many of so many layers stay at source statistics, the split member last."""
    return [*[0] * (len(GRID) - 1), layers // SPLIT_SHARE]


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
    any_counts = counted.any(dim=0)
    return torch.where(any_counts, low, 0.0), torch.where(any_counts, high - low, 0.0)


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
