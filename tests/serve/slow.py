"""A worker without models, that does what its settings tell it: sleeps, dies, fails or answers."""

import os
import time
from pathlib import Path

from sitta.errors import SittaError
from sitta.serve.errors import ApiError

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
METHOD = {
    "name": "intent",
    "title": "",
    "summary": "",
    "takes_gradients": False,
    "default": True,
    "settings": [],
}
ANSWER = {"classes": ["organ"], "slices": 1, "activation": "sigmoid"}


def main(config, pipe):
    if "unfit" in config.models:
        pipe.send(("unfit", SittaError("There is no such model.")))
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
        while "until" in told and not Path(told["until"]).exists():
            time.sleep(0.01)
        if told.get("die"):
            os._exit(11)
        if told.get("refuse"):
            error = ApiError(422, "bad-image", f"{job['files'][0]} is bad.", fix=job["out"])
            pipe.send(("refused", error))
        elif told.get("fail"):
            pipe.send(("failed", "KeyError at secret.py:1"))
        else:
            pipe.send(("done", ({**ANSWER, "worker": os.getpid()}, None)))
