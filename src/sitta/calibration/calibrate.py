"""Calibrate a model: look at images of its own domain once, and keep what they teach."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sitta._util.process import OnProgress
from sitta.adaptation.adapt import Adapt
from sitta.adaptation.base import Method
from sitta.adaptation.source import Source
from sitta.calibration.expected_dice import FEWEST, fit_dice
from sitta.calibration.inputs import fit_inputs
from sitta.calibration.journal import Journal
from sitta.calibration.shifts import framed, shifted
from sitta.core.calibrated_statistics import calibrated_layers, measure_statistics
from sitta.core.census import census
from sitta.core.prior import ShapePrior
from sitta.errors import InvalidImage, InvalidSetting
from sitta.prediction.calibration import (
    SUBJECTS,
    Calibration,
    ClassCalibration,
    without_calibration,
)
from sitta.prediction.evidence import dice, evidence
from sitta.prediction.record import PredictionRecord

Array = NDArray[Any]
MOST_IMAGES = 100  # images that are looked at
SHIFTED = 200  # shifted images in all, about
TOGETHER = 1 << 13  # pixels of images that are predicted at once; more are no faster
PER_IMAGE = (2, 12)  # shifted images of one image, at least and at most
SEVERE = 3  # one severe shift for so many others
# Share of the usual plausibility that a shape must reach where the model as trained finds nothing:
# below, shapes on shifted images were wrong more often than not. It also keeps some slices outside
# the organ empty, on which members without it invent a mask every time.
PLAUSIBLE = 0.5
JITTERED = 2  # copies of each mask, moved a little, that a shape prior also learns from


@dataclass(frozen=True, eq=False)
class _Look:
    """One image that was predicted: as it is, or shifted."""

    owner: str
    kinds: tuple[str, ...]  # none for the image as it is
    evidence: list[dict[str, float]]  # of each class
    dice: Array  # (F,) of the adapted mask
    members: Array  # (K, F), NaN for one that did not run
    area: Array  # (F,) share of the reference
    severe: bool  # serves the expected Dice alone

    @property
    def trained(self) -> Array:
        """Dice ``(F,)`` of the model as trained."""
        return np.asarray(self.members[0])


def calibrate(
    model: nn.Module,
    images: Tensor,
    masks: Tensor | None = None,
    *,
    subjects: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    held_out: Sequence[int] | None = None,
    public: bool = False,
    seed: int = 0,
    watch: OnProgress = lambda done, total: None,
    journal: Journal | None = None,
    **settings: Any,
) -> Calibration:
    """What a model looks like on images of its own domain, for ``sitta.Adapt`` and expected Dice.

    Args:
        model: As for any method.
        images: In-domain images ``(N, C, *S)``, ready for the model; at most 100 are used. Best are
            images that it was not trained on.
        masks: Classes ``(N, *S)``, or labels ``(N, F, *S)``. Without, the model's own prediction on
            the image as it is serves as the reference.
        subjects: Whose image each is; every image its own subject if not given.
        classes: Names of the foreground classes.
        held_out: Which images the model was not trained on, if not all. Predictions are judged on
            these and on as many others at most, since masks of training images look too good.
        public: The images are public. Otherwise mean shapes of fewer than ten subjects are not
            kept, since they could show a person; their mean image never is.
        seed: Of the synthetic shifts.
        watch: Is told how many images are done, and of how many.
        journal: A file that keeps what is done, from which a calibration that was stopped goes on.
        **settings: ``output`` and ``activation``, as for any method.

    Example:
        >>> import sitta, torch
        >>> model = sitta.load("phantom-alder")
        >>> x, y = zip(*(sitta.data.phantom.draw("alder", index=i) for i in range(2)))
        >>> calibrate(model, torch.stack(x), torch.stack(y)).images
        2
    """
    model = without_calibration(model)
    owners = _owners(images, subjects)
    chosen = _chosen(owners, seed)
    judged = _judged(chosen, held_out)
    references = _references(model, images, masks, settings)[chosen]
    images, owners = images[chosen], [owners[i] for i in chosen]
    people = len({subjects[i] for i in chosen}) if subjects is not None else len(images)
    safe = public or people >= SUBJECTS
    names = _names(classes, references.shape[1])
    priors = [_prior(references[:, n], seed) if safe else None for n in range(len(names))]
    with_priors = tuple(
        ClassCalibration(n, True, 0.0, p) for n, p in zip(names, priors, strict=True)
    )
    start = Calibration(
        images=len(images),
        subjects=people,
        labelled=masks is not None,
        weights=fingerprint(model),
        classes=with_priors,
        # A mean of few subjects would not say what images of others look like, either.
        inputs=fit_inputs(images.numpy(), keep_image=people >= SUBJECTS),
    )
    layers = calibrated_layers(model)
    if layers:  # they keep no statistics: those of the images are kept for them
        measured = measure_statistics(model, images).items()
        statistics = {k: (m.cpu().numpy(), v.cpu().numpy()) for k, (m, v) in measured}
        start = replace(start, statistics=statistics)
    mixes = bool(census(model).mixable or layers)
    method = Adapt(model, calibration=start, **settings) if mixes else Source(model, **settings)
    if journal is not None:
        parts = (start.weights, images, references, judged, safe, seed, settings)
        journal.open(*parts, _copies(judged), SEVERE)
    looks = list(_looks(method, start, images, references, owners, judged, seed, watch, journal))
    return _concluded(start, looks)


def fingerprint(model: nn.Module) -> str:
    """Of a model's weights, the same in half and in single precision."""
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode())
        values = tensor.detach().cpu()
        values = values.half() if values.is_floating_point() else values.long()
        whole.update(values.contiguous().numpy().tobytes())
    return whole.hexdigest()[:16]


def _owners(images: Tensor, subjects: Sequence[str] | None) -> list[str]:
    if images.dim() < 4 or not len(images):
        raise InvalidImage(
            "Calibration needs a batch of images.", allowed="(N, C, *S)", got=str(images.shape)
        )
    if subjects is not None and len(subjects) != len(images):
        raise InvalidSetting(
            "subjects needs one name per image.", allowed=str(len(images)), got=str(len(subjects))
        )
    people = [*map(str, subjects or range(len(images)))]
    return people if len(set(people)) > 1 else [f"{n}" for n in range(len(images))]


def _chosen(owners: Sequence[str], seed: int) -> list[int]:
    """At most so many images, drawn over the subjects."""
    if len(owners) <= MOST_IMAGES:
        return list(range(len(owners)))
    drawn = np.random.default_rng(seed).permutation(len(owners))[:MOST_IMAGES]
    return sorted(int(i) for i in drawn)


def _judged(chosen: Sequence[int], held_out: Sequence[int] | None) -> list[int]:
    """Places in ``chosen`` of the images on which predictions are judged."""
    unseen = set(chosen if held_out is None else held_out)
    own = [place for place, i in enumerate(chosen) if i in unseen]
    others = [place for place, i in enumerate(chosen) if i not in unseen]
    return sorted([*own, *others[: len(own)]]) if own else others


def _names(classes: Sequence[str] | None, count: int) -> list[str]:
    if classes is not None and len(classes) != count:
        raise InvalidSetting(
            "classes needs one name per foreground class.",
            allowed=str(count),
            got=", ".join(classes),
            fix="name them under [[classes]] of the model's profile, in the order of its channels",
        )
    usual = ["foreground"] if count == 1 else [f"class {n}" for n in range(1, count + 1)]
    return list(classes or usual)


def _references(
    model: nn.Module, images: Tensor, masks: Tensor | None, settings: dict[str, Any]
) -> Tensor:
    """Labels ``(N, F, *S)`` that predictions are compared with."""
    probe = Source(model, **settings)(images[:1]).record
    count = probe.foreground(probe.mask).shape[1]
    if masks is None:
        adapt = Source(model, **settings)
        each = [adapt(x[None]).record for x in images]
        return torch.cat([_labels(r) for r in each])
    if masks.dim() == images.dim() - 1:
        return torch.stack([masks == n for n in range(1, count + 1)], dim=1)
    return masks > 0


def _labels(record: PredictionRecord) -> Tensor:
    flat = record.foreground(record.mask)
    return torch.from_numpy(flat.reshape(*flat.shape[:2], *record.images.shape[2:]))


def _prior(masks: Tensor, seed: int) -> ShapePrior | None:
    """Of masks ``(N, *S)`` of one class; None if hardly any image shows it."""
    shown = masks[masks.flatten(1).any(dim=1)]
    if len(shown) < 3:
        return None
    copies = shown[:, None].float()
    draw = torch.Generator().manual_seed(seed)
    moved = [framed(copies, copies, draw)[1] > 0.5 for _ in range(JITTERED)]
    examples = torch.cat([shown, *(m[:, 0] for m in moved)])
    examples = examples[examples.flatten(1).any(dim=1)]
    return ShapePrior.fit(shown.numpy(), examples.numpy())


def _looks(
    adapt: Method,
    start: Calibration,
    images: Tensor,
    references: Tensor,
    owners: Sequence[str],
    judged: Sequence[int],
    seed: int,
    watch: OnProgress,
    journal: Journal | None,
) -> Iterator[_Look]:
    """Every judged image as it is and shifted, predicted and compared; or as the journal has it."""
    copies = _copies(judged)
    watch(0, len(judged))
    for done, i in enumerate(judged, 1):
        kept = None if journal is None else journal.looks(i)
        if kept is not None:
            yield from (_Look(owners[i], **{**x, "kinds": tuple(x["kinds"])}) for x in kept)
        else:
            seeds = [
                (seed * 1009 + i) * 101 + copy for copy in range(copies + -(-copies // SEVERE))
            ]
            looks = list(_at(adapt, start, images[i], references[i], owners[i], seeds, copies))
            if journal is not None:  # without the owner: it may be a person's name
                rows = [{k: v for k, v in vars(x).items() if k != "owner"} for x in looks]
                journal.add(i, rows)
            yield from looks
        watch(done, len(judged))


def _at(
    adapt: Method,
    start: Calibration,
    image: Tensor,
    reference: Tensor,
    owner: str,
    seeds: Sequence[int],
    mild: int,
) -> Iterator[_Look]:
    """One image as it is, and shifted once for each seed; severely from the seed ``mild`` on."""
    views: list[tuple[Tensor, Tensor, tuple[str, ...], bool]] = [(image, reference, (), False)]
    for copy, seed in enumerate(seeds):
        views.append((*shifted(image, reference, seed, copy >= mild), copy >= mild))
    size = max(1, TOGETHER // image[0].numel())
    for first in range(0, len(views), size):
        part = views[first : first + size]
        record = adapt(torch.stack([view[0] for view in part])).record
        for one, (_, moved, kinds, severe) in zip(record, part, strict=True):
            yield _look(one, start, moved, owner, kinds, severe)


def _copies(judged: Sequence[int]) -> int:
    """Shifted copies of each image, but for severe ones."""
    return int(np.clip(SHIFTED // len(judged), *PER_IMAGE))


def _look(
    record: PredictionRecord,
    start: Calibration,
    reference: Tensor,
    owner: str,
    kinds: tuple[str, ...] = (),
    severe: bool = False,
) -> _Look:
    scores = [evidence(record, n, c) for n, c in enumerate(start.classes)]
    truth = reference.flatten(1).numpy() > 0  # (F, P)
    masks = record.member_masks if record.member_masks is not None else ()
    members = np.stack([dice(record.foreground(m)[0], truth) for m in masks])
    members[~record.ran[:, 0]] = np.nan
    return _Look(
        owner,
        kinds,
        [{name: float(values[0]) for name, values in each.items()} for each in scores],
        dice(record.foreground(record.mask)[0], truth),
        members,
        truth.mean(axis=1),
        severe,
    )


def _concluded(start: Calibration, looks: Sequence[_Look]) -> Calibration:
    """Gate, expected Dice and limit from the predictions."""
    classes = tuple(_class(c, n, looks) for n, c in enumerate(start.classes))
    whole = replace(start, classes=classes, members=_by_kind([x for x in looks if not x.severe]))
    plain = [look for look in looks if not look.kinds]
    told = [(n, c.dice) for n, c in enumerate(classes) if c.dice]
    if not plain or not told:
        return whole
    middles = np.array([[d.interval(_one(x, n))[0][0] for x in plain] for n, d in told])
    lowest = dict(zip([n for n, _ in told], _twentieth(middles), strict=True))
    classes = tuple(replace(c, limit=lowest.get(n)) for n, c in enumerate(classes))
    return replace(whole, classes=classes, limit=_twentieth(middles.mean(axis=0, keepdims=True))[0])


def _twentieth(values: Array) -> list[float]:
    """Below which the lowest twentieth of each row is."""
    return [round(float(limit), 4) for limit in np.quantile(values, 0.05, axis=1)]


def _one(look: _Look, n: int) -> dict[str, Array]:
    return {name: np.array([value]) for name, value in look.evidence[n].items()}


def _class(calibrated: ClassCalibration, n: int, looks: Sequence[_Look]) -> ClassCalibration:
    """A class with its gate and its expected Dice."""
    gains = {
        owner: float(np.mean([look.dice[n] - look.trained[n] for look in group]))
        for owner, group in _by_owner([x for x in looks if x.kinds and not x.severe])
    }
    values = np.array(list(gains.values()))
    spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    gain = float(values.mean()) if len(values) else 0.0
    adapts = bool(gain > spread)
    final = [look.dice[n] if adapts else look.trained[n] for look in looks]
    shows = [i for i, look in enumerate(looks) if look.area[n] > 0]
    model = None
    if len(shows) >= FEWEST:
        scores = {
            name: np.array([looks[i].evidence[n][name] for i in shows])
            for name in looks[0].evidence[n]
        }
        owners = [looks[i].owner for i in shows]
        model = fit_dice(scores, np.array([final[i] for i in shows]), owners)
    usual = [look.evidence[n]["shape"] for look in looks if not look.kinds and look.area[n] > 0]
    least = PLAUSIBLE * float(np.median(usual)) if calibrated.prior and usual else 0.0
    kept: dict[str, Any] = {"gain": round(gain, 5), "plausible": round(least, 4)}
    return replace(calibrated, adapts=adapts, dice=model, **kept)


def _by_owner(looks: Sequence[_Look]) -> Iterator[tuple[str, list[_Look]]]:
    ordered = sorted(looks, key=lambda look: look.owner)
    for owner, group in groupby(ordered, key=lambda look: look.owner):
        yield owner, list(group)


def _by_kind(looks: Sequence[_Look]) -> dict[str, dict[str, float]]:
    """Mean Dice over classes of the model as trained, of Adapt and of each member that ran."""
    table = {}
    for kind in ("none", *sorted({k for look in looks for k in look.kinds})):
        group = [x for x in looks if kind in x.kinds or (kind == "none" and not x.kinds)]
        if not group:
            continue
        row = {"images": float(len(group)), "adapt": float(np.mean([x.dice for x in group]))}
        members = np.stack([x.members.mean(axis=1) for x in group])  # (N, K), NaN if not run
        ran = np.isfinite(members).any(axis=0)
        for k in np.flatnonzero(ran):
            row[f"member {k}"] = float(np.nanmean(members[:, k]))
        table[kind] = {name: round(value, 4) for name, value in row.items()}
    return table
