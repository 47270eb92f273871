"""Common to all tests: one thread to a worker, a fixed seed, and real data if there is some."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from sitta.export import build
from tests.browser import browse, chromium  # noqa: F401  (fixtures for all tests)
from tests.export.halves import answers

settings.register_profile("sitta", deadline=None)  # two shared cores keep no time
settings.load_profile("sitta")
torch.set_num_threads(1)  # the workers share two cores
os.environ["OMP_NUM_THREADS"] = "1"  # with all that they start
SLOW = (  # what starts processes, trains, exports, opens a browser, or is long in the sum
    "_util/test_process.py",
    "_util/test_threads.py",
    "adaptation/test_finding.py",
    "adaptation/test_methods.py::TestInTEntSharpness",
    "adaptation/test_methods.py::TestInTEntUnbiasedInParts",
    "adaptation/test_methods.py::TestSITAByVote",
    "bench",
    "core/accel/test_budget.py",
    "core/test_norm_adapters.py",
    "docs/test_shell.py",
    "docs/test_site.py",
    "e2e",
    "export",
    "inference/test_run.py",
    "prediction/test_toy_score.py",
    "report/test_browser.py",
    "serve",
    "test_package.py",
    "training",
)


def pytest_collection_modifyitems(items):
    """Mark what a developer can wait for: ``pytest -m quick``."""
    slow = tuple(f"tests/{name}" for name in SLOW)
    for item in items:
        if not item.nodeid.startswith(slow):
            item.add_marker("quick")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _answers_once():
    """Half of every exported graph follows from settings alone: it is made once for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "answers", answers)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real images, from SITTA_DATA."""
    where = os.environ.get("SITTA_DATA", "")
    if not where:
        pytest.skip("SITTA_DATA is not set: no real images here")
    return Path(where)
