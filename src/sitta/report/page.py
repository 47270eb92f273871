"""The page: what was run, and a card for each image, in one file that needs no network."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sitta.pages import fill
from sitta.storage import finished

ASIDES = frozenset(
    {"equal-entropies", "no-reliable-pixel", "no-statistics", "tiny-feature-map", "zero-gradient"}
)  # notes that say how it went, and are no reason for a person to look
DIGITS = 4  # significant ones, of every figure on the page

_KEPT = ("name", "kind", "shape", "slices", "shown", "doubt", "output", "lambdas", "source_member")
_FIGURES = (
    "slice",
    "agreement",
    "uncertainty",
    "disagreement",
    "change",
    "distance",
    "area_source",
    "area",
    "notes",
    "seconds",
    "weights",
    "entropies",
)


def write(
    path: Path,
    run: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    explanations: Mapping[str, str] | None = None,
) -> None:
    """Write the report of a run, whole or not at all.

    Args:
        path: Where to; an older report there is replaced.
        run: What was run: ``title``, ``model``, ``model_hash``, ``method``, ``settings``,
            ``started``, ``seconds``, ``counts``, ``failures``, ``versions``, ``machine``.
        records: One for each input file, in any order, each with its ``picture``.
        explanations: A plain sentence for each code of a note, such as ``sitta.trust.NOTES``.
            A code without one stands for itself.
    """
    page = render(run, records, explanations or {})
    with finished(Path(path)) as draft:
        draft.write_bytes(page.encode("utf-8", "replace"))  # file names need not be Unicode


def render(
    run: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    explanations: Mapping[str, str],
) -> str:
    """The text of the page; see ``write``."""
    cards = sorted((_card(record) for record in records), key=lambda card: -(card["doubt"] or 0))
    codes = Counter(code for card in cards for code in card["codes"])
    sentences = {code: explanations.get(code, code) for code in sorted(codes)}
    return fill(
        Path(__file__).with_name("report.html"),
        title=run["title"],
        run=run,
        facts=_facts(run),
        cards=len(cards),
        look=sum(card["look"] for card in cards),
        notes=[(code, sentences[code], number) for code, number in codes.most_common()],
        data=_json({"records": cards, "explanations": sentences, "asides": sorted(ASIDES)}),
    )


def _card(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs of a record: all of the slice that is shown, little of the others."""
    rows, shown = record["rows"], record["rows"][record["shown"]]
    codes = sorted({code for row in rows for code in row["notes"]})
    return {
        **{name: record[name] for name in _KEPT},
        "doubt": _plain(record["doubt"]),
        "row": {name: shown[name] for name in _FIGURES},
        "agreements": [row["agreement"] for row in rows] if len(rows) > 1 else [],
        "noted": {i: row["notes"] for i, row in enumerate(rows) if row["notes"]},
        "codes": codes,
        "look": not ASIDES.issuperset(codes),
        "picture": record["picture"],
    }


def _facts(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The summary of the run as pairs of a label and words."""
    facts = [
        ("Model", run["model"]),
        ("Method", run["method"]),
        ("Started", _moment(str(run["started"]))),
        ("Took", _duration(float(run["seconds"]))),
        ("Machine", run["machine"]),
    ]
    return [(label, str(words)) for label, words in facts if words]


def _moment(stamp: str) -> str:
    try:
        return datetime.fromisoformat(stamp).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return stamp


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _json(values: Any) -> Markup:
    """JSON that cannot end the element that it stands in, whatever the names of the files are."""
    text = json.dumps(_plain(values), allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704  (nothing in it can open or close an element)


def _plain(values: Any) -> Any:
    """Short figures, and None for those that are not finite: JSON has no word for them."""
    if isinstance(values, Mapping):
        return {str(name): _plain(value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [_plain(value) for value in values]
    if isinstance(values, float):
        return float(f"{values:.{DIGITS}g}") if math.isfinite(values) else None
    return values
