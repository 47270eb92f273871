"""What all methods have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from sitta.census import Census, census
from sitta.entropy import Activation, probabilities
from sitta.errors import SittaError, UnsupportedModel
from sitta.intake import as_batch, explain
from sitta.integration import integrate, weigh
from sitta.notes import Limits, require_usable
from sitta.prediction import Outcome, Prediction
from sitta.settings import Rule, check, rules, setting
from sitta.twin import Output, Twin, Twins, unwrap

T = TypeVar("T")
Needs = Literal["nothing", "batch-norm", "any-norm"]


@dataclass(frozen=True)
class Cost:
    """What an image costs: passes of one row through the network.

    Attributes:
        forward: Forward passes.
        backward: Backward passes; each about two forward passes.
    """

    forward: int
    backward: int = 0


@dataclass(frozen=True, eq=False)
class Method(ABC):
    """A trained model that adapts itself to each image it is given.

    The model is only ever read: parameters, buffers, gradients, mode and hooks stay as they are.
    Several threads may call one method at once. Each of N images in a call is adapted by itself.

    Attributes:
        model: Any ``torch.nn.Module`` that maps ``(N, C, *S)`` to logits.
        activation: ``auto`` takes one channel for binary and several for classes; ``sigmoid`` with
            several channels is multi-label.
        output: Where the logits are if the model returns a dict, tuple or list: a key, an index,
            or a function of what it returns.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    citation: ClassVar[str]
    needs: ClassVar[Needs]

    model: nn.Module = field(repr=False)
    _: KW_ONLY
    activation: str = setting(
        "auto", Rule("how logits become probabilities", choices=("auto", "sigmoid", "softmax"))
    )
    output: Output = None
    census: Census = field(init=False, repr=False)
    _twins: Twins = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise UnsupportedModel(
                "The model is not a torch.nn.Module.", got=type(self.model).__name__
            )
        check(self)
        object.__setattr__(self, "census", census(self.model))
        problem = self.problem(self.census, self._needs)
        if problem:
            raise UnsupportedModel(
                f"{type(self).__name__} cannot adapt this model: {problem}.",
                got=f"{self.census.model} with {self.census}",
                fix="sitta.inspect(model) lists the methods that apply",
            )
        object.__setattr__(self, "_twins", Twins(self.model, self.output))

    @property
    def _needs(self) -> Needs:
        """What these settings need of the model."""
        return self.needs

    @classmethod
    def problem(cls, found: Census, needs: Needs | None = None) -> str:
        """Why the method does not apply to a model with this census; empty if it does."""
        needs = needs or cls.needs
        if needs == "batch-norm" and not found.mixable:
            return "it has no BatchNorm layer with running statistics to mix"
        if needs == "any-norm" and not found.affine:
            return "it has no normalisation layer with a scale and a shift"
        return ""

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """All that the registry knows of the method, in plain types."""
        cost = cls(nn.BatchNorm2d(1)).cost
        return {
            "name": cls.name,
            "class": cls.__name__,
            "description": cls.description,
            "citation": cls.citation,
            "needs": cls.needs,
            "cost": {"forward": cost.forward, "backward": cost.backward},
            "settings": [
                {
                    "name": name,
                    "type": rule.kind,
                    "default": default,
                    "range": rule.range,
                    "help": rule.help,
                }
                for name, (default, rule) in rules(cls).items()
            ],
        }

    def __call__(self, image: Any) -> Prediction:
        """Adapt the model to an image ``(C, *S)``, or to each of ``(N, C, *S)``, and predict."""
        outcome, batched = self._on_twin(image, self._adapt)
        return Prediction(outcome, batched=batched)

    def _on_twin(self, image: Any, adapt: Callable[[Twin, Tensor], T]) -> tuple[T, bool]:
        """What ``adapt`` makes of the images on a borrowed twin, and whether they were many."""
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
        """Copies and pickles as model and settings; twins are made anew where it arrives."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return _rebuild, (type(self), known)

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What one image costs with these settings."""

    @abstractmethod
    def _adapt(self, twin: Twin, images: Tensor) -> Outcome:
        """The outcome for images ``(N, C, *S)``, each adapted by itself."""

    def _outcome(
        self,
        twin: Twin,
        images: Tensor,
        lambdas: Sequence[float],
        logits: Tensor,
        figures: Tensor,
        activation: Activation,
        strategy: str = "average",
        topk: int = 2,
        ties: str = "background",
        weights: Tensor | None = None,
        codes: Sequence[tuple[str, ...]] | None = None,
        updated: bool = False,
        distance: Tensor | None = None,
    ) -> Outcome:
        """Weigh and integrate members, of which those that overflowed do not count.

        Args:
            twin: The twin that was borrowed.
            images: ``(N, C, *S)``.
            lambdas: One for each member.
            logits: ``(K, N, C, *S)``.
            figures: What the strategy weighs, ``(K, N)``.
            activation: How logits become probabilities.
            strategy: How members are weighted and integrated.
            topk: Members that ``ent-topk`` keeps.
            ties: Where a tied vote goes.
            weights: Weights, if the method has its own way to them; 0 for what is not finite.
            codes: Notes on how each image went.
            updated: Whether parameters were changed.
            distance: From the source's statistics ``(N,)``; that of the last pass if not given.
        """
        usable = logits.flatten(2).isfinite().all(dim=2) & figures.isfinite()  # (K, N)
        if not usable.all():
            require_usable(usable.cpu().numpy(), images.float().cpu().numpy())
            logits = torch.where(usable.view(*usable.shape, *[1] * (logits.dim() - 2)), logits, 0.0)
            figures = torch.where(usable, figures, 1.0)
        if weights is None:
            weights = weigh(strategy, torch.where(usable, figures, torch.inf), topk)
        members = probabilities(logits.flatten(0, 1), activation).unflatten(0, logits.shape[:2])
        distance = twin.distance if distance is None else distance
        if distance is None:
            distance = torch.full((len(images),), torch.nan)
        return Outcome(
            method=type(self).__name__,
            images=images,
            lambdas=torch.tensor(lambdas, dtype=torch.float64),
            members=members,
            figures=figures,
            weights=weights,
            probability=integrate(members, weights, strategy, activation, ties),
            usable=usable,
            activation=activation,
            codes=tuple((*c, *sorted(twin.notes)) for c in codes or [()] * len(images)),
            updated=updated,
            distance=distance.cpu(),
            limits=Limits.of(getattr(unwrap(self.model), "card", None)),
        )


def _rebuild(kind: type[Method], settings: dict[str, Any]) -> Method:
    return kind(**settings)
