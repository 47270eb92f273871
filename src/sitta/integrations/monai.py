"""MONAI: an inferer that adapts a network to each image, and a bundle that uses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from monai.inferers import Inferer, sliding_window_inference
from monai.utils import fall_back_tuple
from torch import Tensor, nn

from sitta._util.files import atomic_write
from sitta.adaptation import method as method_of
from sitta.adaptation.adapt import Adapt
from sitta.adaptation.base import Method
from sitta.adaptation.sliding_window import windowed
from sitta.adaptation.source import GridMethod
from sitta.core.twin import unwrap
from sitta.errors import InvalidSetting, UnsupportedModel
from sitta.integrations.logits import to_logits
from sitta.prediction.prediction import Prediction

RETURNS = ("logits", "probability")
CONFIGS = ("metadata.json", "inference.json")
OF_NETWORK = ("source_statistics", "calibration", "profile")  # settings that fit one network alone


class SittaInferer(Inferer):  # type: ignore[misc]  # MONAI has no complete types
    """Runs a network adapted to each image of a batch by itself, in place of MONAI's inferers.

    What comes back has the shape and the meaning of the network's own output, so that transforms
    after it stay as they are: ``Activations`` gives the integrated probabilities. MetaTensors keep
    their affine and their applied operations.

    Attributes:
        prediction: The last ``Prediction``, with trust scores and notes; None before the first
            call, and after windows that each were an image of their own.

    Args:
        method: Name of one of ``sitta.methods()``.
        roi_size: Sides of a sliding window; the whole image if None, or where a side is not
            positive.
        overlap: Share of a window's sides that its neighbour covers too.
        statistics: Of the whole ``volume`` for all its windows, or of each ``window``. Methods that
            take gradients or views can go window by window only.
        returns: ``logits`` (log-probabilities for several classes), or ``probability``.
        **settings: Of the method, such as ``strategy``; also ``activation`` and ``output``.

    Example:
        >>> import sitta, torch
        >>> inferer = SittaInferer(roi_size=(16, 16), strategy="average")
        >>> inferer(torch.rand(2, 1, 24, 24), sitta.load("phantom-alder")).shape
        torch.Size([2, 1, 24, 24])
    """

    def __init__(
        self,
        method: str = "intent",
        roi_size: Sequence[int] | int | None = None,
        overlap: float = 0.25,
        statistics: str = "volume",
        returns: str = "logits",
        **settings: Any,
    ) -> None:
        if returns not in RETURNS:
            raise InvalidSetting(
                "There is no such output.", allowed=", ".join(RETURNS), got=repr(returns)
            )
        self.method, self.roi_size, self.overlap = method, roi_size, overlap
        self.statistics, self.returns, self.settings = statistics, returns, settings
        self.prediction: Prediction | None = None
        self._adapt = self._checked()

    def __call__(self, inputs: Tensor, network: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Logits or probabilities ``(N, C, *S)`` of images ``(N, C, *S)``.

        More arguments go to the network in every pass, as they are: they must suit any number of
        rows, as members and images share a pass.
        """
        adapt = self._fitted(network, args, kw)
        with torch.no_grad():
            if self.roi_size is None:
                return self._output(adapt(inputs))
            window = fall_back_tuple(self.roi_size, inputs.shape[2:])
            shares = isinstance(adapt, GridMethod) and not adapt.needs_own_passes
            if shares or isinstance(adapt, Adapt):
                how: Any = {"statistics": self.statistics, "overlap": self.overlap}
                return self._output(windowed(adapt, window, **how)(inputs))
            return self._each_window(adapt, inputs, window)

    def _method(self, network: nn.Module) -> Method:
        return method_of(self.method, network, **self.settings)

    def _checked(self) -> Method:
        """The method on a network of no use, which refuses wrong settings before any image."""
        fits = {k: v for k, v in self.settings.items() if k not in OF_NETWORK}
        return method_of(self.method, nn.BatchNorm2d(1), **fits)

    def _fitted(self, network: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Method:
        """The method on this network, kept until another one comes."""
        if not isinstance(network, nn.Module):
            raise UnsupportedModel(
                "The network is not a torch.nn.Module.", got=type(network).__name__
            )
        if args or kw:
            return self._method(_Called(network, args, kw))
        if self._adapt.model is not network:
            self._adapt = self._method(network)
        return self._adapt

    def _output(self, prediction: Prediction) -> Tensor:
        self.prediction = prediction
        p, activation = prediction.probability, prediction.activation
        return p if self.returns == "probability" else to_logits(p, activation)

    def _each_window(self, adapt: Method, inputs: Tensor, window: Sequence[int]) -> Any:
        """Windows as images of their own, their probabilities averaged where they overlap."""
        if self.statistics != "window":
            raise InvalidSetting(
                f"{adapt.title} cannot go window by window under statistics of the volume.",
                allowed="statistics='window', or method source, intent or adapt",
                got=f"statistics={self.statistics!r}",
            )
        kinds: set[Any] = set()

        def predict(part: Tensor) -> Tensor:
            p = adapt(part)
            kinds.add(p.activation)
            return p.probability

        how: Any = {"overlap": self.overlap, "mode": "gaussian"}
        stitched = sliding_window_inference(inputs, window, 1, predict, **how)
        self.prediction = None
        return stitched if self.returns == "probability" else to_logits(stitched, kinds.pop())


class _Called(nn.Module):
    """A network that is called with more than the image."""

    def __init__(self, network: nn.Module, args: tuple[Any, ...], kw: dict[str, Any]) -> None:
        super().__init__()
        inner: Any = unwrap(network)
        self.network, self.args, self.kw = inner, args, kw
        for name in ("card", "profile"):  # what the network brings along
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self.training = inner.training  # not train(): that would change the user's network

    def forward(self, x: Tensor) -> Any:
        """The network's own result."""
        return self.network(x, *self.args, **self.kw)


def write_bundle(folder: str | Path, **changes: Any) -> Path:
    """Write a MONAI bundle that adapts a network to every volume of a folder.

    ``python -m monai.bundle run --bundle_root FOLDER --config_file ... --meta_file ...`` runs it.
    ``changes`` replace top-level entries of ``inference.json``, such as ``network`` or
    ``dataset_dir``. A file that is there already is left as it is, with an error.

    Returns:
        The folder of the two configurations.
    """
    configs = Path(folder) / "configs"
    there = [name for name in CONFIGS if (configs / name).exists()]
    if there:
        raise InvalidSetting(
            f"{configs} holds {', '.join(there)} already.", fix="choose another folder"
        )
    source = resources.files("sitta.integrations") / "bundle"
    configs.mkdir(parents=True, exist_ok=True)
    for name in CONFIGS:
        about = json.loads((source / name).read_text(encoding="utf-8"))
        if name == "inference.json":
            unknown = [key for key in changes if key not in about]
            if unknown:
                raise InvalidSetting(
                    f"inference.json has no entry {', '.join(unknown)}.", allowed=", ".join(about)
                )
            about |= changes
        with atomic_write(configs / name) as draft:
            draft.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return configs
