"""Whether a profile describes its model: it is loaded, fed with an image, and looked at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitta._util.settings import constraints
from sitta.data.image import Array
from sitta.data.preprocess import Preprocess
from sitta.errors import SittaError
from sitta.inference.backends.onnx import Graph
from sitta.inference.contact import first_contact, noise
from sitta.inference.loading import Loaded, load_model
from sitta.inference.request import Request
from sitta.models.profile.record import changed

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # means and standard deviations
LEAST = 0.02  # nats: a scale that is closer by less may be so by chance
CLEAR = 0.5  # of the distance of the profile's own scale: a scale that is this much closer


@dataclass(frozen=True)
class Findings:
    """What a look at a model showed."""

    facts: dict[str, str]  # in the order in which they were found out
    warnings: tuple[str, ...]  # what may be wrong

    def as_dict(self) -> dict[str, Any]:
        """In plain types."""
        return {"facts": self.facts, "warnings": list(self.warnings)}


def check(name: str, path: str | Path | None = None) -> Findings:
    """Load a model by its profile, and take one image all the way: an error says what is wrong.

    Without an image, noise of the size that the model takes stands for one.
    """
    loaded = load_model(name)
    values = noise(loaded) if path is None else _values(loaded.preprocess, path)
    warnings = first_contact(loaded, values, loaded.profile.window)
    facts = {
        "network": type(loaded.model).__name__,
        "input": f"{values.shape[1]} x {' x '.join(map(str, values.shape[2:]))}, values "
        f"{values.min():.3g} to {values.max():.3g}",
        "classes": ", ".join(loaded.classes),
    }
    if not isinstance(loaded.model, Graph):
        import sitta

        inspection = sitta.inspect(loaded.model)
        facts["layers"] = str(inspection.census)
        facts["methods"] = ", ".join(inspection.applies)
        warnings += inspection.warnings
        warnings += _about_idle_layers(loaded)
        if not inspection.applies or "intent" not in inspection.applies:
            return Findings(facts, tuple(warnings))
    record = loaded.adapter(Request(name))(values[:1])
    shares = [f"{float(area):.1%}" for area in record.area]
    facts["mask"] = f"{shares[0]} foreground" + ("" if path else " (of noise)")
    if path is not None and not isinstance(loaded.model, Graph):
        facts |= {"distance": f"{float(record.distance[0]):.3g} nats from the training statistics"}
        warnings += _better_scale(loaded, path, float(record.distance[0]))
    return Findings(facts, tuple(warnings))


def about_scale(loaded: Loaded, path: str | Path) -> list[str]:
    """Whether another scale brings an in-domain image much closer to the training statistics."""
    if isinstance(loaded.model, Graph) or not loaded.profile.factory:
        return []
    try:
        record = loaded.adapter(Request("", "source", {"lam": 0.0}))(
            _values(loaded.preprocess, path)[:1]
        )
    except SittaError:  # no layers that keep statistics: nothing to compare with
        return []
    return _better_scale(loaded, path, float(record.distance[0]))


def _about_idle_layers(loaded: Loaded) -> tuple[str, ...]:
    from sitta.inference.probe import idle_warning

    model: Any = loaded.model
    return idle_warning(model, loaded.preprocess)


def _values(inputs: Preprocess, path: str | Path) -> Array:
    from sitta.data.images import read

    return inputs.apply(read(Path(path))).values


def _better_scale(loaded: Loaded, path: str | Path, own: float) -> list[str]:
    """A way of scaling that brings the image much closer to the network's own statistics.

    An image of the source is close under the right one; one of another domain may not be.
    """
    far = {loaded.preprocess.scale: own}
    for label, how in _scales(loaded.preprocess).items():
        try:
            values = _values(changed(loaded.preprocess, how), path)
            record = loaded.adapter(Request("", "source", {"lam": 0.0}))(values[:1])
        except SittaError:  # it needs more settings than the profile has
            continue
        far[label] = float(record.distance[0])
    best = min(far, key=lambda name: far[name])
    if not (far[best] < CLEAR * own and own - far[best] > LEAST):
        return []
    told = ", ".join(f"{name} {nats:.3g}" for name, nats in sorted(far.items(), key=lambda p: p[1]))
    return [
        f"With scale {best} the image is much closer to the training statistics of the network "
        f"(nats: {told}). If the image is of the kind it was trained on, scale is wrong."
    ]


def _scales(inputs: Preprocess) -> dict[str, dict[str, Any]]:
    """Ways of scaling to try, by what a command line would say."""
    (_, rule), half = constraints(Preprocess)["scale"], (0.5,) * inputs.channels
    ways: dict[str, dict[str, Any]] = {each: {"scale": each} for each in rule.choices}
    del ways["standardise"]  # it takes numbers, of which two kinds are common
    ways["standardise to -1 and 1"] = {"scale": "standardise", "mean": half, "std": half}
    if inputs.channels == len(IMAGENET[0]):
        mean, std = IMAGENET
        numbers = "mean 0.485,0.456,0.406, std 0.229,0.224,0.225"
        ways[f"standardise as for ImageNet ({numbers})"] = {
            "scale": "standardise",
            "mean": mean,
            "std": std,
        }
    return ways
