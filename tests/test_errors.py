"""Errors that workers send home."""

import pickle

import pytest

from sitta.errors import InvalidSetting, MissingExtra, SittaError


@pytest.mark.parametrize(
    "error",
    [
        SittaError("All is lost.", allowed="hope", got="none", fix="try again"),
        InvalidSetting("The step is out of range.", allowed="0 < step <= 1"),
        MissingExtra("The service", "serve", "fastapi"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_reads_the_same_in_another_process(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.fix == error.fix != str(error)
