"""Runs to report on: invented scores, with pictures that the package itself draws."""

import numpy as np

from sitta.report.card_image import card_image

LAMBDAS = [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
BY_DOUBT = ["a/ten 10.png", "c/scan.nii.gz", "b/two.png", "a/nine 9.png"]  # the names of several()


def disc(shape=(96, 96), centre=(0.5, 0.5), radius=0.25):
    rows, columns = np.indices(shape)
    away = np.hypot(rows - centre[0] * shape[0], columns - centre[1] * shape[1])
    return (away < radius * min(shape)).astype(np.int64)


def a_picture(seed=0, shape=(96, 96), *, source=True):
    chance = np.random.default_rng(seed)
    members = np.stack([disc(shape, (0.5, 0.4 + 0.2 * lam), 0.3) for lam in LAMBDAS])
    image = disc(shape) + 0.1 * chance.standard_normal((1, *shape))
    bits = np.linspace(0, 1, shape[0] * shape[1]).reshape(shape)
    return card_image(image, members[0] if source else None, members[3], members, bits)


def a_row(name="scan.png", at=None, agreement=0.9, notes=(), **changed):
    scores = {
        "uncertainty": 0.1,
        "disagreement": 0.05,
        "change": 0.2,
        "distance": 0.4,
        "area_source": 0.1,
        "area": 0.12,
        "seconds": 0.2,
        "weights": [0.3, 0.25, 0.2, 0.1, 0.1, 0.05],
        "entropies": [0.1] * 6,
        "areas": [0.1] * 6,
    }
    told = {"file": name, "slice": at, "agreement": agreement, "notes": list(notes)}
    return {**scores, **told, **changed}


def a_record(name="scan.png", doubt=0.3, *, rows=None, shown=0, drawn=None):
    rows = rows or [a_row(name)]
    return {
        "name": name,
        "kind": "PNG" if len(rows) == 1 else "NIfTI",
        "shape": [96, 96] if len(rows) == 1 else [96, 96, len(rows)],
        "slices": len(rows),
        "shown": shown,
        "doubt": doubt,
        "output": f"masks/{name}",
        "lambdas": LAMBDAS,
        "source_member": 0,
        "rows": rows,
        "picture": drawn or a_picture(),
    }


def a_run(**changed):
    run = {
        "title": "Scans of Tuesday",
        "model": "phantom-alder",
        "model_hash": "sha256:0123",
        "method": "InTEnt",
        "settings": {"step": 0.2},
        "started": "2025-03-04T09:12:33+00:00",
        "seconds": 92.4,
        "counts": {"done": 3, "skipped": 1, "failed": 1},
        "failures": [{"name": "broken.png", "error": "The file is not a readable PNG."}],
        "versions": {"sitta": "0"},
        "machine": "two cores",
    }
    return {**run, **changed}


def several():
    volume = [
        a_row(at=i, agreement=0.95 - 0.05 * i, notes=["members-disagree"][: i == 7])
        for i in range(8)
    ]
    return [
        a_record("b/two.png", 0.2, rows=[a_row(agreement=0.5, change=0.1)]),
        a_record("a/ten 10.png", 0.9, rows=[a_row(agreement=0.6, notes=["no-foreground"])]),
        a_record("a/nine 9.png", 0.1, rows=[a_row(agreement=0.97, change=None, distance=None)]),
        a_record("c/scan.nii.gz", 0.5, rows=volume, shown=3, drawn=a_picture(shape=(96, 60))),
    ]
