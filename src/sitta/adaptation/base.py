"""What all methods have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from sitta._util.settings import check, constraints, option
from sitta.core.activations import ACTIVATIONS, INSIDE
from sitta.core.calibrated_statistics import TRAINED, calibrated_layers, checked_statistics, near
from sitta.core.census import Census, census
from sitta.core.entropy import (
    Activation,
    foreground_classes,
    in_parts,
    mean_entropy,
    probabilities,
    resolve,
)
from sitta.core.integration import (
    are_usable,
    integrate,
    integrate_by_class,
    weigh,
    without_unusable,
)
from sitta.core.norm_adapters import ADAPTERS, mixed_families
from sitta.core.output import as_described, thresholds_of
from sitta.core.twin import Output, Twin, Twins, unwrap
from sitta.core.validate import as_batch, explain
from sitta.errors import InvalidSetting, SittaError, UnsupportedModel
from sitta.prediction.calibration import Calibration, calibration_of
from sitta.prediction.geometry import ImageGeometry
from sitta.prediction.notes import Limits, require_usable
from sitta.prediction.prediction import Prediction, RawPrediction

T = TypeVar("T")
Needs = Literal["nothing", "batch-norm", "any-norm"]
NEEDS = {"nothing": "any model", "batch-norm": "BatchNorm", "any-norm": "any norm layer"}


@dataclass(frozen=True)
class Cost:
    """What an image costs: passes of one row through the network."""

    forward: int
    backward: int = 0  # each takes about two forward passes


@dataclass(frozen=True, eq=False)
class Members:
    """The members of N images, and how to integrate them."""

    lambdas: Sequence[float]  # (K,)
    logits: Tensor  # (K, N, C, *S)
    distance: Tensor  # (N,) from the source's statistics; NaN if not measured
    scores: Tensor | None = None  # (K, N) that the strategy weighs; the mean entropy if not given
    weights: Tensor | None = None  # (K, N) if the method has its own; 0 for what is not finite
    strategy: str = "average"
    topk: int = 2  # members that ``ent-topk`` keeps
    ties: str = "background"  # where a tied vote goes
    codes: Sequence[tuple[str, ...]] = ()  # notes on how each image went
    class_weights: Tensor | None = None  # (K, N, C) if each class has weights of its own
    ran: Tensor | None = None  # (K, N) False for a member that was not needed; all ran if None
    names: Sequence[str] = ()  # of the members, where a lambda does not say it all
    # (2, N, C, *S) logits at lambda 1 and 0, if the members do not have them; see ``_ends``.
    ends: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Method(ABC):
    """A trained model that adapts itself to each image it is given.

    The model is only ever read: parameters, buffers, gradients, mode and hooks stay as they are.
    Several threads may call one method at once. Each of N images in a call is adapted by itself.

    Attributes:
        model: Any ``torch.nn.Module`` that maps ``(N, C, *S)`` to logits.
        activation: ``auto`` takes one channel for binary and several for classes; ``sigmoid`` with
            several channels is multi-label; ``probabilities`` and ``probabilities-sigmoid`` are
            for models that return those, not logits. The model's profile decides if it is not
            given, as for ``output``.
        output: Where the logits are if the model returns a dict, tuple or list: a key, an index,
            or a function of what it returns.
        accelerate: Whether to use the inference optimisations; False is slower, and simpler to
            debug. Results are the same up to rounding.
        source_statistics: Experimental. Mean and variance, by layer, for InstanceNorm and GroupNorm
            layers, which keep none; see ``sitta.core.calibrated_statistics.measure_statistics``.
            The model as trained is then the member of lambda 0.
    """

    name: ClassVar[str]  # on the command line and in files; the class's in small letters
    title: ClassVar[str]  # for people, in tables, plots and on the page; the class's
    description: ClassVar[str]
    citation: ClassVar[str]
    needs: ClassVar[Needs]
    takes_gradients: ClassVar[bool] = False  # whether it updates parameters by gradient steps
    takes_statistics: ClassVar[bool] = False  # whether ``source_statistics`` mean anything to it
    measured_by: ClassVar[str] = "measure statistics on in-domain images, for source_statistics"

    model: nn.Module = field(repr=False)
    _: KW_ONLY
    activation: str = option(
        "auto",
        "how logits become probabilities",
        choices=("auto", *sorted({*ACTIVATIONS.values()} - {"auto"}), *INSIDE),
    )
    output: Output = None
    accelerate: bool = field(default=True, repr=False)
    source_statistics: Mapping[str, Any] | None = field(default=None, repr=False)
    census: Census = field(init=False, repr=False)
    _twins: Twins = field(init=False, repr=False)

    def __init_subclass__(cls) -> None:
        cls.name = vars(cls).get("name", cls.__name__.lower())
        cls.title = vars(cls).get("title", cls.__name__)

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise UnsupportedModel(
                "The model is not a torch.nn.Module.", got=type(self.model).__name__
            )
        check(self)
        object.__setattr__(self, "census", census(self.model))
        self._take_statistics()
        needs = "nothing" if self.source_statistics else self._needs
        problem = self.problem(self.census, needs)
        if problem:
            raise UnsupportedModel(
                f"{type(self).__name__} cannot adapt this model: {problem}.",
                got=f"{self.census.model} with {self.census}",
                fix="choose another method, such as source (--method source); sitta inspect, or "
                "sitta.inspect(model), lists those that apply" + self._measurable(),
            )
        output, activation = as_described(unwrap(self.model), self.output, self.activation)
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "activation", activation)
        how: Any = (self.output, self.accelerate, self.source_statistics)
        object.__setattr__(self, "_twins", Twins(self.model, *how))

    @cached_property
    def known(self) -> Calibration | None:
        """The calibration of the model, if its file has one."""
        return calibration_of(unwrap(self.model))

    @property
    def _needs(self) -> Needs:
        """What these settings need of the model."""
        return self.needs

    @classmethod
    def problem(cls, census: Census, needs: Needs | None = None) -> str:
        """Why the method does not apply to a model with this census; empty if it does."""
        needs = needs or cls.needs
        if needs == "batch-norm" and not census.mixable:
            reasons = [f"it has no {mixed_families()} layer with running statistics to mix"]
            families = {layer.family for layer in census.layers}
            refused = {a.family: a.refused for a in ADAPTERS if a.refused and a.family in families}
            return "; of ".join([*reasons, *(f"{name}, {why}" for name, why in refused.items())])
        if needs == "any-norm" and not census.affine:
            return "it has no normalisation layer with a scale and a shift"
        return ""

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """All that the registry knows of the method, in plain types."""
        declared = ("title", "description", "citation", "needs", "takes_gradients")
        return {
            "name": cls.name,
            "class": cls.__name__,
            **{name: getattr(cls, name) for name in declared},
            "cost": asdict(cls(nn.BatchNorm2d(1)).cost),
            "settings": [
                {"name": name, "type": c.kind, "default": default, "range": c.range, "help": c.help}
                for name, (default, c) in constraints(cls).items()
            ],
        }

    def __call__(self, image: Any) -> Prediction:
        """Adapt the model to an image ``(C, *S)``, or to each of ``(N, C, *S)``, and predict."""

        def adapt(twin: Twin, images: Tensor) -> RawPrediction:
            return self._integrated(twin, images, self._adapt(twin, images))

        raw, batched = self._on_twin(image, adapt)
        return Prediction(raw, batched=batched, geometry=ImageGeometry.of(image))

    def _on_twin(self, image: Any, adapt: Callable[[Twin, Tensor], T]) -> tuple[T, bool]:
        """The result of ``adapt`` on a borrowed twin, and whether ``image`` is a batch."""
        images, batched = as_batch(image, self.model, self.census)
        with self._twins.borrow() as twin:
            try:
                with torch.no_grad():
                    return adapt(twin, images), batched
            except SittaError:
                raise
            except Exception as error:
                explain(error, images)
                raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the model and the settings; twins are built again."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return _rebuild, (type(self), settings)  # arguments, which deepcopy copies

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What one image costs with these settings."""

    @abstractmethod
    def _adapt(self, twin: Twin, images: Tensor) -> Members:
        """The members for images ``(N, C, *S)``, each adapted by itself."""

    def _activation(self, channels: int) -> Activation:
        """How logits of so many channels become probabilities."""
        return resolve(self.activation, channels)

    def _integrated(self, twin: Twin, images: Tensor, members: Members) -> RawPrediction:
        """Weigh and integrate members, of which those that overflowed do not count."""
        logits, activation = members.logits, self._activation(members.logits.shape[2])
        scores = members.scores
        if scores is None:
            scores = in_parts(lambda z: mean_entropy(z, activation), logits)
        usable = are_usable(logits, scores)
        if members.ran is not None:
            usable &= members.ran
        if not usable.all():
            require_usable(usable.cpu().numpy(), images.float().cpu().numpy())
            logits, scores = without_unusable(logits, scores, usable)
        each = probabilities(logits.flatten(0, 1), activation).unflatten(0, logits.shape[:2])
        if members.class_weights is not None:
            probability = integrate_by_class(each, members.class_weights, activation)
            classes = foreground_classes(each.shape[2], activation)
            weights = members.class_weights[:, :, -classes:].mean(dim=2)
        else:
            weights = self._weighed(members, logits, scores, usable)
            probability = integrate(each, weights, members.strategy, activation, members.ties)
        return RawPrediction(
            method=type(self).__name__,
            images=images,
            lambdas=torch.tensor(members.lambdas, dtype=torch.float64),
            members=each,
            entropies=scores,
            weights=weights,
            probability=probability,
            usable=usable,
            ran=torch.ones_like(usable) if members.ran is None else members.ran,
            names=tuple(members.names) or tuple(f"{lam:.2f}" for lam in members.lambdas),
            ends=self._ends(twin, images, members, each),
            activation=activation,
            codes=tuple((*c, *sorted(twin.notes)) for c in members.codes or [()] * len(images)),
            updated=self.takes_gradients,
            trained=self._trained(members.lambdas),
            distance=members.distance.cpu(),
            limits=Limits.of(getattr(unwrap(self.model), "card", None), self.known),
            calibration=self.known,
            thresholds=thresholds_of(unwrap(self.model)),
        )

    def _weighed(self, members: Members, logits: Tensor, scores: Tensor, usable: Tensor) -> Tensor:
        """The members' weights ``(K, N)``, 0 for those that are not usable."""
        if members.weights is not None:
            return members.weights
        trained, masked = self._trained(members.lambdas), torch.where(usable, scores, torch.inf)
        if self.source_statistics and trained is not None:
            far = ~near(logits, self._activation(logits.shape[2]), trained) & usable[trained]
            masked = torch.where(far, torch.inf, masked)
        return weigh(members.strategy, masked, members.topk)

    @property
    def trained_lambda(self) -> float:
        """At which lambda the network is the model as trained."""
        return TRAINED if self.source_statistics else 1.0

    def _trained(self, lambdas: Sequence[float]) -> int | None:
        """Which member is the model as trained; none is after updates."""
        at = [k for k, lam in enumerate(lambdas) if lam == self.trained_lambda]
        return at[0] if at and not self.takes_gradients else None

    def _measurable(self) -> str:
        """What else could be tried on a model that keeps no statistics, for an error."""
        if not self.takes_statistics or not calibrated_layers(self.model):
            return ""
        return f"; experimental: {self.measured_by}"

    def _take_statistics(self) -> None:
        """Check source statistics for layers that keep none."""
        given = self.source_statistics
        if given is None:
            return
        if not self.takes_statistics:
            raise InvalidSetting(
                f"{self.title} cannot mix source_statistics.",
                allowed="sitta.Source, sitta.InTEnt, sitta.Adapt",
            )
        object.__setattr__(self, "source_statistics", checked_statistics(self.model, given))

    def _ends(self, twin: Twin, images: Tensor, members: Members, each: Tensor) -> Tensor | None:
        """Probabilities ``(2, N, C, *S)`` at lambda 1 and 0, by which expected Dice judges a mask.

        Methods whose members do not have them borrow them, at two passes, if there is a calibration
        to use them.
        """
        if self.known is None or not self.census.mixable:
            return None
        if members.ends is not None:
            logits = members.ends
        elif not self.takes_gradients and {1.0, 0.0} <= set(members.lambdas):
            return each[[list(members.lambdas).index(lam) for lam in (1.0, 0.0)]]
        else:
            logits = twin.run(images, torch.tensor([1.0, 0.0]), pool="own", same_rows=True)
        flat = logits.flatten(0, 1).nan_to_num(0.0)
        maps: Tensor = probabilities(flat, self._activation(logits.shape[2]))
        return maps.unflatten(0, logits.shape[:2])  # type: ignore[no-any-return]


def _rebuild(kind: type[Method], settings: dict[str, Any]) -> Method:
    return kind(**settings)
