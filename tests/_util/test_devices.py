"""A device that this machine does not have is refused, and only usable ones are offered."""

import re

import pytest
import torch

from sitta._util import devices
from sitta._util.devices import pick_device, usable_devices
from sitta.errors import InvalidSetting


def test_every_device_that_is_offered_can_be_used():
    for name in usable_devices():
        assert pick_device(name).type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_gpu_that_is_not_here_is_not_offered(name):
    if name in usable_devices():
        pytest.skip("this machine has it")
    with pytest.raises(InvalidSetting, match="this machine has no GPU that torch can use") as told:
        pick_device(name)
    allowed = re.search(r"Allowed: (.*?)\.", str(told.value))[1].split(", ")
    assert name not in allowed
    assert allowed == usable_devices()


def test_gpus_are_offered_by_their_numbers(monkeypatch):
    monkeypatch.setattr(devices.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices.torch.cuda, "device_count", lambda: 3)
    assert usable_devices()[:5] == ["auto", "cpu", "cuda", "cuda:1", "cuda:2"]
    assert pick_device("auto") == torch.device("cuda")
