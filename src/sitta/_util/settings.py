"""Settings of methods: declared once, with what they mean and what they may be."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from sitta._util.names import did_you_mean
from sitta._util.untrusted import shown
from sitta.errors import InvalidSetting


@dataclass(frozen=True)
class Constraint:
    """What a setting means and which values it takes."""

    help: str  # one line for people, with the equation or the source of the default
    low: float | None = None  # smallest number allowed
    high: float | None = None  # largest number allowed
    above: float | None = None  # number that must be exceeded
    below: float | None = None  # number that must not be reached
    choices: Collection[str] = ()  # words allowed
    optional: bool = False  # whether None is allowed, and stands for "as usual"
    many: bool = False  # whether it is a list of such values
    whole: bool = False  # whether numbers are whole ones
    title: str = ""  # its name in forms, if that is not the name in code
    main: bool = False  # whether forms show it at once, and not among "more settings"

    @property
    def kind(self) -> str:
        """The type, in a word."""
        one = "choice" if self.choices else "integer" if self.whole else "number"
        return f"list of {one}s" if self.many else one

    def allowed(self) -> str:
        """The values allowed, in words."""
        if self.choices:
            return self.range
        kind = "a whole number" if self.whole else "a number"
        return f"{'a list, each ' if self.many else ''}{kind} {self.range}"

    @property
    def range(self) -> str:
        """The values allowed, in short."""
        if self.choices:
            return ", ".join(self.choices)
        low = f">= {_digits(self.low)}" if self.above is None else f"> {_digits(self.above)}"
        if self.below is not None:
            return f"{low} and < {_digits(self.below)}"
        return low if self.high is None else f"{low} and <= {_digits(self.high)}"

    def parse(self, text: str) -> Any:
        """A value from the command line; what is no number is left as it is, to be refused."""
        if self.many:
            return tuple(replace(self, many=False).parse(part) for part in text.split(","))
        if self.optional and text.strip().lower() == "none":
            return None
        if self.choices:
            return text.strip()
        try:
            return int(text) if self.whole else float(text)
        except ValueError:
            return text

    def accepts(self, value: Any) -> bool:
        """Whether one value is allowed."""
        if self.choices:
            return isinstance(value, str) and value in self.choices
        kind = Integral if self.whole else Real  # Python's numbers and NumPy's
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return False
        return math.isfinite(number) and (
            (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
            and (self.low is None or number >= self.low)
            and (self.high is None or number <= self.high)
        )

    def check(self, name: str, value: Any) -> Any:
        """The value if it is allowed, a list as a tuple; else an InvalidSetting."""
        if value is None and self.optional:
            return None
        values = _listed(name, value) if self.many else (value,)
        if not all(self.accepts(v) for v in values):
            similar = did_you_mean(value, self.choices) if isinstance(value, str) else ""
            raise InvalidSetting(
                f"{name} is out of range.{similar}", allowed=self.allowed(), got=shown(value)
            )
        return values if self.many else value


def _digits(number: float | None) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


MOST = 1000  # values of a list, members, views, steps: no result is worth more passes
LAMBDA = Constraint(
    "weight of the source statistics: 1 source, 0 this image (Eq. 5)", low=0, high=1, title="λ"
)
STEP = Constraint("step of a grid of lambdas", low=1 / MOST, high=1.0)
# Far above any sensible rate: an update that overflows is undone, with a note.
RATE = Constraint("learning rate", above=0.0, high=1_000_000, title="learning rate", main=True)
AT_ONCE = Constraint(
    "members in one pass, as many as fit if not given", low=1, high=MOST, optional=True, whole=True
)
SEED = Constraint("seed", low=0, high=2**32 - 1, whole=True)  # as NumPy's


def option(default: Any, about: str | Constraint, **changes: Any) -> Any:
    """A dataclass field: its default, and its help or a shared constraint with some changes."""
    shared = about if isinstance(about, Constraint) else Constraint(about)
    return field(default=default, metadata={"constraint": replace(shared, **changes)})


def constraints(kind: Any) -> Mapping[str, tuple[Any, Constraint]]:
    """Default and constraint of every setting of a dataclass."""
    options = [f for f in fields(kind) if "constraint" in f.metadata]
    return {f.name: (f.default, f.metadata["constraint"]) for f in options}


def check(settings: Any) -> None:
    """Check every setting of a dataclass instance against its constraint; lists become tuples."""
    for name, (_, constraint) in constraints(settings).items():
        object.__setattr__(settings, name, constraint.check(name, getattr(settings, name)))


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    plain = value.tolist() if hasattr(value, "tolist") else value  # NumPy's and torch's arrays
    text = isinstance(plain, str | bytes | bytearray)
    if not isinstance(plain, Sequence) or text or not plain:
        raise InvalidSetting(
            f"{name} holds no value.", allowed="a list of at least one", got=shown(value)
        )
    if len(plain) > MOST:
        raise InvalidSetting(
            f"{name} holds too many values.", allowed=f"a list of up to {MOST}", got=f"{len(plain)}"
        )
    return tuple(plain)


def require_known(name: str, given: Mapping[str, Any], kind: Any) -> None:
    """Refuse settings that a method does not have."""
    _require(name, given, [f.name for f in fields(kind) if f.init and f.name != "model"])


def parse(name: str, given: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Settings that have a constraint, checked, with text turned into the types they declare.

    Commands and the service take settings through here, before a model is loaded or run.
    """
    declared = {key: constraint for key, (_, constraint) in constraints(kind).items()}
    _require(name, given, declared)
    values = {k: declared[k].parse(v) if isinstance(v, str) else v for k, v in given.items()}
    for key, value in values.items():
        declared[key].check(key, value)
    return values


def _require(name: str, given: Collection[str], names: Collection[str]) -> None:
    unknown = [key for key in given if key not in names]
    if unknown:
        raise InvalidSetting(
            f"{name} has no setting {', '.join(map(repr, unknown))[:100]}."
            + did_you_mean(unknown[0], names),
            allowed=", ".join(names),
        )
