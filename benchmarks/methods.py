"""All methods at fixed lambdas on phantom sites: what moves the Dice, the method or the lambda?

    python benchmarks/methods.py [--images 4] [--sites cedar fir ...]

A row is a method, a column the lambda that it was held at; "own" is the method's default. Writes
methods.md beside this file. MEMO takes 8 views here, as on a CPU one would.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import sitta
from sitta.core.accel import allocator
from sitta.data import phantom
from sitta.inference.demo import dice

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
ORACLE = "best lambda of each image (needs the truth)"
ALONE: dict[str, tuple[str, dict[str, object]]] = {
    "SITA-OP, vote": ("sita", {"op": "vote"}),
    "SITA-OP, top-k": ("sita", {"op": "top-k"}),
    **{f"InTEnt, {s}": ("intent", {"strategy": s}) for s in ("ent-baln", "average", "vote")},
}


def scores(
    images: int, sites: Sequence[str], rows: Sequence[str] = tuple(ROWS)
) -> dict[str, dict[str, Tensor]]:
    """Dice of every image of every site, by method and lambda."""
    model = sitta.load("phantom-alder")
    data = [phantom.batch(site, images, seed=3) for site in sites]

    def each(name: str, settings: dict[str, object]) -> Tensor:
        adapt = sitta.method(name, model, **settings)
        return torch.cat([dice(adapt(x).mask, y) for x, y in data])

    table: dict[str, dict[str, Tensor]] = {}
    for label in rows:
        if label == ORACLE:
            adapt = sitta.InTEnt(model)
            best = [dice(adapt(x).member_masks, y).amax(dim=0) for x, y in data]
            table[label] = {"own": torch.cat(best)}
            continue
        name, settings = {**ROWS, **ALONE}[label]
        table[label] = {"own": each(name, settings)}
        if label in ROWS:
            usual = sitta.method(name, model, **settings).lam  # known already
            for lam in (lam for lam in LAMBDAS if not (name == "sita" and lam == 1)):
                known = table[label]["own"] if lam == usual else None
                held = each(name, {**settings, "lam": lam}) if known is None else known
                table[label][f"{lam:g}"] = held
        print(
            label, {k: round(100 * float(v.mean()), 1) for k, v in table[label].items()}, flush=True
        )
    return table


def interval(values: Tensor) -> str:
    """Mean in percent and the 95 % bootstrap interval over images."""
    draws = torch.randint(
        len(values), (2000, len(values)), generator=torch.Generator().manual_seed(0)
    )
    low, high = values[draws].mean(dim=1).quantile(torch.tensor([0.025, 0.975])).tolist()
    return f"{100 * float(values.mean()):.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def markdown(table: dict[str, dict[str, Tensor]], images: int, sites: Sequence[str]) -> str:
    """The table, with what it was made of."""
    columns = [f"{lam:g}" for lam in LAMBDAS] + ["own"]
    lines = [
        "# Methods at fixed lambdas",
        "",
        f"Written by `python benchmarks/methods.py --images {images}`: mean Dice in percent of the "
        f"model `phantom-alder` over {images} unseen scenes of each of the sites "
        f"{', '.join(sites)}, with 95 % bootstrap intervals over images. MEMO with 8 views. "
        "Statistics mixed in the layer; InTEnt captures them.",
        "",
        "| method | " + " | ".join(f"λ {c}" if c != "own" else "its own" for c in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for label, row in table.items():
        cells = [interval(row[c]) if c in row else "" for c in columns]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "SITA's views were made milder after a first, stronger choice had been seen to do badly on "
        "these same images, so its row is favoured by that much. Nothing else was chosen by them.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and store."""
    allocator.keep_between_passes()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--sites", nargs="+", default=[s for s in phantom.SITES if s != "alder"])
    given = parser.parse_args()
    table = scores(given.images, given.sites, (*ROWS, *ALONE, ORACLE))
    (HERE / "methods.md").write_text(markdown(table, given.images, given.sites))


if __name__ == "__main__":
    main()
