"""The same record inside a checkpoint or an exported graph: a profile as a card, and back.

A card says some things under names of its own (preprocessing, classes, limits), which older
versions read too. All else of a profile is in its entry ``profile``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sitta._util.plain import plain
from sitta.data.preprocess import TASKS, Preprocess
from sitta.errors import UnsupportedModel
from sitta.models.profile.entries import of_table
from sitta.models.profile.errors import ProfileError
from sitta.models.profile.record import ClassInfo, Profile, changed

SAME = ("source", "note")  # entries of the same name in both
HOME = ("factory", "arguments", "weights", "checkpoint", "onnx")  # a card is inside its model
OF_CARD = (*SAME, "preprocess", "trust", "calibration")


def card_of_profile(profile: Profile) -> dict[str, Any]:
    """The card of a model with this profile."""
    card: dict[str, Any] = {k: getattr(profile, k) for k in SAME if getattr(profile, k)}
    if profile.preprocess is not None:
        card["preprocess"] = plain(profile.preprocess.as_dict())
    if profile.classes:
        card["classes"] = ["background", *profile.names]
    if profile.trust:
        card["trust"] = plain(profile.trust)
    more = {k: v for k, v in plain(profile.as_dict()).items() if k not in OF_CARD}
    more["model"] = {k: v for k, v in more.get("model", {}).items() if k not in HOME}
    if profile.calibration is not None:
        more["calibration"] = plain(dict(profile.calibration))
    if all("colour" not in one and "threshold" not in one for one in more.get("classes", [])):
        more["classes"] = [] if "postprocess" not in more else more.get("classes", [])
    more = {name: value for name, value in more.items() if value not in ({}, [])}
    return {**card, "profile": more} if len(more) > 1 else card


def profile_of_card(card: Mapping[str, Any], path: object = "the file") -> Profile:
    """The profile of a model from its card, of this version or an older one."""
    more = _more(card, path)
    named = {one.name: one for one in more.classes}
    names = _distinct(card.get("classes", ["background", *named])[1:])
    usual = TASKS.get(str(card.get("source", "")).split("/")[0], Preprocess())
    return replace(
        more,
        classes=tuple(named.get(name, ClassInfo(name)) for name in names),
        largest_component=_kept(more.largest_component, names),
        fill_holes=_kept(more.fill_holes, names),
        preprocess=changed(usual, card.get("preprocess", {})),
        trust=_limits(card.get("trust", {})),
        **{name: card.get(name, "") for name in SAME},
    )


def _more(card: Mapping[str, Any], path: object) -> Profile:
    """What the card has under no name of its own."""
    if "profile" not in card:
        return Profile()
    try:
        return Profile.from_dict(card["profile"])
    except ProfileError as error:
        raise UnsupportedModel(
            f"The profile in {path} cannot be used: {error}", fix="write the file again with Sitta"
        ) from error


def _limits(trust: Mapping[str, Any]) -> dict[str, Any] | None:
    """Limits of trust, without what a profile has no entry for."""
    entries = of_table("trust")
    return {k: v for k, v in trust.items() if k in entries and entries[k].accepts(v)} or None


def _kept(chosen: bool | tuple[str, ...], names: Iterable[str]) -> bool | tuple[str, ...]:
    """Of the classes chosen, those that are there; an export may have renamed them."""
    if isinstance(chosen, bool):
        return chosen
    return tuple(name for name in chosen if name in names)


def _distinct(names: list[str]) -> list[str]:
    """Names of classes, of which a profile has each once and no background."""
    seen: dict[str, None] = {}
    for number, given in enumerate(names, start=1):
        name = given.strip() or f"class {number}"
        again = name in seen or name.lower() == "background"
        seen[f"{name} {number}" if again else name] = None
    return list(seen)
