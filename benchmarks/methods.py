"""All methods at fixed lambdas on phantom sites: what moves the Dice, the method or the lambda?

    python benchmarks/methods.py [--images 4] [--sites cedar fir ...]

A row is a method, a column the lambda that it was held at; "own" is the method's default. Writes
methods.md beside this file. MEMO takes 8 views here, as on a CPU one would.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import sitta
from sitta.data import phantom
from sitta.demo import dice

HERE = Path(__file__).parent
LAMBDAS = (1.0, 0.5, 0.0)
# Source is compared in-layer, as the other methods mix.
ROWS: dict[str, tuple[str, dict[str, object]]] = {
    "Source": ("source", {"statistics": "in-layer"}),
    "Tent": ("tent", {}),
    "Tent, 10 steps": ("tent", {"steps": 10}),
    "SAR": ("sar", {}),
    "FSeg": ("fseg", {}),
    "SITA": ("sita", {}),
    "MEMO": ("memo", {"views": 8}),
}
ALONE: dict[str, tuple[str, dict[str, object]]] = {
    "SITA-OP, vote": ("sita", {"op": "vote"}),
    "SITA-OP, top-k": ("sita", {"op": "top-k"}),
    **{f"InTEnt, {s}": ("intent", {"strategy": s}) for s in ("ent-baln", "average", "vote")},
}


def scores(
    images: int, sites: Sequence[str], rows: Sequence[str] = tuple(ROWS)
) -> dict[str, dict[str, float]]:
    """Mean Dice over all images of all sites, by method and lambda."""
    model = sitta.load("phantom-alder")
    data = [phantom.batch(site, images, seed=3) for site in sites]

    def mean(name: str, settings: dict[str, object]) -> float:
        adapt = sitta.method(name, model, **settings)
        found = [float(dice(adapt(x).mask, y).mean()) for x, y in data]
        return sum(found) / len(found)

    table: dict[str, dict[str, float]] = {}
    for label in rows:
        name, settings = {**ROWS, **ALONE}[label]
        table[label] = {"own": mean(name, settings)}
        if label in ROWS:
            held = [lam for lam in LAMBDAS if not (name == "sita" and lam == 1)]
            table[label] |= {f"{lam:g}": mean(name, {**settings, "lam": lam}) for lam in held}
        print(label, {k: round(100 * v, 1) for k, v in table[label].items()}, flush=True)
    return table


def markdown(table: dict[str, dict[str, float]], images: int, sites: Sequence[str]) -> str:
    """The table, with what it was made of."""
    columns = [f"{lam:g}" for lam in LAMBDAS] + ["own"]
    lines = [
        "# Methods at fixed lambdas",
        "",
        f"Written by `python benchmarks/methods.py --images {images}`: mean Dice in percent of the "
        f"model `phantom-alder` over {images} unseen scenes of each of the sites "
        f"{', '.join(sites)}. MEMO with 8 views. Statistics mixed in the layer; InTEnt captures "
        "them.",
        "",
        "| method | " + " | ".join(f"λ {c}" if c != "own" else "its own" for c in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for label, row in table.items():
        cells = [f"{100 * row[c]:.1f}" if c in row else "" for c in columns]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--sites", nargs="+", default=[s for s in phantom.SITES if s != "alder"])
    given = parser.parse_args()
    table = scores(given.images, given.sites, (*ROWS, *ALONE))
    (HERE / "methods.md").write_text(markdown(table, given.images, given.sites))


if __name__ == "__main__":
    main()
