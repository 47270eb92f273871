"""Cards of the zoo: what a model is, what it was trained on, and where it fails, for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from torch import nn

from sitta.benchmark.rows import MEMBERS, PLAIN

WORSE = 0.01  # Dice: one point
OWNERS = "see the owners' terms"


@dataclass(frozen=True)
class Data:
    """A public data set.

    Attributes:
        title: What its owners call it.
        citation: What to cite.
        terms: Its licence, as far as known.
        copy: What the images were before they came to training.
        caveat: What its size or make forbids to conclude.
    """

    title: str
    citation: str
    terms: str
    copy: str
    caveat: str = ""


JAEGER = (
    "S. Jaeger et al., Two public chest X-ray datasets for computer-aided screening of pulmonary "
    "diseases, Quantitative Imaging in Medicine and Surgery 4(6), 2014."
)
NLM = f"Public, from the U.S. National Library of Medicine, which asks to be cited; {OWNERS}."
CORD = Data(
    "Spinal Cord Gray Matter Imaging Challenge 2018",
    "Spinal Cord Gray Matter Imaging Challenge, 5th Spinal Cord Workshop, Paris, 22 June 2018, "
    "https://github.com/sct-pipeline/gm-challenge.",
    "CC0.",
    "Axial slices of volumes at their own resolution, 0.42 to 0.78 mm a pixel in plane.",
    "**Trained on a single subject, and checked on other slices of the same one: it shows that "
    "the method runs, and no more.** Neighbouring slices are alike, so that its validation Dice "
    "flatters.",
)
DATA: dict[str, Data] = {
    "chest/mcu": Data(
        "Montgomery County chest X-ray set",
        JAEGER,
        NLM,
        "A public copy of 512 x 512, squashed to a square from about 4892 x 4020, then halved.",
    ),
    "chest/chn": Data(
        "Shenzhen chest X-ray set",
        f"{JAEGER} Masks: S. Stirenko et al., Chest X-ray analysis of tuberculosis by deep "
        "learning with segmentation and augmentation, IEEE ELNANO, 2018.",
        f"Films: {NLM[0].lower()}{NLM[1:]} Masks: terms of their own, reported to be CC BY-NC-SA "
        f"4.0; {OWNERS}.",
        "A public copy of 512 x 512, squashed to a square from about 3000 x 3000, then halved.",
    ),
    "chest/jsrt": Data(
        "JSRT",
        "J. Shiraishi et al., Development of a digital image database for chest radiographs with "
        "and without a lung nodule, American Journal of Roentgenology 174(1), 2000. Masks (SCR): "
        "B. van Ginneken et al., Segmentation of anatomical structures in chest radiographs using "
        "supervised methods, Medical Image Analysis 10(1), 2006.",
        "Films: on registration with the Japanese Society of Radiological Technology. Masks of "
        f"SCR: research and teaching, no passing on, no commercial use; {OWNERS}.",
        "A public copy of 224 x 224 and 8 bits, from 2048 x 2048 and 12 bits.",
    ),
    "retina/chase": Data(
        "CHASE_DB1",
        "M. M. Fraz et al., An ensemble classification-based approach applied to retinal blood "
        "vessel segmentation, IEEE Transactions on Biomedical Engineering 59(9), 2012.",
        f"Public, from Kingston University London, reported to be CC BY 4.0; {OWNERS}.",
        "512 x 512, from 999 x 960; masks of the first observer.",
        "Both eyes of 14 children, no adult.",
    ),
    "retina/hrf": Data(
        "High-Resolution Fundus (HRF) image database",
        "A. Budai et al., Robust vessel segmentation in fundus images, International Journal of "
        "Biomedical Imaging, 2013.",
        "Public, from the Friedrich-Alexander-Universität Erlangen-Nürnberg, reported to be CC BY "
        f"4.0; {OWNERS}.",
        "512 x 512, from 3504 x 2336: thin vessels are lost, and shapes are squashed.",
    ),
    "retina/rite": Data(
        "RITE (photographs of DRIVE)",
        "Q. Hu et al., Automated separation of binary overlapping trees in low-contrast color "
        "retinal images, MICCAI, 2013. Photographs: J. Staal et al., Ridge-based vessel "
        "segmentation in color images of the retina, IEEE Transactions on Medical Imaging 23(4), "
        "2004.",
        f"DRIVE: no passing on, no commercial use. RITE: on request; {OWNERS}.",
        "512 x 512, from 565 x 584; first manual vessel masks.",
    ),
    **{
        f"spinal/{site}": replace(CORD, title=f"{CORD.title}, site {site}")
        for site in ("ucl", "nwu", "philips", "juntendo", "milan", "ceitec")
    },
}
FINDS = {
    ("chest", "masks"): "both lungs in chest radiographs",
    ("retina", "masks"): "vessels in photographs of the retina",
    ("spinal", "masks"): "grey matter of the spinal cord in axial slices of MR images",
    ("spinal", "masks_cord"): "the spinal cord in axial slices of MR images",
}


def page(name: str, model: nn.Module, rows: pd.DataFrame | None = None) -> str:
    """The card of a model for people, in Markdown.

    Args:
        name: In the zoo.
        model: As loaded, with its ``.card``.
        rows: Results of a benchmark.
    """
    about: dict[str, Any] = model.card  # type: ignore[assignment]  # a plain attribute
    source = str(about.get("source", ""))
    data = DATA.get(source, Data(source or "unknown", "unknown.", f"{OWNERS}.", "unknown."))
    finds = FINDS.get((source.partition("/")[0], str(about.get("masks"))), "what its masks show")
    sections = (
        f"# {name}\n\nFinds {finds}. Trained on one data set, to be adapted to single images of "
        "others by Sitta. For research; not a medical device.",
        f"## What it is\n\n{_table(('', ''), _network(model, about, finds))}",
        f"## Data\n\n{_origin(about, data)}",
        f"## Recipe\n\n{_table(('setting', 'value'), _recipe(about))}",
        f"## Figures\n\n{_figures(about, data)}",
        _elsewhere(name, about, rows),
        f"## Use\n\n{_use(name, about)}",
        f"## Limits\n\n{_limits(about, data)}",
    )
    return "\n\n".join(filter(None, sections)) + "\n"


def _network(model: nn.Module, about: Mapping[str, Any], finds: str) -> list[tuple[str, str]]:
    count = sum(p.numel() for p in model.parameters())
    preset = f", preset `{about['preset']}`" if about.get("preset") else ""
    return [
        ("task", f"{about.get('task') or 'unknown'}: {finds}"),
        ("source domain", f"`{about.get('source', 'unknown')}`"),
        (
            "network",
            f"{about['architecture']}{preset}, {count:,} parameters, stored in half precision",
        ),
        ("input", _input(about.get("preprocess", {}))),
        ("classes", ", ".join(about.get("classes", ["background", "foreground"]))),
    ]


def _input(taken: Mapping[str, Any]) -> str:
    """What a model takes, in words."""
    channels = {1: "1 channel (grey)", 3: "3 channels (colours)"}
    spacing = _sides(taken.get("spacing"))
    fit = {"resize": "resized", "crop": "the middle cut out or padded", "none": "not fitted"}
    parts = [
        channels.get(taken.get("channels", 1), f"{taken.get('channels')} channels"),
        _sides(taken.get("size")) or "any size",
        f"resampled to {spacing} mm a pixel" if spacing else "",
        fit.get(taken.get("fit", ""), ""),
        f"intensities of each input: {taken['scale']}" if taken.get("scale") else "",
    ]
    return ", ".join(filter(None, parts))


def _sides(values: Iterable[float] | None) -> str:
    return " x ".join(f"{v:g}" for v in values or ())


def _origin(about: Mapping[str, Any], data: Data) -> str:
    images = about.get("images", {})
    lines = [
        f"- Data set: {data.title}.",
        f"- Images: {images.get('train', 'unknown')} for training, "
        f"{images.get('validation', 'unknown')} held out: {about.get('split', 'unknown')}.",
        f"- As they came to training: {data.copy}",
        f"- Cite: {data.citation}",
        f"- Licence: {data.terms} The file holds weights and no image; whether the terms of the "
        "data bind the weights too is for their user to find out.",
    ]
    if about.get("note"):
        lines.append(f"- Note: {_flat(about['note'])}")
    return "\n".join(lines)


def _recipe(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    recipe, training = about.get("recipe", {}), about.get("training", {})
    found = [(f"`{k}`", "none" if v is None else str(v)) for k, v in recipe.items()]
    if training:
        run, best = training.get("epochs", "unknown"), training.get("epoch", "unknown")
        found.append(("epochs run", f"{run}, the best one {best}"))
        found.append(("minutes", str(training.get("minutes", "unknown"))))
    found += [(f"version of {k}", str(v)) for k, v in about.get("versions", {}).items()]
    if about.get("data"):
        found.append(("fingerprint of the data", f"`{about['data']}`"))
    return found


def _figures(about: Mapping[str, Any], data: Data) -> str:
    training, trust = about.get("training", {}), about.get("trust", {})
    held = about.get("images", {}).get("validation", "unknown")
    dice = training.get("validation_dice")
    said = "unknown" if dice is None else f"{dice:.4f}"
    lines = [f"- Validation Dice: {said}, on {held} held-out images of {data.title}."]
    if trust:
        lines += [
            f"- Limits of trust: members disagree below an agreement of {trust['agreement']}; an "
            f"image is far from the source above a distance of {trust['distance']} nats.",
            f"- Their rule, on {trust['images']} held-out images: {_flat(trust['rule'])}.",
        ]
    return "\n".join(lines)


def _elsewhere(name: str, about: Mapping[str, Any], rows: pd.DataFrame | None) -> str:
    """Figures on every target of the benchmark; nothing if there are none."""
    found = None if rows is None else _scores(name, about, rows)
    if found is None or found.empty:
        return ""
    home = str(about["source"]).partition("/")[2]
    unit = "slices" if found.reset_index()["slice"].nunique() > 1 else "images"
    lines = []
    for target, scores in sorted(found.groupby("target"), key=lambda each: each[0] != home):
        worse = (scores["intent"] < scores["source"] - WORSE).mean()
        where = f"{target} (held out)" if target == home else str(target)
        means = [_dice(scores[name].mean()) for name in ("source", "intent", "oracle")]
        lines.append((where, str(len(scores)), *means, f"{worse:.0%}"))
    titles = ("target", unit, "Source", "InTEnt", "oracle lambda", "made worse")
    return (
        "### Across domains\n\nMean Dice. *Source* is the model as it is; the *oracle* takes the "
        f"best lambda of each of the {unit}, which only the truth can tell; *made worse* is the "
        f"share that InTEnt lowers by more than one point.\n\n{_table(titles, lines)}"
    )


def _scores(name: str, about: Mapping[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    """Dice by target, image and slice: a column each for source, intent and oracle.

    The name tells the task: its folder, which the card knows, may serve several tasks of a plan.
    """
    folder, _, domain = str(about.get("source", "")).partition("/")
    task = name.removesuffix(f"-{domain}") if name.endswith(f"-{domain}") else folder
    its = rows[(rows["task"] == task) & (rows["source"] == domain)]
    its = its[(its["training"] == PLAIN) & (its["repeat"] == 0) & (its["settings"] == "")]
    counts = its.loc[its["method"] == "oracle", "members"]  # which chooses from the plan's own
    own = counts.max() if len(counts) else MEMBERS
    usual = (its["strategy"] == "ent-baln") & (its["members"] == own)
    kept = (
        ((its["method"] == "source") & (its["lam"] == 1))
        | ((its["method"] == "intent") & usual)
        | (its["method"] == "oracle")
    )
    its = its[kept].assign(slice=its["slice"].fillna(0))
    found = its.pivot_table("dice", ["target", "image", "slice"], "method")
    found = found.reindex(columns=["source", "intent", "oracle"])
    return found.dropna(subset=["source", "intent"])


def _dice(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _use(name: str, about: Mapping[str, Any]) -> str:
    taken = about.get("preprocess", {})
    shape = ", ".join(map(str, (taken.get("channels", 1), *(taken.get("size") or ("H", "W")))))
    kind = ".nii.gz" if about.get("task") == "spinal" else ".png"  # the folder of the data
    return (
        f'```python\nmodel = sitta.load("{name}")\n'
        f"p = sitta.InTEnt(model)(image)  # a tensor ({shape}), scaled as above\n```\n\n"
        f"```\nsitta predict {name} image{kind} --out out\n```"
    )


def _limits(about: Mapping[str, Any], data: Data) -> str:
    size = _sides(about.get("preprocess", {}).get("size"))
    lines = [
        "For research only. Not a medical device: nothing here may decide about a person.",
        data.caveat,
        "Trained on one data set: expect it to be worse on images of other scanners, people or "
        "protocols. Adaptation makes up for a part of that, and sometimes makes it worse.",
        f"It sees {size} pixels: what is finer is not there for it." if size else "",
        "The limits of trust come from few images of the source. An image without a note is not "
        "thereby right.",
        "The validation Dice was measured before the weights were rounded to half precision; "
        "figures across domains, if there are any, with this very file.",
    ]
    return "\n".join(f"- {line}" for line in lines if line)


def _table(titles: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    rule = ["---", *["---:" if len(titles) > 2 else "---"] * (len(titles) - 1)]
    rows = [titles, tuple(rule), *lines]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in rows)


def _flat(text: object) -> str:
    return " ".join(str(text).split()).removesuffix(".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
