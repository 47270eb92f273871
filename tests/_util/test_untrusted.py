"""Hostile JSON is refused in words, whatever it holds."""

import json
import os
import sys
from pathlib import Path

import pytest

import sitta
from sitta._util.untrusted import DEPTH, SETTINGS, read_json, read_text, shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 900 + "]" * 900, "too many lists in each other. Allowed: 16 levels"),
        ("[" * 100_000 + "]" * 100_000, "too many lists in each other"),
        ('{"a":' * 300 + "1" + "}" * 300, "too many lists in each other"),
        ("9" * 4000, "a whole number is too long. Allowed: 20 digits. Got: 4,000 digits"),
        ("-" + "9" * 5000, "a whole number is too long"),  # int() refuses that one by itself
        ('{"a": 1', "this is no JSON"),
        ("", "this is no JSON"),
    ],
)
def test_hostile_json_is_refused_in_words(text, why):
    with pytest.raises(sitta.InvalidSetting, match="The settings cannot be read") as caught:
        read_json(text, "The settings")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 400


def test_length_and_nan_are_refused_where_asked():
    assert read_json('{"a": NaN}', "It").keys() == {"a"}  # as Python writes them
    with pytest.raises(sitta.InvalidSetting, match="NaN is no JSON"):
        read_json('{"a": NaN}', "It", nan=False)
    with pytest.raises(sitta.InvalidSetting, match=r"too long.*10,000 characters.*10,002"):
        read_json(json.dumps("x" * SETTINGS), "It", longest=SETTINGS)


@pytest.mark.parametrize("value", [None, True, [], {"a": [1, 2.5, "x", None]}, -(2**63)])
def test_what_is_within_bounds_stays_as_it_is(value):
    assert read_json(json.dumps(value), "It") == value


def test_the_deepest_allowed_is_read():
    assert read_json("[" * DEPTH + "]" * DEPTH, "It")


def test_anything_is_shown_on_a_short_line():
    deep = []
    for _ in range(5000):
        deep = [deep]
    for value in (10**9000, -(10**9000), deep, "x" * 10**6, list(range(10**5)), "a\nb"):
        assert len(shown(value)) < 200
        assert "\n" not in shown(value)
    assert shown(0.5) == "0.5"
    assert shown("mean") == "'mean'"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_a_pipe_a_device_and_too_much_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "text").write_text("a" * 11)
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), tmp_path):
        with pytest.raises(sitta.InvalidSetting, match="is no file"):
            read_text(path)
    with pytest.raises(sitta.InvalidSetting, match=r"too long.*10 bytes"):
        read_text(tmp_path / "text", 10)
    assert read_text(tmp_path / "text", 11) == "a" * 11
