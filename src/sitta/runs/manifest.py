"""What the file of ``sitta export`` says about itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.runs.plan import Plan

KEY, FORMAT = "sitta", 1
AGAIN = "export the model again: sitta export MODEL out.onnx"
CHECKPOINT = "give the checkpoint that it was exported from"


@dataclass(frozen=True)
class Manifest:
    """The metadata of an ONNX file.

    Attributes:
        version: Of Sitta, that wrote it.
        method: What is inside, such as ``intent``.
        settings: Of the method.
        lambdas: One for each member.
        activation: How logits became probabilities.
        card: All that the checkpoint said: source, preprocessing, classes, limits of trust.
        multiple: What the sides of an image must be multiples of.
    """

    version: str
    method: str
    settings: dict[str, Any]
    lambdas: tuple[float, ...]
    activation: str
    card: dict[str, Any]
    multiple: int = 1

    @property
    def built_in(self) -> dict[str, Any]:
        """Every setting that cannot be changed any more."""
        found = {name: value for name, value in self.settings.items() if value is not None}
        if "lambdas" in found:  # they were given themselves, in place of a grid
            found.pop("step", None)
        return found | {"lambdas": list(self.lambdas), "activation": self.activation}

    def holds(self, name: str, value: Any) -> bool:
        """Whether a setting says the same as the file, if it says anything."""
        known = self.built_in
        if name == "activation" and value == self.settings.get(name):
            return True  # such as auto, which became one or the other
        return name in known and _same(known[name], value)

    def require(self, name: str, plan: Plan) -> None:
        """Refuse a plan that asks for something else than the file of that name holds.

        Raises:
            InvalidSetting: Another method or setting, a window, or another device than the CPU.
        """
        if plan.method != self.method:
            raise InvalidSetting(
                f"{name} holds the method {self.method}, and no other.",
                allowed=self.method,
                got=plan.method,
                fix=CHECKPOINT,
            )
        for setting, value in plan.settings.items():
            if not self.holds(setting, value):
                raise self._refusal(name, setting, value)
        if plan.window is not None:
            raise InvalidSetting(
                f"{name} takes each input whole: no window slides over it.", fix=CHECKPOINT
            )
        if plan.device not in ("auto", "cpu"):
            raise InvalidSetting(
                f"{name} runs on the CPU here.",
                allowed="auto, cpu",
                got=plan.device,
                fix=CHECKPOINT,
            )

    def _refusal(self, name: str, setting: str, value: Any) -> InvalidSetting:
        known = self.built_in
        if setting not in known:
            return InvalidSetting(
                f"{name} holds no setting {setting!r}.",
                allowed=", ".join(f"{k}={v}" for k, v in known.items()),
                fix=f"leave it out, or {AGAIN}, with it",
            )
        option = f" --{setting} {value}" if setting in ("step", "strategy") else f", with {setting}"
        return InvalidSetting(
            f"{name} was exported with {setting}={known[setting]}, which is part of the graph.",
            allowed=f"{setting}={known[setting]}",
            got=f"{setting}={value}",
            fix=f"leave it out, or {AGAIN}{option}",
        )

    @classmethod
    def read(cls, path: str, metadata: Mapping[str, str]) -> Manifest:
        """From the properties of a file, which may come from anyone.

        Raises:
            UnsupportedModel: Another program or another version wrote it.

        Example:
            >>> Manifest.read("net.onnx", {})
            Traceback (most recent call last):
            sitta.errors.UnsupportedModel: net.onnx does not say how to use it...
        """
        if KEY not in metadata:
            raise UnsupportedModel(
                f"{path} does not say how to use it: another program than Sitta wrote it.",
                allowed="an .onnx file that sitta export has written",
                fix="sitta export MODEL out.onnx, from the checkpoint or your own network",
            )
        try:
            found = json.loads(metadata[KEY])
        except json.JSONDecodeError as error:
            raise UnsupportedModel(
                f"What {path} says about itself cannot be read ({error}).", fix=AGAIN
            ) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            kept = found.get("format") if isinstance(found, dict) else None
            raise UnsupportedModel(
                f"{path} has a format that this version does not know.",
                allowed=str(FORMAT),
                got=str(kept),
                fix="update Sitta, or " + AGAIN,
            )
        return cls._checked(path, found)

    @classmethod
    def _checked(cls, path: str, found: Mapping[str, Any]) -> Manifest:
        kinds = {"method": str, "settings": dict, "lambdas": list, "activation": str, "card": dict}
        wrong = [name for name, kind in kinds.items() if not isinstance(found.get(name), kind)]
        if not wrong and not all(isinstance(lam, int | float) for lam in found["lambdas"]):
            wrong = ["lambdas"]
        if wrong or found["activation"] not in ("sigmoid", "softmax"):
            raise UnsupportedModel(
                f"{path} does not tell its {', '.join(wrong) or 'activation'}.", fix=AGAIN
            )
        return cls(
            version=str(found.get("version", "")),
            method=found["method"],
            settings=found["settings"],
            lambdas=tuple(float(lam) for lam in found["lambdas"]),
            activation=found["activation"],
            card=found["card"],
            multiple=max(1, int(found.get("multiple", 1))),
        )


def _same(one: Any, other: Any) -> bool:
    """Whether two settings are equal, also if one of them went through JSON."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, abs_tol=1e-9)
    return bool(one == other)
