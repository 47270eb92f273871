"""Models of ``sitta export``: one ONNX file with every member inside, run without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitta.data.picture import Array
from sitta.errors import InvalidImage, InvalidSetting, SittaError, UnsupportedModel
from sitta.notes import Limits, require_usable
from sitta.ort import runtime, session
from sitta.runs.answer import Answer
from sitta.runs.manifest import AGAIN, Manifest
from sitta.runs.plan import Plan

NEEDED = (
    "probability",
    "weights",
    "entropies",
    "usable",
    "agreement",
    "uncertainty",
    "disagreement",
)
OPTIONAL = ("members", "distance", "tiny")  # what depends on them is left out without
TINY_MAP = "tiny-feature-map"


def is_graph(name: str) -> bool:
    """Whether a model's name is that of an ONNX file.

    Example:
        >>> is_graph("out.onnx"), is_graph("phantom-alder")
        (True, False)
    """
    return name.lower().endswith(".onnx")


class Graph:
    """The graph of an ONNX file: images in, an ``Answer`` out.

    Attributes:
        path: The file.
        manifest: What it says about itself.
        runtime: What runs it, with its version.
        inputs: The sides that it takes ``(N, C, *S)``: a number where only that one fits.
        outputs: What it computes, by name.

    Args:
        path: Written by ``sitta export``.
        threads: How many to use; all cores if None.

    Raises:
        UnsupportedModel: A file that ``sitta export`` did not write.
        MissingExtra: onnxruntime is not installed.

    Example:
        >>> Graph("out.onnx")(images).mask.shape                            # doctest: +SKIP
        (8, 128, 128)
    """

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        self.path = Path(path)
        self._session, self.runtime = _session(self.path, threads)
        known = self._session.get_modelmeta().custom_metadata_map
        self.manifest = Manifest.read(str(path), known)
        self.outputs = tuple(output.name for output in self._session.get_outputs())
        takes = self._session.get_inputs()[0]
        self._input, self.inputs = takes.name, tuple(takes.shape)
        missing = [name for name in NEEDED if name not in self.outputs]
        if missing:
            raise UnsupportedModel(
                f"{path} does not compute {', '.join(missing)}.",
                allowed=", ".join(NEEDED),
                fix=AGAIN,
            )

    @property
    def card(self) -> dict[str, Any]:
        """What the checkpoint said that it was made from."""
        return self.manifest.card

    @property
    def settings(self) -> dict[str, Any]:
        """Of the method, as they were when it was exported."""
        return self.manifest.built_in

    def __call__(self, images: Array) -> Answer:
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
        return self._answer(images, dict(zip(names, values, strict=True)))

    def _answer(self, images: Array, found: Mapping[str, Array]) -> Answer:
        usable, lambdas = np.asarray(found["usable"], dtype=bool), self.manifest.lambdas
        if len(usable) != len(lambdas):
            raise UnsupportedModel(
                f"{self.path.name} tells of {len(lambdas)} lambdas and has {len(usable)} members.",
                fix=AGAIN,
            )
        require_usable(usable, images)
        noted = (TINY_MAP,) if np.any(found.get("tiny", False)) else ()
        return Answer(
            images=images,
            lambdas=np.array(lambdas),
            probability=found["probability"],
            members=found.get("members"),
            entropies=found["entropies"],
            weights=found["weights"],
            usable=usable,
            agreement=found["agreement"],
            uncertainty=found["uncertainty"],
            disagreement=found["disagreement"],
            distance=found.get("distance", np.full(len(images), np.nan, dtype=np.float32)),
            activation=self.manifest.activation,
            limits=Limits.of(self.card),
            codes=(noted,) * len(images),
        )

    def _check(self, images: Array) -> None:
        """Refuse what the graph has no place for, in words that onnxruntime does not have."""
        if not _fits(images.shape, self.inputs):
            raise InvalidImage(
                f"{self.path.name} does not take inputs of this shape.",
                allowed=_sides(self.inputs),
                got=_sides(images.shape),
                fix="leave --channels and --dims as the file has them",
            )
        multiple = self.manifest.multiple
        if any(n % multiple for n in images.shape[2:]):
            raise InvalidImage(
                f"{self.path.name} takes sides that are multiples of {multiple}.",
                got=_sides(images.shape[2:]),
                fix="choose such sides (--size)",
            )
        if not np.isfinite(images).all():
            raise InvalidImage(
                "The image holds values that are not finite numbers.",
                fix="scale it (--scale min-max or z-score)",
            )

    def describe(self) -> dict[str, Any]:
        """What the file holds, in plain types."""
        m = self.manifest
        told = {"version": m.version, "method": m.method, "settings": m.built_in}
        return {**told, "inputs": list(self.inputs), "outputs": list(self.outputs)}

    def __str__(self) -> str:
        settings = [f"  {name:<12}{value}" for name, value in self.manifest.built_in.items()]
        lines = [
            f"{self.path.name}: {self.manifest.method} as one graph, of sitta "
            f"{self.manifest.version}, for onnxruntime",
            f"  {'inputs':<12}{_sides(self.inputs)}",
            f"  {'outputs':<12}{', '.join(self.outputs)}",
        ]
        return "\n".join([*lines, *settings])

    def require(self, plan: Plan) -> None:
        """Refuse a plan that asks for something else than the file holds.

        Raises:
            InvalidSetting: Another method or setting, a window, another device than the CPU, or
                maps that it does not compute.
        """
        self.manifest.require(self.path.name, plan)
        if "members" in plan.save and "members" not in self.outputs:
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
    try:
        made = session(path, threads)
    except Exception as error:  # onnxruntime's own kinds have no base but this
        raise UnsupportedModel(
            f"{path} cannot be run: it is damaged, no ONNX file at all, or needs a newer "
            f"onnxruntime than {version} ({' '.join(str(error).split())}).",
            fix="export the model again, or update onnxruntime",
        ) from error
    return made, {"onnxruntime": version}


def _fits(shape: Sequence[int], takes: Sequence[Any]) -> bool:
    """Whether sides are those that are fixed; the others have names."""
    pairs = zip(shape, takes, strict=False)
    return len(shape) == len(takes) and all(b in (a, None) or isinstance(b, str) for a, b in pairs)


def _sides(shape: Sequence[Any]) -> str:
    return " x ".join(str(n) if isinstance(n, int) else "any" for n in shape)
