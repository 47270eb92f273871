"""Settings of methods: declared once, with what they mean and what they may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from sitta.errors import InvalidSetting


@dataclass(frozen=True)
class Rule:
    """What a setting means and which values it takes.

    Attributes:
        help: One line for people, with the equation or the source of the default.
        low: Smallest number allowed.
        high: Largest number allowed.
        above: Number that must be exceeded.
        below: Number that must not be reached.
        choices: Words allowed.
        optional: Whether None is allowed, and stands for "as usual".
        many: Whether it is a list of such values.
        whole: Whether numbers are whole ones.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    many: bool = False
    whole: bool = False

    @property
    def kind(self) -> str:
        """The type, in a word."""
        one = "choice" if self.choices else "integer" if self.whole else "number"
        return f"list of {one}s" if self.many else one

    def allowed(self) -> str:
        """The values allowed, in words."""
        if self.choices:
            return ", ".join(self.choices)
        kind = "a whole number" if self.whole else "a number"
        return f"{'a list, each ' if self.many else ''}{kind} {self.range}"

    @property
    def range(self) -> str:
        """The values allowed, in short."""
        if self.choices:
            return ", ".join(self.choices)
        low = f"> {self.above:g}" if self.above is not None else f">= {self.low:g}"
        if self.below is not None:
            return f"{low} and < {self.below:g}"
        return low if self.high is None else f"{low} and <= {self.high:g}"

    def parse(self, text: str) -> Any:
        """A value from the command line; what is no number is left as it is, to be refused.

        Example:
            >>> Rule("", low=0, many=True).parse("1, 0.5"), Rule("", low=0, whole=True).parse("3")
            ((1.0, 0.5), 3)
        """
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
            return value in self.choices
        kind = Integral if self.whole else Real  # Python's numbers and NumPy's
        if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
            return False
        number = float(value)
        checks = (
            self.above is None or number > self.above,
            self.below is None or number < self.below,
            self.low is None or number >= self.low,
            self.high is None or number <= self.high,
        )
        return all(checks)


LAMBDA = Rule("weight of the source statistics: 1 source, 0 this image (Eq. 5)", low=0, high=1)


def setting(default: Any, rule: Rule) -> Any:
    """A dataclass field with a rule."""
    return field(default=default, metadata={"rule": rule})


def rules(kind: Any) -> Mapping[str, tuple[Any, Rule]]:
    """Default and rule of every setting of a dataclass."""
    found = fields(kind)
    return {f.name: (f.default, f.metadata["rule"]) for f in found if "rule" in f.metadata}


def check(settings: Any) -> None:
    """Check every setting of a dataclass instance against its rule; lists become tuples."""
    for name, (_, rule) in rules(settings).items():
        value = getattr(settings, name)
        if value is None and rule.optional:
            continue
        values = _listed(name, value) if rule.many else (value,)
        if not all(rule.accepts(v) for v in values):
            raise InvalidSetting(
                f"{name} is out of range.", allowed=rule.allowed(), got=repr(value)
            )
        if rule.many:
            object.__setattr__(settings, name, values)


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    plain = value.tolist() if hasattr(value, "tolist") else value  # NumPy's and torch's arrays
    if not isinstance(plain, Sequence) or isinstance(plain, str) or not plain:
        raise InvalidSetting(
            f"{name} holds no value.", allowed="a list of at least one", got=repr(value)
        )
    return tuple(plain)


def require_known(name: str, given: Mapping[str, Any], kind: Any) -> None:
    """Refuse settings that a method does not have."""
    known = [f.name for f in fields(kind) if f.init and f.name != "model"]
    unknown = [k for k in given if k not in known]
    if unknown:
        raise InvalidSetting(
            f"{name} has no setting {', '.join(map(repr, unknown))}.", allowed=", ".join(known)
        )
