"""Lay the spinal volumes out as two domains; masks hold cord (1) and grey matter (2).

    python scripts/spinal3d.py --data DATA --out SPINAL3D

The benchmark has one class, and reads the cord alone from ``masks_cord``. Images are linked, not
copied. Sites go to the domains in turn, those with most volumes first, so that each domain has
several volumes to train on and to hold out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nibabel
import numpy as np

DOMAINS = ("one", "two")


def write(site: Path, folder: Path) -> int:
    """The volumes of a site; returns how many."""
    images = sorted((site / "images").glob("*.nii.gz"))
    for name in ("images", "masks", "masks_cord"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path in images:
        cord, grey = (nibabel.load(site / kind / path.name) for kind in ("masks_cord", "masks"))
        inside = np.asarray(cord.dataobj) > 0
        classes = np.where(np.asarray(grey.dataobj) > 0, 2, inside).astype(np.uint8)
        for kind, values in (("masks", classes), ("masks_cord", inside.astype(np.uint8))):
            nibabel.save(nibabel.Nifti1Image(values, cord.affine), folder / kind / path.name)
        link = folder / "images" / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve())
    return len(images)


def main() -> None:
    """All sites of DATA/spinal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    sites = [p for p in (given.data / "spinal").iterdir() if (p / "images").is_dir()]
    sites.sort(key=lambda p: (-len(list((p / "images").iterdir())), p.name))
    for number, site in enumerate(sites):
        domain = DOMAINS[number % len(DOMAINS)]
        count = write(site, given.out / "spinal3d" / domain)
        print(f"{site.name}: {count} volumes to {domain}")


if __name__ == "__main__":
    main()
