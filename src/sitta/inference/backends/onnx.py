"""Models of ``sitta export``: one ONNX file with every member inside, run without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.image import Array
from sitta.errors import InvalidImage, InvalidSetting, SittaError, UnsupportedModel
from sitta.inference.backends.manifest import EXPORT_AGAIN, Manifest
from sitta.inference.backends.operators import require_finite
from sitta.inference.backends.ort import runtime, session
from sitta.inference.request import Request
from sitta.models.profile import Profile
from sitta.prediction.calibration import Calibration, calibration_of
from sitta.prediction.notes import Limits, require_usable
from sitta.prediction.record import PredictionRecord
from sitta.prediction.scores import computed

COMPUTED = tuple(computed())
# Notes follow from the scores that a record names; any other may be newer than the graph.
NAMED = tuple(name for name in COMPUTED if hasattr(PredictionRecord, name))
NEEDED = ("probability", "weights", "entropies", "usable", *NAMED)
OPTIONAL = ("members", "distance", "tiny", *(name for name in COMPUTED if name not in NAMED))
TINY_MAP = "tiny-feature-map"


def is_graph(name: str) -> bool:
    """Whether a model's name is that of an ONNX file."""
    return name.lower().endswith(".onnx")


class Graph:
    """An ONNX file that ``sitta export`` wrote: images in, ``PredictionRecord`` out."""

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        self.path = Path(path)
        self._session, self.runtime = _session(self.path, threads)
        metadata = self._session.get_modelmeta().custom_metadata_map
        self.manifest = Manifest.read(str(path), metadata)
        self.card, self.settings = self.manifest.card, self.manifest.built_in
        self.profile = Profile()  # as it was loaded
        self.outputs = tuple(output.name for output in self._session.get_outputs())
        takes = self._session.get_inputs()[0]
        self._input = takes.name
        self.inputs = tuple(takes.shape)  # (N, C, *S): a number where only that one fits
        missing = [name for name in NEEDED if name not in self.outputs]
        if missing:
            raise UnsupportedModel(
                f"{path} does not compute {', '.join(missing)}.",
                allowed=", ".join(NEEDED),
                fix=EXPORT_AGAIN,
            )

    def __call__(self, images: Array) -> PredictionRecord:
        """Adapt to each of ``(N, C, *S)`` by itself."""
        images = np.ascontiguousarray(images, dtype=np.float32)
        self._check(images)
        names = [name for name in (*NEEDED, *OPTIONAL) if name in self.outputs]
        try:
            values = self._session.run(names, {self._input: images})
        except Exception as error:  # onnxruntime's own kinds have no base but this
            raise InvalidImage(
                f"{self.path.name} cannot be run on inputs of {_sides(images.shape)}: "
                f"{' '.join(str(error).split())}",
                fix="give it inputs of the size that it was trained on (--size)",
            ) from error
        return self._record(images, dict(zip(names, values, strict=True)))

    def _record(self, images: Array, values: Mapping[str, Array]) -> PredictionRecord:
        usable, lambdas = np.asarray(values["usable"], dtype=bool), self.manifest.lambdas
        if len(usable) != len(lambdas):
            raise UnsupportedModel(
                f"{self.path.name} tells of {len(lambdas)} lambdas and has {len(usable)} members.",
                fix=EXPORT_AGAIN,
            )
        require_usable(usable, images)
        unknown = np.full(len(images), np.nan, dtype=np.float32)
        noted = (TINY_MAP,) if np.any(values.get("tiny", False)) else ()
        return PredictionRecord(
            images=images,
            lambdas=np.array(lambdas),
            trained=self.manifest.trained,
            probability=values["probability"],
            members=values.get("members"),
            entropies=values["entropies"],
            weights=values["weights"],
            usable=usable,
            distance=values.get("distance", unknown),
            activation=self.manifest.activation,
            limits=Limits.of(self.card, self.calibration),
            thresholds=self.profile.thresholds,
            codes=(noted,) * len(images),
            ran=np.ones_like(usable),
            names=tuple(f"{lam:.2f}" for lam in lambdas),
            ends=self._ends(values.get("members")),
            calibration=self.calibration,
            computed={name: values.get(name, unknown) for name in COMPUTED},
        )

    @cached_property
    def calibration(self) -> Calibration | None:
        """What is known of the model in-domain, if the graph says so."""
        return calibration_of(self)

    def _ends(self, members: Array | None) -> Array | None:
        """Members at lambda 1 and 0, if the graph tells them."""
        lambdas = list(self.manifest.lambdas)
        if members is None or not {1.0, 0.0} <= set(lambdas):
            return None
        return np.asarray(members[[lambdas.index(1.0), lambdas.index(0.0)]])

    def _check(self, images: Array) -> None:
        """Refuse what the graph has no place for, in words that onnxruntime does not have."""
        self.require_shape(images.shape)
        if not np.isfinite(images).all():
            raise InvalidImage(
                "The image holds values that are not finite numbers.",
                fix="scale it (--scale min-max or z-score)",
            )

    def require_shape(self, shape: Sequence[int]) -> None:
        """Refuse images ``(N, C, *S)`` of a shape that the graph does not take."""
        if not _fits(shape, self.inputs):
            raise InvalidImage(
                f"{self.path.name} does not take inputs of this shape.",
                allowed=_sides(self.inputs),
                got=_sides(shape),
                fix="leave --channels and --dims as the file has them",
            )
        multiple = self.manifest.multiple
        if any(n % multiple for n in shape[2:]):
            raise InvalidImage(
                f"{self.path.name} takes sides that are multiples of {multiple}.",
                got=_sides(shape[2:]),
                fix="choose such sides (--size)",
            )

    def describe(self) -> dict[str, Any]:
        """What the file holds, in plain types."""
        m = self.manifest
        told = {"version": m.version, "method": m.method, "settings": self.settings}
        return {**told, "inputs": list(self.inputs), "outputs": list(self.outputs)}

    def __str__(self) -> str:
        m = self.manifest
        head = f"{self.path.name}: {m.method} as one graph, of sitta {m.version}, for onnxruntime"
        named = {"inputs": _sides(self.inputs), "outputs": ", ".join(self.outputs)}
        rows = [f"  {name:<12}{value}" for name, value in (named | self.settings).items()]
        return "\n".join([head, *rows])

    def require(self, request: Request) -> None:
        """Refuse what the file does not hold or compute, with an InvalidSetting."""
        self.manifest.require(self.path.name, request)
        if "members" in request.save and "members" not in self.outputs:
            raise InvalidSetting(
                f"{self.path.name} does not tell its members, so that they cannot be saved.",
                allowed="probability, uncertainty",
                fix="export the model again, with its members",
            )


def _session(path: Path, threads: int | None) -> tuple[Any, dict[str, str]]:
    version = str(runtime().__version__)
    if not path.is_file():
        raise SittaError(
            f"There is no file '{path}'.", allowed="an .onnx file that sitta export has written"
        )
    require_finite(path)
    try:
        made = session(path, threads)
        _require_text(made)
    except Exception as error:  # onnxruntime's own kinds have no base but this
        raise UnsupportedModel(
            f"{path} cannot be run: it is damaged, no ONNX file at all, or needs a newer "
            f"onnxruntime than {version} ({' '.join(str(error).split())}).",
            fix="export the model again, or update onnxruntime",
        ) from error
    return made, {"onnxruntime": version}


def _require_text(session: Any) -> None:
    """UnicodeDecodeError if names or metadata are no text: onnxruntime looks when it is asked."""
    named = [*session.get_inputs(), *session.get_outputs()]
    _ = session.get_modelmeta().custom_metadata_map, [value.name for value in named]


def _fits(shape: Sequence[int], takes: Sequence[Any]) -> bool:
    """Whether sides are those that are fixed; the others have names."""
    pairs = zip(shape, takes, strict=False)
    return len(shape) == len(takes) and all(b in (a, None) or isinstance(b, str) for a, b in pairs)


def _sides(shape: Sequence[Any]) -> str:
    return " x ".join(str(n) if isinstance(n, int) else "any" for n in shape)
