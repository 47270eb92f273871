"""A method with settings, as a plan asks for it: how it is built, kept on disk and keyed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from sitta.adaptation import Method, method
from sitta.adaptation.shared_pass import shares
from sitta.bench.variant import ORACLE, Variant
from sitta.core.members import grid

ANY_MODEL = nn.BatchNorm2d(1)  # cost and sharing of a method do not depend on the network
# Settings that members on all images may have: others are run on the draw alone.
OF_MEMBERS = {"source": {"lam"}, "intent": {"strategy", "step"}}
IN_KEY = {"lam", "strategy", "members_at_once"}  # have columns of their own, or change no result


@dataclass(frozen=True)
class MethodRequest:
    """A method to run; its text is the name of its files."""

    method: str  # its name in the registry, or oracle, which has no settings
    settings: Mapping[str, Any] = field(default_factory=dict)  # all that is not its default

    def __str__(self) -> str:
        pairs = [f"{name}={_text(value)}" for name, value in sorted(self.settings.items())]
        return "-".join([self.method, *pairs])

    def build(self, model: nn.Module) -> Method:
        """The method itself."""
        return method(self.method, model, **self.settings)

    def variant(self, step: float) -> Variant:
        """Its key in results of a plan with this step; a setting at its default is no other key."""
        if self.method == ORACLE:
            return Variant(ORACLE, members=len(grid(step)))
        built = self.build(ANY_MODEL)
        lam, lambdas = getattr(built, "lam", None), getattr(built, "grid", ())
        searches = getattr(built, "op", "none") != "none"  # SITA, which then has no lambda
        left_out = {*IN_KEY}
        if _is_counted(lambdas, step) if lambdas else not searches:
            left_out |= {"step", "lambdas"}  # the number of members identifies them
        rest = {k: _text(v) for k, v in sorted(self.settings.items()) if k not in left_out}
        return Variant(
            self.method,
            None if lam is None or searches else float(_text(float(lam))),
            getattr(built, "strategy", ""),
            len(lambdas) or 1,
            tuple(rest.items()),
        )

    @property
    def is_of_members(self) -> bool:
        """Whether a plan could also have it among the members, on all images."""
        allowed = OF_MEMBERS.get(self.method, set())
        return {*self.settings} <= allowed and shares(self.build(ANY_MODEL))


def even(count: int) -> tuple[float, ...]:
    """Evenly spaced lambdas from 1 to 0."""
    return tuple(round(1 - i / (count - 1), 9) for i in range(count))


def _is_counted(lambdas: tuple[float, ...], step: float) -> bool:
    """Whether their number identifies them: the plan's own, or another number, evenly spaced."""
    own = grid(step)
    return lambdas == own or (len(lambdas) != len(own) and _is_even(lambdas))


def _is_even(value: tuple[Any, ...] | list[Any]) -> bool:
    return len(value) > 1 and tuple(value) == even(len(value))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"  # as in the rows
    if isinstance(value, tuple | list):  # of evenly spaced lambdas, their number
        return f"{len(value)}" if _is_even(value) else "+".join(map(_text, value))
    return str(value)
