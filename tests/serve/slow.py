"""A worker without models, that does what its settings tell it: sleeps, dies, fails or answers."""

import os
import time
from pathlib import Path

from sitta.serve.refusal import Refusal

MODEL = {
    "name": "none",
    "title": "",
    "task": "",
    "source": "",
    "classes": ["organ"],
    "channels": 1,
    "dims": 2,
    "size": None,
    "default": True,
    "graph": False,
    "method": "intent",
    "methods": ["intent"],
    "settings": {},
    "note": "",
}
METHOD = {"name": "intent", "title": "", "summary": "", "default": True, "settings": []}
ANSWER = {"classes": ["organ"], "slices": 1, "activation": "sigmoid"}


def main(orders, pipe):
    if "unfit" in orders.models:
        pipe.send(("unfit", (False, "There is no such model.")))
        return
    pipe.send(("ready", {"models": [MODEL], "methods": [METHOD]}))
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        told = job["settings"]
        (Path(job["out"]) / "some.npy").write_bytes(b"0" * int(told.get("bytes", 0)))
        time.sleep(told.get("sleep", 0))
        if told.get("die"):
            os._exit(11)
        if told.get("refuse"):
            refusal = Refusal(422, "bad-image", f"{job['files'][0]} is bad.", fix=job["out"])
            pipe.send(("refused", refusal.plain()))
        elif told.get("fail"):
            pipe.send(("failed", "KeyError at secret.py:1"))
        else:
            pipe.send(("done", {**ANSWER, "worker": os.getpid()}))
