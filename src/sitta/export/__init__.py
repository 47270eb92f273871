"""InTEnt as one ONNX graph, for machines without torch."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitta._util.deprecation import EXPORT_WINOGRAD
from sitta._util.names import unknown_name
from sitta.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from torch import nn

    from sitta.core.returned import Output
    from sitta.data import Preprocess
    from sitta.export.build import Exported

__all__ = ["export_onnx"]

NEEDED = ("onnx", "onnxscript", "onnxruntime")


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
    target: str = "cpu",
    shape: Sequence[int] | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> Exported:
    """Write InTEnt on a model as one ONNX file: all members, weights and trust inside.

    The file takes preprocessed images ``image`` ``(N, C, *S)`` of any number and size, and computes
    all that ``Prediction`` has. Before it gets its name it is run on onnxruntime, at the size and
    in the range of the model's preprocessing: if a probability differs from torch by more than
    5e-4, or the mask in more than one pixel in 10,000, there is no file.

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
        target: ``cpu`` writes convolutions of many channels with fewer products (Winograd);
            ``any`` leaves them to the runtime, as is best on a GPU.
        shape: Sides of an image to compare with torch on; those of the preprocessing if None.
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
    from sitta.adaptation import InTEnt
    from sitta.export.build import NOT_KEPT, write
    from sitta.export.passes import TARGETS

    if "winograd" in settings:
        EXPORT_WINOGRAD.warn()
        target = "cpu" if settings.pop("winograd") else "any"
    useless = [name for name in NOT_KEPT if name in settings]
    if useless:
        raise InvalidSetting(f"A graph has no use for {', '.join(useless)}.", fix="leave it out")
    if target not in TARGETS:
        raise unknown_name("target", target, TARGETS)
    method = InTEnt(model, output=output, **settings)
    how: Any = {"channels": channels, "multiple": multiple, "target": target, "shape": shape}
    card = _card(model, card, preprocess, classes)
    return write(method, path, card, named=classes is not None, **how)


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


def _card(
    model: nn.Module,
    card: Mapping[str, Any] | None,
    preprocess: Preprocess | Mapping[str, Any] | None,
    classes: Sequence[str] | None,
) -> dict[str, Any]:
    """The card of the file."""
    own = getattr(model, "card", None)
    whole = {**(own if isinstance(own, dict) else {}), **(card or {})}
    if preprocess is not None:
        plain = dict(preprocess) if isinstance(preprocess, Mapping) else preprocess.as_dict()
        whole["preprocess"] = plain
    if classes is not None:
        whole["classes"] = list(classes)
    if isinstance(whole.get("profile"), dict):  # the graph has output and activation, no windows
        told = whole["profile"].items()
        whole["profile"] = {k: v for k, v in told if k not in ("model", "inference")}
    try:
        return dict(json.loads(json.dumps(whole)))
    except (TypeError, ValueError) as error:
        raise InvalidSetting(
            f"The card cannot be written as JSON ({error}).", allowed="plain numbers, text, lists"
        ) from error
