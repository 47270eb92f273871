"""Fuzz the readers of tables: profiles, calibrations, cards, decisions, sessions, records of runs.

``make fuzz`` runs this after the images. A value of a whole file is replaced by one that nobody
means, or its bytes are damaged. What is no ``SittaError``, takes more than 5 seconds or a message
of more than 2,000 characters is a fault: the file is kept, and the exit code is 1.
"""

import argparse
import base64
import copy
import json
import math
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from sitta._util.untrusted import read_json
from sitta.errors import SittaError
from sitta.models import zoo
from sitta.models.profile import Profile, profile_of_card
from sitta.models.profile.card import card_of_profile
from sitta.prediction.calibration import calibration_from, calibration_of
from sitta.prediction.decisions import Decision, read, to_csv
from sitta.serve.quotas import Limits
from sitta.serve.reviewing import Run
from sitta.serve.session import MARK, Session
from tests.data import fuzz

SECONDS = 5
LONGEST = 2000  # characters of a message
HALVES = base64.b64encode(np.full(1024, 0.5, "<f2").tobytes()).decode()
FLAT = {"shape": [1024], "float16": HALVES}
CURVE = {"x": [0.0, 1.0], "y": [0.2, 0.9]}
CALIBRATION = {
    "version": 1,
    "images": 12,
    "subjects": 12,
    "labelled": True,
    "weights": "00",
    "limit": 0.7,
    "members": {"none": {"images": 12, "adapt": 0.9}},
    "classes": [
        {
            "name": "organ",
            "adapts": True,
            "gain": 0.02,
            "plausible": 0.5,
            "prior": {
                "mean": FLAT,
                "components": {"shape": [1, 1024], "float16": HALVES},
                "grid": [32, 32],
                "size": 0.2,
            },
            "dice": {
                "curves": {"sharp": CURVE, "shape": CURVE},
                "weights": {"sharp": 0.5, "shape": 0.5},
                **dict.fromkeys(("low", "middle", "high"), CURVE),
            },
        }
    ],
    "inputs": {
        "quantiles": [0.0, 0.1, 0.2, 0.3, 1.0],
        "saturation": [0.0, 0.01],
        "image": {"shape": [16, 16], "float16": HALVES[:683] + "="},
        "lowest": 0.5,
        "margin": 0.05,
    },
    "statistics": {"1": [FLAT, FLAT]},
}
PREPROCESS = {"dims": 2, "channels": 1, "size": [64, 64], "scale": "min-max"}
PROFILE = {
    "profile": 1,
    "source": "chest/a",
    "licence": "x",
    "model": {"factory": "net.py:build", "arguments": {"a": 1}, "output": "out"},
    "classes": [{"name": "organ", "colour": "#d55e00", "threshold": 0.4}],
    "preprocess": PREPROCESS,
    "inference": {"window": [64, 64], "overlap": 0.5, "statistics": "window"},
    "postprocess": {"largest_component": ["organ"], "fill_holes": True},
    "trust": {"agreement": 0.9, "distance": 1.0},
}
CARD = {
    "architecture": "UNet",
    "config": {},
    "source": "chest/a",
    "classes": ["background", "organ"],
    "preprocess": PREPROCESS,
    "trust": {"agreement": 0.9, "distance": 1.0},
    "calibration": CALIBRATION,
    "profile": {"profile": 1, "licence": "x", "model": {"activation": "sigmoid"}},
}
ENTRY = {
    "version": 1,
    "since": 1.0,
    "answer": {
        "id": "a" * 32,
        "name": "a.png",
        "path": "b/a.png",
        "shape": [8, 8],
        "classes": ["organ"],
        "slices": 1,
        "activation": "sigmoid",
        "rows": [{"agreement": 0.9}],
        "lambdas": [1.0, 0.0],
        "source_member": 0,
    },
    "review": [{"file": "b/a.png", "slice": 0, "decision": "accept", "threshold": 0.5}],
    "transform": None,
}
RECORD = {"name": "a.png", "outputs": ["masks/a.png"], "mask_sha256": "00", "classes": ["organ"]}
VALUES = [0, -1, 2**31, 2**63 - 1, 10**30, 1e308, math.nan, math.inf, 5e-324, True, None]
VALUES += [
    "",
    "nan",
    "=cmd",
    "\x1b[31m",
    "../../etc/passwd",
    "/etc/passwd",
    "x" * 20_000,
    "9" * 4400,
]
VALUES += [[], {}, [[[[1]]]], [0] * 3000, {"a": 1}, {"shape": [2**20], "float16": ""}, [None], FLAT]


def profile(folder, text):
    (folder / "model.toml").write_text(text, encoding="utf-8", errors="replace")
    Profile.read(folder / "model.toml").as_dict()


def of_tables(folder, text):
    Profile.from_dict(read_json(text, "The profile")).as_dict()


def calibration(folder, text):
    (folder / "a.json").write_text("{" + text[1:], encoding="utf-8", errors="replace")
    known = calibration_from(folder / "a.json")
    json.dumps(known.as_dict(), allow_nan=False)
    maps = np.zeros((1, 8, 8), np.float32)
    maps[:, 2:5, 2:5] = 1
    for one in known.classes:
        if one.prior is not None:
            assert np.isfinite(one.prior.plausibility(maps)).all()
        if one.dice is not None:
            scores = dict.fromkeys(one.dice.weights, np.array([0.5]))
            assert np.isfinite(one.dice.interval(scores)).all()
    if known.inputs is not None:
        known.inputs.codes(np.random.default_rng(0).random((1, 1, 32, 32)))


def card(folder, text):
    path = folder / "net.safetensors"
    path.write_bytes(save({"w": np.zeros(1, np.float32)}, metadata={"sitta": text}))
    about = zoo.card(path)
    found = profile_of_card(about, path)
    card_of_profile(found)
    calibration_of(type("Model", (), {"card": about, "profile": found})())


def decisions(folder, text):
    (folder / "decisions.csv").write_text(text, encoding="utf-8", errors="replace")
    to_csv(read(folder / "decisions.csv"))


def session(folder, text):
    (folder / MARK).touch()
    result = folder / f"result-{'a' * 32}"
    (result / "upload").mkdir(parents=True, exist_ok=True)
    (result / "entry.json").write_text(text, encoding="utf-8", errors="replace")
    store = Session(Limits(), folder)
    store.session()
    store.close()
    assert result.exists(), "a result is gone"


def record(folder, text):
    (folder / ".sitta").mkdir(exist_ok=True)
    (folder / "masks").mkdir(exist_ok=True)
    (folder / "masks" / "a.png").touch()
    hashed = f"script-src 'sha256-{'A' * 43}='"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{hashed}">'
    (folder / "report.html").write_text(meta)
    (folder / ".sitta" / "0.json").write_text(text, encoding="utf-8", errors="replace")
    run = Run(folder)
    for outputs in run.outputs.values():
        for name in outputs:
            path = run.file(name)
            assert path is None or path.resolve().is_relative_to(folder.resolve()), name


READERS = {
    "model.toml": (profile, None),
    "profile.json": (of_tables, PROFILE),
    "calibration.json": (calibration, CALIBRATION),
    "card.json": (card, CARD),
    "decisions.csv": (decisions, None),
    "entry.json": (session, ENTRY),
    "record.json": (record, RECORD),
}


def whole():
    """Files of all kinds without damage, by name."""
    from sitta.models.profile.writing import text

    made = {name: json.dumps(tables) for name, (_, tables) in READERS.items() if tables}
    said = Decision(file="a.png", slice=2, decision="accept", threshold=0.4, remark="=x")
    return {**made, "model.toml": text(PROFILE), "decisions.csv": to_csv([said, said])}


def places(value, path=()):
    """Where a value of tables and lists holds another."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, one in inside:
        yield (*path, key)
        yield from places(one, (*path, key))


def changed(tables, draw):
    """The tables with one value replaced, removed or renamed."""
    made = copy.deepcopy(tables)
    *way, last = draw.choice(list(places(made)))
    home = made
    for key in way:
        home = home[key]
    how = draw.choice(["put", "put", "put", "remove", "rename"])
    if how == "put" or isinstance(home, list):
        home[last] = draw.choice(VALUES)
    else:
        value = home.pop(last)
        if how == "rename":
            home[str(draw.choice(VALUES))[:40]] = value
    return made


def damaged(number, seed, corpus):
    """A file with damage: the same for the same numbers."""
    draw = random.Random(f"{seed} {number} tables")  # noqa: S311  (no secret)
    name = draw.choice(list(corpus))
    tables = READERS[name][1]
    if tables and draw.random() < 0.7:
        return name, json.dumps(changed(tables, draw))
    _, content = fuzz.damaged(number, seed, {name: corpus[name].encode()})
    return name, content.decode("utf-8", "replace")


def attempt(name, text, folder):
    """Read it; returns the fault, or nothing."""
    start = time.process_time()
    refused = ""
    try:
        READERS[name][0](folder, text)
    except SittaError as error:
        refused = str(error)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if len(refused) > LONGEST:
        return f"a message of {len(refused)} characters"
    return "took too long" if time.process_time() - start > SECONDS else ""


def run(count, seed, seconds=math.inf):
    """Read that many files, or as many as there is time for; how many, and the faults."""
    corpus, found, end = whole(), [], time.monotonic() + seconds
    for name, text in corpus.items():
        with tempfile.TemporaryDirectory() as folder:
            READERS[name][0](Path(folder), text)
    for number in range(count):
        if time.monotonic() > end:
            return number, found
        name, text = damaged(number, seed, corpus)
        with tempfile.TemporaryDirectory() as folder:
            fault = attempt(name, text, Path(folder))
        if fault:
            found.append((number, name, fault, text))
    return count, found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--faults", type=Path, default=Path("fuzz-faults"))
    given = options.parse_args()
    count, found = run(sys.maxsize, given.seed, given.seconds)
    for number, name, fault, text in found:
        given.faults.mkdir(parents=True, exist_ok=True)
        path = given.faults / f"{given.seed}-{number}-{name}"
        path.write_text(text, encoding="utf-8", errors="replace")
        print(f"fault: {path} ({fault})")
    print(f"fuzz: {count:,} tables read, {len(found)} faults")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
