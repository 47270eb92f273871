"""Images of a site that the model that ships has never seen."""

import pytest

from sitta.data import phantom


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    phantom.write(folder, "rowan", 24, (64, 64))
    return folder / "phantom" / "rowan" / "images"
