"""The model that ships, as it would be without its calibration: its name, in a zoo of its own."""

import json

from safetensors import safe_open
from safetensors.numpy import save_file

from sitta.models.zoo import SHIPPED, SUFFIX, SUMS, digest

NAME = "phantom-alder"


def write(folder):
    """Write the zoo and give its folder, which SITTA_ZOO may name."""
    with safe_open(SHIPPED / f"{NAME}{SUFFIX}", framework="numpy") as file:
        card = json.loads(file.metadata()["sitta"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del card["calibration"]
    path = folder / f"{NAME}{SUFFIX}"
    save_file(tensors, path, {"sitta": json.dumps(card)})
    (folder / SUMS).write_text(f"{digest(path)}  {path.name}\n")
    return folder
