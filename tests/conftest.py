"""Common to all tests: one thread to a worker, a fixed seed, and real data if there is some."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests.browser import browse, chromium  # noqa: F401  (fixtures for all tests)

settings.register_profile("sitta", deadline=None)  # two shared cores keep no time
settings.load_profile("sitta")
torch.set_num_threads(1)  # the workers share two cores
os.environ["OMP_NUM_THREADS"] = "1"  # with all that they start


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real images, from SITTA_DATA."""
    where = os.environ.get("SITTA_DATA", "")
    if not where:
        pytest.skip("SITTA_DATA is not set: no real images here")
    return Path(where)
