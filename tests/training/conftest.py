"""Small domains on disk, drawn once."""

import pytest

from sitta.data import phantom
from sitta.data.domains import find_domain
from sitta.data.preprocess import Preprocess
from sitta.training import Job, Recipe, train

SMALL = Preprocess(size=(32, 32))


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phantoms")
    phantom.write(folder, "alder", 12, (32, 32))
    return folder


@pytest.fixture(scope="session")
def job(root):
    recipe = Recipe.named("fast", steps=12, batch=4)
    return Job(find_domain(root, "phantom", "alder"), recipe, SMALL)


@pytest.fixture(scope="session")
def trained(job, tmp_path_factory):
    """What the job comes to when nothing disturbs it; for reading."""
    return train(job, tmp_path_factory.mktemp("trained"))
