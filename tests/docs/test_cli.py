"""The command-line reference has every command, and only options that exist."""

import importlib
import re
from dataclasses import fields

import pytest
import typer

from sitta import cli
from sitta.cli.options import Preprocessing
from tests import ROOT

TEXT = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## `sitta (.+)`$", TEXT, re.MULTILINE)


def commands():
    """Every command by its words, groups included, with its options."""
    for verb in cli.VERBS:
        importlib.import_module(f"sitta.cli.{verb}")
    pending = [((), typer.main.get_command(cli.app))]
    found = {}
    while pending:
        words, command = pending.pop()
        found[words] = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
        pending += [((*words, name), sub) for name, sub in getattr(command, "commands", {}).items()]
    return found


def words(heading):
    """The words that name the command: up to the first argument or option."""
    return tuple(re.match(r"(?:[a-z]+(?: |$))+", heading)[0].split())


def test_every_command_has_a_section():
    groups = {(), ("data",)}
    assert {words(heading) for heading in HEADINGS} == set(commands()) - groups


@pytest.mark.parametrize(
    "verb", ["calibrate", "export", "predict", "profile new", "serve", "train"]
)
def test_preprocessing_has_the_same_options_everywhere(verb):
    assert {f"--{field.name}" for field in fields(Preprocessing)} <= commands()[tuple(verb.split())]


@pytest.mark.parametrize("heading", HEADINGS, ids=lambda heading: " ".join(words(heading)))
def test_options_exist(heading):
    shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", heading))
    assert shown <= commands()[words(heading)]
