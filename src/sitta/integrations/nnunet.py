"""nnU-Net: its predictor, with the network adapted to each case.

Loading, preprocessing, folds, mirroring, resampling and export stay nnU-Net's own; one method
is replaced, the one that takes a network over a case window by window.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sitta._util.process import OnProgress
from sitta.adaptation import method as method_of
from sitta.adaptation.sliding_window import Windowed, depths_of, require_windowed
from sitta.adaptation.source import GridMethod, Source
from sitta.core.accel import budget
from sitta.core.calibrated_statistics import measure_statistics
from sitta.core.capture import CapturedStatistics
from sitta.core.entropy import probabilities
from sitta.core.twin import Twin
from sitta.errors import InvalidSetting, MissingExtra
from sitta.integrations.logits import to_logits
from sitta.integrations.stand_ins import stand_in
from sitta.prediction.calibration import Calibration
from sitta.prediction.prediction import RawPrediction

Slices = Sequence[tuple[Any, ...]]
OF_FOLD = ("source_statistics", "calibration", "profile")  # settings that fit one fold alone
NO_CLASSES = ("background", "ignore")  # among the labels of a dataset.json
MOST_WINDOWS = 24  # that a calibration looks at
NEEDS = "A model of nnU-Net (docs/how-to/nnunet.md has the installation)"


@contextmanager
def quiet() -> Iterator[None]:
    """Without what nnU-Net prints: about variables of training, and progress of its own."""
    with redirect_stdout(io.StringIO()):
        yield


MISSING = ""  # the package without which nnU-Net cannot be imported
try:
    with quiet():
        from acvl_utils.cropping_and_padding.padding import pad_nd_image
        from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
        from nnunetv2.inference.sliding_window_prediction import compute_gaussian
    if find_spec("timm") is None:  # an architecture that asks for it, kept from being asked again
        with stand_in("timm"), suppress(ImportError):
            import_module("dynamic_network_architectures.architectures.primus")
except ModuleNotFoundError as error:  # not raised here: whoever lists modules imports this one
    nnUNetPredictor, MISSING = object, error.name or "nnunetv2"  # noqa: N816


class SittaPredictor(nnUNetPredictor):  # type: ignore[misc]  # nnU-Net has no types
    """nnU-Net's predictor under mixed statistics, for networks with BatchNorm.

    It returns log-probabilities, or logits for region heads, so that nnU-Net's own nonlinearity
    gives the integrated map. Members are computed and added up in float32. The method ``source``
    has none to mix: its logits are those of nnU-Net's own method, to the last bit.

    Attributes:
        predictions: What was computed of the last case, one ``RawPrediction`` for each fold, in
            nnU-Net's own geometry: cropped and resampled.

    Args:
        method: ``intent``, ``adapt`` or ``source``.
        settings: Of the method, such as ``{"step": 0.5}``.
        statistics: Of the whole case (``volume``), pooled over its windows, one set for each
            mirrored view; or of each ``window``.
        **how: Of ``nnUNetPredictor``, such as ``use_mirroring`` and ``device``.
    """

    def __init__(
        self,
        *,
        method: str = "intent",
        settings: Mapping[str, Any] | None = None,
        statistics: str = "volume",
        device: torch.device | None = None,
        **how: Any,
    ) -> None:
        if MISSING:
            raise MissingExtra(NEEDS, "nnunet", MISSING)
        if statistics not in ("volume", "window"):
            raise InvalidSetting(
                "Wrong statistics of a case.", allowed="volume, window", got=repr(statistics)
            )
        device = device or torch.device("cpu")
        with quiet():
            super().__init__(device=device, **{"allow_tqdm": False, **how})
        self.method, self.settings, self.statistics = method, dict(settings or {}), statistics
        self.predictions: list[RawPrediction] = []
        self._adapt: Windowed | None = None
        self._case: Any = None

    @torch.inference_mode()
    def predict_sliding_window_return_logits(self, input_image: Tensor) -> Tensor:
        """Log-probabilities (logits of regions) ``(C, *S)`` of a case ``(channels, *S)``."""
        self.network: Any = self.network.to(self.device).eval()
        adapt = self._fitted()
        if isinstance(adapt, Source) and adapt.lam == adapt.trained_lambda:
            return self._as_trained(adapt, input_image)
        patch = self.configuration_manager.patch_size
        data, inside = pad_nd_image(input_image, patch, "constant", {"value": 0}, True, None)
        slices = self._internal_get_sliding_window_slicers(data.shape[1:])
        weight: Any = 1.0
        if self.use_gaussian:
            how: Any = {"sigma_scale": 1 / 8, "value_scaling_factor": 10}
            # In half precision, as nnU-Net weighs windows; corners there have its smallest number.
            weight = compute_gaussian(tuple(patch), **how, device=torch.device("cpu")).float()
        with adapt._twins.borrow() as twin:
            case = _Case(adapt, twin, data.float(), slices, self._views(), weight)
            logits, distance = case.members(self.statistics == "volume", self.device)
            logits = logits[:, :, :, *inside[1:]]  # (K, 1, C, *S)
            image = input_image.float()[None].cpu()
            raw = adapt._integrated(twin, image, adapt.members(logits, distance))
        self._keep(raw, input_image)
        # A member alone keeps its logits, which say more than single precision does near 0 and 1.
        alone = len(logits) == 1
        return logits[0, 0] if alone else to_logits(raw.probability, raw.activation)[0]

    def _as_trained(self, adapt: Source, case: Tensor) -> Tensor:
        """nnU-Net's own logits, in its own precision."""
        logits: Tensor = super().predict_sliding_window_return_logits(case)
        member = logits.float().cpu()[None, None]  # (K, N, C, *S)
        members = adapt.members(member, torch.full((1,), torch.nan))
        with adapt._twins.borrow() as twin:
            self._keep(adapt._integrated(twin, case.float()[None].cpu(), members), case)
        return logits

    def _keep(self, raw: RawPrediction, case: Tensor) -> None:
        """One more fold of a case, or the first of the next one."""
        if case is not self._case or len(self.predictions) == len(self.list_of_parameters):
            self.predictions, self._case = [], case
        self.predictions.append(raw)

    def measure(self, cases: Iterable[Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
        """Statistics of layers that keep none, over the windows of preprocessed in-domain cases.

        For ``settings={"source_statistics": ...}``; of the fold that is loaded.
        """
        return measure_statistics(self.network.to(self.device), self._windows(cases))

    def calibrate(
        self, cases: Iterable[Tensor], watch: OnProgress = lambda done, total: None
    ) -> Calibration:
        """What Adapt gains in-domain, and statistics as ``measure`` gives them, of the loaded fold.

        For ``method="adapt"`` and ``settings={"calibration": ...}``. At most 24 windows of the
        preprocessed cases serve as images: there is no expected Dice and no shape of a whole case.
        """
        from sitta.calibration.calibrate import calibrate

        cut = [(f"case {n}", w) for n, case in enumerate(cases) for w in self._windows([case])]
        places = np.linspace(0, len(cut) - 1, min(len(cut), MOST_WINDOWS)).round().astype(int)
        subjects, windows = zip(*(cut[place] for place in places), strict=True)
        kind = "sigmoid" if self.label_manager.has_regions else "softmax"
        names = [n for n in self.dataset_json["labels"] if n not in NO_CLASSES]
        how: Any = {"subjects": subjects, "classes": names, "activation": kind, "watch": watch}
        found = calibrate(self.network.to(self.device), torch.stack(windows), **how)
        classes = (replace(c, prior=None, dice=None, limit=None) for c in found.classes)
        return replace(found, classes=tuple(classes), inputs=None, limit=None)

    def _windows(self, cases: Iterable[Tensor]) -> list[Tensor]:
        patch, windows = self.configuration_manager.patch_size, list[Tensor]()
        for case in cases:
            data, _ = pad_nd_image(case, patch, "constant", {"value": 0}, True, None)
            cuts = self._internal_get_sliding_window_slicers(data.shape[1:])
            windows += [data[cut].float() for cut in cuts]
        return windows

    def _fitted(self) -> Windowed:
        """The method on this network; its twin shares the tensors that each fold is loaded into."""
        if self._adapt is None or self._adapt.model is not self.network:
            activation = "sigmoid" if self.label_manager.has_regions else "softmax"
            settings = {**self.settings, "activation": activation}
            measured = [name for name in OF_FOLD if settings.get(name)]
            if len(self.list_of_parameters) > 1 and measured:
                raise InvalidSetting(
                    f"{measured[0]} belongs to the weights of one fold.",
                    got=f"{len(self.list_of_parameters)} folds",
                    fix="predict with the fold that they were measured on",
                )
            self._adapt = require_windowed(method_of(self.method, self.network, **settings))
        return self._adapt

    def _views(self) -> list[tuple[int, ...]]:
        """Axes to flip a window ``(N, C, *S)`` along: none, then each combination."""
        axes = self.allowed_mirroring_axes if self.use_mirroring else None
        numbers = [axis + 2 for axis in axes or ()]
        counts = range(len(numbers) + 1)
        return [c for n in counts for c in itertools.combinations(numbers, n)]


class _Case:
    """One case, its windows and its mirrored views."""

    def __init__(
        self,
        adapt: Windowed,
        twin: Twin,
        data: Tensor,
        slices: Slices,
        views: Sequence[tuple[int, ...]],
        weight: Any,
    ) -> None:
        self.adapt, self.twin, self.data, self.slices = adapt, twin, data, slices
        self.views, self.weight = views, weight
        self.lambdas = torch.tensor(adapt.grid, dtype=torch.float64)

    def members(self, pools: bool, device: torch.device) -> tuple[Tensor, Tensor]:
        """Logits ``(K, 1, C, *S)``, averaged over views and windows, and the distance ``(1,)``."""
        if isinstance(self.adapt, GridMethod):
            pools = pools and self.adapt.rows.captured
        # What normalises by itself sees a window as it was trained on one.
        pools = pools and not self.adapt.source_statistics
        total, distances = None, []
        count = torch.zeros(self.data.shape[1:])
        for view in self.views:
            captured = self._capture(view, device) if pools else None
            if captured is not None:
                distances.append(self.twin.distance_of(captured).cpu())
            for cut in self.slices:
                logits = self._run(self._window(cut, view, device), captured)  # (K, 1, C, *w)
                if captured is None:
                    distances.append(self.twin.distance.cpu())
                logits = _flipped(logits.flatten(0, 1), view).unflatten(0, logits.shape[:2]).cpu()
                if total is None:
                    total = torch.zeros(*logits.shape[:3], *self.data.shape[1:])
                total[:, :, *cut] += logits * self.weight
                count[cut[1:]] += self.weight
        assert total is not None  # noqa: S101  (a case has a window)
        return total.div_(count), torch.stack(distances).mean(dim=0)

    def _window(self, cut: tuple[Any, ...], view: tuple[int, ...], device: torch.device) -> Tensor:
        return _flipped(self.data[cut][None].to(device), view)

    def _capture(self, view: tuple[int, ...], device: torch.device) -> CapturedStatistics:
        """Statistics of the whole case, from windows each run under its own."""
        zero, windows = torch.zeros(1, dtype=torch.float64), []
        for cut in self.slices:
            captured = CapturedStatistics()
            how: Any = {"unbiased": self.adapt.how["unbiased"], "captured": captured}
            self.twin.run(self._window(cut, view, device), zero, pool="first", **how)
            windows.append(captured)
        return CapturedStatistics.pooled(windows)

    def _run(self, window: Tensor, captured: CapturedStatistics | None) -> Tensor:
        if captured is None:
            return self._alone(window)
        how: Any = {"unbiased": self.adapt.how["unbiased"], "captured": captured}
        how |= {"pool": "first", "same_rows": True}
        at_once, depths = self._at_once(window), self.adapt.depths(len(captured))
        firsts = range(0, len(self.lambdas), at_once)
        parts = [slice(first, first + at_once) for first in firsts]
        return torch.cat(
            [
                self.twin.run(window, self.lambdas[p], depths=depths and depths[p], **how)
                for p in parts
            ]
        )

    def _alone(self, window: Tensor) -> Tensor:
        """Members of a window that is an image of its own."""
        from sitta.core.members import member_logits_chunked

        how: Any = {"at_once": self.adapt.members_at_once, **self.adapt.how}
        how["depths"] = depths_of(self.adapt, self.twin, window)
        return member_logits_chunked(self.twin, window, self.adapt.grid, **how)[0]

    def _at_once(self, window: Tensor) -> int:
        """Members in one pass, so that it fits; the first window is run once more to measure."""
        if self.adapt.members_at_once or budget.is_small(len(self.lambdas), window[0].shape):
            return self.adapt.members_at_once or len(self.lambdas)
        network = self.twin.module
        if budget.row_bytes(network, window[0]) is None:
            with budget.PeakTracker(network, window[0]):
                self.twin.run(window, torch.ones(1, dtype=torch.float64), pool="own")
        row = budget.row_bytes(network, window[0]) or 1
        free = budget.available_bytes(window.device)
        return budget.split(len(self.lambdas), 1, row, free)[0]


def _flipped(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return x.flip(axes) if axes else x


def combined(folds: Sequence[RawPrediction]) -> RawPrediction:
    """One prediction of several folds, averaged as nnU-Net does it: their logits.

    Weights and what they are computed from are means over the folds.
    """
    first = folds[0]
    if len(folds) == 1:
        return first
    activation = first.activation

    def of(maps: Sequence[Tensor]) -> Tensor:  # each (N, C, *S)
        mean = torch.stack([to_logits(m, activation) for m in maps]).mean(dim=0)
        return probabilities(mean, activation)

    def mean_of(name: str) -> Tensor:
        return torch.stack([getattr(fold, name) for fold in folds]).mean(dim=0)

    members = [of([fold.members[k] for fold in folds]) for k in range(len(first.members))]
    codes = (tuple(dict.fromkeys(c for fold in folds for c in fold.codes[0])),)
    return replace(
        first,
        probability=of([fold.probability for fold in folds]),
        members=torch.stack(members),
        usable=torch.stack([fold.usable for fold in folds]).all(dim=0),
        ends=None,
        codes=codes,
        entropies=mean_of("entropies"),
        weights=mean_of("weights"),
        distance=mean_of("distance"),
    )
