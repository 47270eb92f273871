"""Notes are declared once: code, sentence, severity, advice, and to which images they apply."""

import pytest

from sitta.prediction.notes import NOTES, REMEDIES, Limits, flagged, urgency
from sitta.prediction.notes import note as note_of

INFORMATION = {
    "equal-entropies",
    "far-from-source",  # alone, it rarely means a bad mask
    "foreground-in-some-members",
    "left-as-trained",
    "members-differ",
    "no-reliable-pixel",
    "no-statistics",
    "tiny-feature-map",
    "two-members-agree",
    "zero-gradient",
}
STOP = {
    "colour-image",
    "empty-mask",
    "grey-image",
    "looks-inverted",
    "looks-rotated-left",
    "looks-rotated-right",
    "looks-upside-down",
    "no-foreground",
    "unlike-training",
}


def test_every_note_says_what_and_what_to_do():
    assert len(NOTES) == 25
    for code, note in NOTES.items():
        assert note.code == code
        assert note.sentence.endswith(".")
        assert note.advice.endswith(".")
        assert note.severity in ("stop", "check", "information")
        assert note.remedy in ("", *REMEDIES)


def test_the_notes_that_stop():
    assert {code for code, note in NOTES.items() if note.severity == "stop"} == STOP
    assert urgency(STOP) == 2
    assert urgency([*INFORMATION, "members-disagree"]) == 1
    assert urgency(INFORMATION) == urgency([]) == 0


def test_the_notes_that_ask_a_person_to_check():
    assert {code for code in NOTES if not flagged([code])} == INFORMATION
    assert not flagged([])
    assert not flagged(INFORMATION)
    assert flagged([*INFORMATION, "members-disagree"])


def test_a_code_of_another_version_stands_for_itself_and_is_checked():
    assert note_of("new-code").sentence == "new-code"
    assert flagged(["new-code"])


@pytest.mark.parametrize(
    ("card", "agreement", "distance"),
    [(None, 0.7, None), ({"trust": {"agreement": 0.95, "distance": 2.0}}, 0.95, 2.0)],
)
def test_limits_in_plain_types(card, agreement, distance):
    assert Limits.of(card).describe() == {
        "agreement": agreement,
        "distance": distance,
        "dice": 0.8,
        "usual": None,
    }
