"""What the file of ``sitta export`` says about itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sitta._util.settings import LAMBDA, Constraint
from sitta._util.untrusted import read_json, shown
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.inference.request import Request
from sitta.models.card import check_card

MULTIPLE = Constraint("of the sides of an image", low=1, high=1 << 16, whole=True)
KEY, FORMAT = "sitta", 1
EXPORT_AGAIN = "export the model again: sitta export MODEL out.onnx"
CHECKPOINT = "give the checkpoint that it was exported from"


@dataclass(frozen=True)
class Manifest:
    """The metadata of an ONNX file."""

    version: str  # of the Sitta that wrote it
    method: str  # what is inside, such as intent
    settings: dict[str, Any]  # of the method
    lambdas: tuple[float, ...]  # one for each member
    activation: str  # how logits became probabilities
    card: dict[str, Any]  # of the checkpoint: source, preprocessing, classes, limits of trust
    multiple: int = 1  # what the sides of an image must be multiples of
    trained: int | None = None  # which member is the model as trained; None if no member is

    def write(self) -> dict[str, str]:
        """As properties of a file, from which ``read`` gets it back."""
        return {KEY: json.dumps({"format": FORMAT, **asdict(self)})}

    @property
    def built_in(self) -> dict[str, Any]:
        """Every setting that cannot be changed any more."""
        settings = {name: value for name, value in self.settings.items() if value is not None}
        if "lambdas" in settings:  # they were given themselves, in place of a grid
            settings.pop("step", None)
        return settings | {"lambdas": list(self.lambdas), "activation": self.activation}

    def require(self, name: str, request: Request) -> None:
        """Refuse what the file of that name does not hold, with an InvalidSetting."""
        method, device = request.method or self.method, request.device
        rules = (
            (
                method == self.method,
                f"holds the method {self.method}, and no other",
                method,
            ),
            (request.window is None, "takes each input whole: no window slides over it", ""),
            (device in ("auto", "cpu"), "runs on the CPU here (auto, cpu)", device),
        )
        for kept, what, got in rules:
            if not kept:
                raise InvalidSetting(f"{name} {what}.", got=got, fix=CHECKPOINT)
        for setting, value in request.settings.items():
            self._require_setting(name, setting, value)

    def _require_setting(self, name: str, setting: str, value: Any) -> None:
        held = self.built_in
        if setting not in held:
            raise InvalidSetting(
                f"{name} holds no setting {setting!r}.",
                allowed=", ".join(f"{k}={v}" for k, v in held.items()),
                fix=f"leave it out, or {EXPORT_AGAIN}, with it",
            )
        as_exported = setting == "activation" and value == self.settings.get(setting)  # as auto
        if not as_exported and not _same(held[setting], value):
            given = setting in ("step", "strategy")
            option = f" --{setting} {str(value)[:100]}" if given else f", with {setting}"
            raise InvalidSetting(
                f"{name} was exported with {setting}={held[setting]}, which is part of the graph.",
                allowed=f"{setting}={held[setting]}",
                got=f"{setting}={str(value)[:100]}",
                fix=f"leave it out, or {EXPORT_AGAIN}{option}",
            )

    @classmethod
    def read(cls, path: str, metadata: Mapping[str, str]) -> Manifest:
        """From the properties of a file, which may come from another program or version."""
        if KEY not in metadata:
            raise UnsupportedModel(
                f"{path} does not say how to use it: another program than Sitta wrote it.",
                allowed="an .onnx file that sitta export has written",
                fix="sitta export MODEL out.onnx, from the checkpoint or your own network",
            )
        try:
            values = read_json(metadata[KEY], f"What {path} says about itself")
        except InvalidSetting as error:
            raise UnsupportedModel(
                error.what, allowed=error.allowed, got=error.got, fix=EXPORT_AGAIN
            ) from error
        written = values.get("format") if isinstance(values, dict) else None
        if written != FORMAT:
            raise UnsupportedModel(
                f"{path} has a format that this version does not know.",
                allowed=str(FORMAT),
                got=shown(written),
                fix="update Sitta, or " + EXPORT_AGAIN,
            )
        return cls._checked(path, values)

    @classmethod
    def _checked(cls, path: str, values: Mapping[str, Any]) -> Manifest:
        kinds = {"method": str, "settings": dict, "lambdas": list, "activation": str, "card": dict}
        wrong = [name for name, kind in kinds.items() if not isinstance(values.get(name), kind)]
        if not wrong and not all(LAMBDA.accepts(lam) for lam in values["lambdas"]):
            wrong = ["lambdas"]
        if not MULTIPLE.accepts(values.get("multiple", 1)):
            wrong.append("multiple")
        if not wrong and _trained(values) not in (None, *range(len(values["lambdas"]))):
            wrong.append("trained")
        if wrong or values["activation"] not in ("sigmoid", "softmax"):
            raise UnsupportedModel(
                f"{path} does not tell its {', '.join(wrong) or 'activation'}.", fix=EXPORT_AGAIN
            )
        check_card(values["card"], path)
        return cls(
            version=str(values.get("version", "")),
            lambdas=tuple(map(float, values["lambdas"])),
            multiple=values.get("multiple", 1),
            trained=_trained(values),
            **{name: values[name] for name in kinds if name != "lambdas"},
        )


def _trained(values: Mapping[str, Any]) -> Any:
    """Which member is the model as trained: in files of older versions, the first at lambda 1."""
    at = [k for k, lam in enumerate(values["lambdas"]) if lam == 1]
    return values.get("trained", at[0] if at else None)


def _same(one: Any, other: Any) -> bool:
    """Whether two settings are equal, also if one of them went through JSON."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, abs_tol=1e-9)
    return bool(one == other)
