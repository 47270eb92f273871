"""Settings from the command line become what a method declares."""

import pytest

import sitta
from sitta._util.settings import Constraint, parse


@pytest.mark.parametrize(
    ("constraint", "text", "value"),
    [
        (Constraint("", low=0, many=True), "1, 0.5", (1.0, 0.5)),
        (Constraint("", low=0, whole=True), "3", 3),
        (Constraint("", low=0, optional=True), "None", None),
        (Constraint("", choices=("a", "b")), " a ", "a"),
        (Constraint("", low=0), "much", "much"),
    ],
)
def test_text_becomes_a_value_of_the_type(constraint, text, value):
    assert constraint.parse(text) == value


def test_settings_without_a_constraint_cannot_come_as_text():
    kind = sitta.methods()["intent"]
    given = {"step": "0.5", "lambdas": [1.0]}
    assert parse("intent", given, kind) == {"step": 0.5, "lambdas": [1.0]}
    with pytest.raises(sitta.InvalidSetting, match=r"no setting 'stpe'.*Did you mean 'step'"):
        parse("intent", {"stpe": "0.5"}, kind)
    with pytest.raises(sitta.InvalidSetting, match="no setting 'model'"):
        parse("intent", {"model": "x"}, kind)
