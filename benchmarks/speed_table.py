"""From the turns in speed.json to the tables in speed.md."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from variants import VARIANTS

LIMITS = (  # what must hold: first row, second row (or None for a plain forward), preset, bound
    ("one-pass", None, {"compact": 5.0, "paper": 5.8}),
    ("onnxruntime", None, {"compact": 4.0, "paper": 4.5}),
)
FASTER = (("published", "one-pass", 4.0), ("published", "sharpness", 1.2))
GAP = """
What stands between one pass and the floor: convolutions of few channels do not reach the rate of a
large matrix product (the plain forward itself, whose share is the first row, shows it); each
normalisation and activation reads and writes its whole map once, which no operation counts; large
tensors made anew cost fresh pages of memory; and softmax, concatenation and upsampling copy.
onnxruntime's convolutions run at the rate of the matrix product already, so that only fewer
products make them faster: those of many channels are written after Winograd, with half of them, and
a quarter where a map was just doubled. The floor counts them all, so that a row may lie below it.
Statistics in one read of a map were tried and left out: 0.08 instead of 0.17 ms, but fifty times
less precise for a mean of 100 and a deviation of 0.01.
torch.compile of one pass was tried and left out: on the compact preset it took 135 s to compile and
ran 7 times slower than one pass as it is (both on a machine with other work).
One piece of memory for what a layer passes to the next was tried and left out: without it, 4.23
instead of 4.24 forwards on the compact preset (25 turns), 5.22 instead of 5.26 on the paper's (5).
The shared prefix counts most in a program that does not keep freed memory: there InTEnt of the
compact preset takes 73 ms with it and 84 ms without (128x128, means of three processes).
"""


def ratio(row: dict[str, Any]) -> float:
    """Median over the turns of the ratio to the plain forward beside it."""
    turns = zip(row["seconds"], row["plain"], strict=True)
    return statistics.median(took / plain for took, plain in turns)


def floor(row: dict[str, Any], facts: dict[str, Any]) -> float:
    """Median over the turns of the floor's share: operations at the product's rate, over time."""
    work = facts["members"] * facts["operations"] / facts["product"]
    turns = zip(row["seconds"], row["product"], strict=True)
    return statistics.median(work * product / took for took, product in turns)


def write(stored: dict[str, Any], path: Path) -> str:
    """Write speed.md; returns its text."""
    machine, rows = stored["machine"], stored["rows"]
    lines = [
        "# Speed",
        "",
        f"Written by `python benchmarks/speed.py`: {machine['cores']} cores, torch "
        f"{machine['torch']}, one {machine['image'][0]}x{machine['image'][1]} image, "
        "6 members. A ratio is to one plain eager forward pass of the same network in the same "
        "turn, median over the turns (how many in brackets). The floor is what the operations of "
        "six members take at the rate of a large matrix product in the same turn; the share says "
        "how near a row comes to it.",
        "",
        "| | " + " | ".join(f"{p}: ratio | share of the floor" for p in rows) + " |",
        "|---|" + "---:|---:|" * len(rows),
    ]
    for name, (title, _) in VARIANTS.items():
        cells = [cell for preset in rows.values() for cell in _cells(name, preset)]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines += ["", *_must_hold(rows), *GAP.splitlines(), "", *_others(rows)]
    text = "\n".join(lines) + "\n"
    path.write_text(text)
    return text


def _cells(name: str, preset: dict[str, Any]) -> tuple[str, str]:
    row = preset.get("times", {}).get(name, {"missing": "not measured"})
    if "missing" in row:
        return row["missing"], ""
    share = floor(row, preset["facts"]) if name in SIX else None
    shown = "" if share is None else f"{100 * share:.0f} %"
    cost = preset["facts"]["costs"].get(name)
    passes = f"; {cost[0]} forward, {cost[1]} backward" if cost else ""
    return f"{ratio(row):.2f} ({len(row['seconds'])}{passes})", shown


SIX = (
    "sequence",
    "batch",
    "one-pass",
    "contiguous",
    "by-2",
    "onnxruntime",
    "all-products",
    "openvino",
)


def _must_hold(rows: dict[str, Any]) -> list[str]:
    lines = ["| must hold | " + " | ".join(rows) + " |", "|---|" + "---:|" * len(rows)]
    for name, _, bounds in LIMITS:
        cells = [_verdict(_ratio(r, name), bounds[p], low=True) for p, r in rows.items()]
        lines.append(f"| {VARIANTS[name][0]} / one forward | " + " | ".join(cells) + " |")
    for slow, fast, bound in FASTER:
        found = [(_ratio(r, slow), _ratio(r, fast)) for r in rows.values()]
        cells = [_verdict(a / b if a and b else None, bound, low=False) for a, b in found]
        lines.append(f"| {VARIANTS[slow][0]} / {VARIANTS[fast][0]} | " + " | ".join(cells) + " |")
    return lines


def _ratio(preset: dict[str, Any], name: str) -> float | None:
    row = preset.get("times", {}).get(name, {"missing": ""})
    return None if "missing" in row else ratio(row)


def _verdict(value: float | None, bound: float, *, low: bool) -> str:
    if value is None:
        return "not measured"
    kept = value <= bound if low else value >= bound
    sign = "at most" if low else "at least"
    return f"{value:.2f} ({'yes' if kept else 'NO'}: {sign} {bound:g})"


def _others(rows: dict[str, Any]) -> list[str]:
    """Seconds, operations and memory."""
    shown: dict[str, dict[str, float]] = {}
    for preset, kept in rows.items():
        found = shown[preset] = {}
        turns = [r for r in kept.get("times", {}).values() if "missing" not in r]
        if turns:
            forward = statistics.median(s for r in turns for s in r["plain"])
            product = statistics.median(s for r in turns for s in r["product"])
            work = kept["facts"]["operations"] / 1e9
            found["seconds of one forward"] = forward
            found["10^9 operations of one forward"] = work
            found["their rate, 10^9/s"] = work / forward
            found["rate of a large matrix product, 10^9/s"] = (
                kept["facts"]["product"] / 1e9 / product
            )
            key = "seconds to build the adapter"
            found[key] = kept["facts"][key]
        found.update(kept.get("memory", {}))
    names = list(dict.fromkeys(name for found in shown.values() for name in found))
    lines = ["| | " + " | ".join(rows) + " |", "|---|" + "---:|" * len(rows)]
    for name in names:
        cells = [f"{found[name]:.3g}" if name in found else "" for found in shown.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines
