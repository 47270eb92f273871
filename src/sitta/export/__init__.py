"""InTEnt as one ONNX graph, for machines without torch."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitta._version import __version__
from sitta.errors import InvalidSetting, MissingExtra, UnsupportedModel

if TYPE_CHECKING:
    from torch import nn

    from sitta.adaptation import InTEnt
    from sitta.data import Preprocess
    from sitta.twin import Output

__all__ = ["Exported", "export_onnx"]

NEEDED = ("onnx", "onnxscript", "onnxruntime")
NOT_KEPT = ("members_at_once", "rho")  # settings that mean nothing in a graph
LIMIT = 2**31  # bytes of a file in the format of ONNX


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: The file.
        size: In bytes.
        nodes: Of the graph.
        multiple: Sides of images must be multiples of this; 1 if any will do.
        difference: The largest one between the file on onnxruntime and torch.
        compared: Shapes of the images on which they were compared.
    """

    path: Path
    size: int
    nodes: int
    multiple: int
    difference: float
    compared: tuple[tuple[int, ...], ...]

    def as_dict(self) -> dict[str, Any]:
        """In plain types."""
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        where = ", ".join("x".join(map(str, shape)) for shape in self.compared)
        takes = "any sides" if self.multiple == 1 else f"sides in multiples of {self.multiple}"
        return (
            f"{self.path}: {self.size / 1e6:.1f} MB, {self.nodes} nodes, takes {takes}\n"
            f"the same as torch on onnxruntime: within {self.difference:.1g} at {where}"
        )


def export_onnx(
    model: nn.Module,
    path: str | Path,
    *,
    card: Mapping[str, Any] | None = None,
    preprocess: Preprocess | Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    channels: int | None = None,
    multiple: int | None = None,
    output: Output = None,
    winograd: bool = True,
    overwrite: bool = False,
    **settings: Any,
) -> Exported:
    """Write InTEnt on a model as one ONNX file: all members, weights and trust inside.

    The file takes preprocessed images ``image`` ``(N, C, *S)`` of any number and size, and computes
    all that ``Prediction`` has. It is run once on onnxruntime before it gets its name: if anything
    differs from torch by more than 1e-4, there is no file.

    Args:
        model: Any network with BatchNorm; it is only read.
        path: Where to, ``.onnx``.
        card: What else the file shall say about the model; added to ``model.card``, if it has one.
        preprocess: What the model takes, for ``sitta predict``; that of the card if not given.
        classes: Names of the classes, background first; those of the card if not given, and numbers
            if the card has none that fit.
        channels: Of an image, if the first convolution does not tell.
        multiple: What sides must be multiples of; found out if None.
        output: Where the logits are in what the model returns.
        winograd: Whether to write convolutions of many channels with fewer products, for CPUs;
            libraries for GPUs have such schemes of their own.
        overwrite: Whether to replace a file.
        **settings: Of ``InTEnt``: ``step``, ``lambdas``, ``strategy``, ``statistics``,
            ``variance``, ``topk``, ``ties``, ``empty``, ``activation``.

    Returns:
        What was written, and how far it is from torch.

    Raises:
        InvalidSetting: A strategy that needs gradients, a setting that a graph has no use for,
            another number of classes than the model has, or a file that is there already.
        UnsupportedModel: The model cannot be traced.
        SittaError: The graph differs from torch.
        MissingExtra: onnx, onnxscript or onnxruntime are not installed.

    Example:
        >>> import sitta
        >>> sitta.export_onnx(sitta.load("phantom-alder"), "out.onnx")      # doctest: +SKIP
    """
    path = Path(path)
    require(path, overwrite)
    useless = [name for name in NOT_KEPT if name in settings]
    if useless:
        raise InvalidSetting(f"A graph has no use for {', '.join(useless)}.", fix="leave it out")
    from sitta.adaptation import InTEnt
    from sitta.export.build import Choices, write

    method = InTEnt(model, output=output, **settings)
    told = _told(model, card, preprocess, classes)
    named = classes is not None
    return write(method, path, Choices(told, channels, multiple, named, winograd))


def require(path: Path, overwrite: bool) -> None:
    """Refuse what cannot end well before anything is computed."""
    if not all(map(_is_there, NEEDED)):
        raise MissingExtra("Writing ONNX", "onnx")
    if path.suffix.lower() != ".onnx":
        raise InvalidSetting("The name of the file does not end in .onnx.", got=str(path))
    if path.exists() and not overwrite:
        raise InvalidSetting(
            f"{path} is there already.", fix="choose another name, or overwrite it (--overwrite)"
        )


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a module that was put in its place
        return False


def _told(
    model: nn.Module,
    card: Mapping[str, Any] | None,
    preprocess: Preprocess | Mapping[str, Any] | None,
    classes: Sequence[str] | None,
) -> dict[str, Any]:
    """The card of the file."""
    known = getattr(model, "card", None)
    found = {**(known if isinstance(known, dict) else {}), **(card or {})}
    if preprocess is not None:
        found["preprocess"] = (
            dict(preprocess) if isinstance(preprocess, Mapping) else preprocess.as_dict()
        )
    if classes is not None:
        found["classes"] = list(classes)
    try:
        plain: dict[str, Any] = json.loads(json.dumps(found))
    except (TypeError, ValueError) as error:
        raise InvalidSetting(
            f"The card cannot be written as JSON ({error}).", allowed="plain numbers, text, lists"
        ) from error
    return plain


def about(method: InTEnt, activation: str, multiple: int, card: Mapping[str, Any]) -> str:
    """What the file says about itself, as ``runs.manifest`` reads it."""
    from sitta.settings import rules

    settings = {name: getattr(method, name) for name in rules(method) if name not in NOT_KEPT}
    told = {"format": 1, "version": __version__, "method": method.name, "settings": settings}
    told |= {"lambdas": method.grid, "activation": activation, "multiple": multiple}
    return json.dumps({**told, "card": dict(card)})


def require_small(parameters: int) -> None:
    """Refuse a network that one file cannot hold."""
    if parameters * 4 >= LIMIT:
        raise UnsupportedModel(
            "The model is too large for one ONNX file.",
            allowed=f"{LIMIT // 4:,} parameters",
            got=f"{parameters:,}",
        )
