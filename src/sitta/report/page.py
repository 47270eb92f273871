"""The page: what was run, and a card for each image, in one file that needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2.utils import htmlsafe_json_dumps

from sitta._util.files import atomic_write
from sitta._util.plain import plain
from sitta.prediction.decisions import COLUMNS, DECISIONS
from sitta.prediction.notes import flagged, note
from sitta.prediction.scores import shown
from sitta.report.html import fill

MOST_SLICES = 1000  # to step to, of all volumes together: about 10 kB each
DIGITS = 4  # significant ones, of every number on the page

_KEPT = ("name", "kind", "shape", "slices", "shown", "doubt", "output", "lambdas", "source_member")


def write(path: Path, run: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> None:
    """Write the report of a run, whole or not at all, in place of an older one.

    ``run`` has ``title``, ``model``, ``model_hash``, ``method``, ``settings``, ``started``,
    ``seconds``, ``counts``, ``failures``, ``versions`` and ``machine``. ``records`` are one for
    each input file, in any order, each with its ``picture``.
    """
    page = render(run, records)
    with atomic_write(Path(path)) as draft:
        draft.write_bytes(page.encode("utf-8", "replace"))  # file names need not be Unicode


def render(
    run: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    said: Sequence[Mapping[str, Any]] = (),  # rows of decisions.csv, to begin with
) -> str:
    """The text of the page; see ``write``."""
    cards = sorted(map(_card, records), key=_order(records))
    _thin(cards)
    codes = Counter(code for card in cards for code in card["codes"])
    scores = [score.describe() for score in shown()]
    data = {
        "records": cards,
        "notes": {n.code: [n.severity, n.sentence, n.advice] for n in map(note, sorted(codes))},
        "scores": scores,
        "columns": COLUMNS,
        "decisions": DECISIONS,
        "began": [row for row in said if row["slice"] is None],
        "run": f"{run['model_hash']} {run['started']}",
    }
    return fill(
        Path(__file__).with_name("report.html"),
        ("review",),
        ("dom", "words", "colours", "chart", "scores"),
        decisions=DECISIONS,
        title=run["title"],
        run=run,
        facts=_facts(run),
        cards=len(cards),
        look=sum(card["look"] for card in cards),
        notes=[(code, note(code).sentence, number) for code, number in codes.most_common()],
        scores=scores,
        # Nothing in it can end the element it stands in, whatever the names of the files are.
        data=htmlsafe_json_dumps(plain(data, DIGITS), allow_nan=False, separators=(",", ":")),
    )


def _thin(cards: Sequence[dict[str, Any]]) -> None:
    """Leave out the slices of the last volumes, if the page would be too large with all."""
    room = MOST_SLICES
    for card in cards:
        room -= len(card["picture"].get("slices", ()))
        if room < 0:
            card["picture"] = {k: v for k, v in card["picture"].items() if k != "slices"}


def expected(record: Mapping[str, Any]) -> float | None:
    """The lowest expected Dice of its slices; None if it is not known."""
    values = [row.get("expected_dice") for row in record["rows"]]
    return min((float(dice) for dice in values if dice is not None), default=None)


def _order(records: Sequence[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], float]:
    """By expected Dice, lowest first; by doubt if that is not known of all."""
    if all(expected(record) is not None for record in records):
        return lambda card: card["expected"]
    return lambda card: -(card["doubt"] or 0)


def _card(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs of a record: all of the slice that is shown, little of the others."""
    rows, row = record["rows"], record["rows"][record["shown"]]
    codes = sorted({code for one in rows for code in one["notes"]})
    dices = [one.get("expected_dice") for one in rows]
    has_dice = all(dice is not None for dice in dices)  # else how far the members agree
    along = dices if has_dice else [one["agreement"] for one in rows]
    return {
        **{name: record[name] for name in _KEPT},
        "doubt": plain(record["doubt"], DIGITS),
        "row": {name: value for name, value in row.items() if name not in ("file", "areas")},
        "agreements": plain(along, DIGITS) if len(rows) > 1 else [],
        "along": "Expected Dice" if has_dice else "Agreement",
        "noted": {i: one["notes"] for i, one in enumerate(rows) if one["notes"]},
        "codes": codes,
        "look": flagged(codes),
        "expected": plain(expected(record), DIGITS),
        "classes": record.get("classes", []),
        "names": record.get("member_names", []),
        "hash": record.get("mask_sha256", ""),
        "picture": record["picture"],
    }


def _facts(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The summary of the run as pairs of a label and words."""
    started, took = _moment(str(run["started"])), _duration(float(run["seconds"]))
    shown = {**run, "started": started, "took": took}
    names = ("model", "method", "started", "took", "machine")
    return [(name.capitalize(), str(shown[name])) for name in names if shown[name]]


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
