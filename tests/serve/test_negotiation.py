"""The form of an answer, by the header Accept."""

import pytest

from sitta.serve.errors import ApiError
from sitta.serve.negotiation import wanted


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "application/json"),
        ("image/png;q=0.9, application/x-nifti", "application/x-nifti"),
        ("text/html, */*", "application/json"),
        ("image/*", "image/png"),
        ("image/png;q=x, application/json;q=0.5", "image/png"),
        ("application/json;q=0, image/png;q=0.1", "image/png"),
    ],
)
def test_the_best_form_that_there_is(accept, form):
    assert wanted(accept) == form


def test_no_form_that_there_is():
    with pytest.raises(ApiError) as caught:
        wanted("text/html")
    assert caught.value.status == 406
    assert "application/x-nifti" in caught.value.allowed
