"""The deprecation policy: old names warn with version and replacement, and then go."""

import importlib
import re
import warnings

import pytest
from packaging.version import Version

import sitta
from sitta._util.deprecation import DEPRECATIONS, Deprecation
from tests import ROOT
from tests.shell import sitta_command

PAGE = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
NAMES = [old.old for old in DEPRECATIONS]


def test_a_warning_has_versions_and_replacement_and_names_the_line_of_the_caller():
    def renamed():
        Deprecation("a()", "b()", "0.2", "0.4").warn()

    with pytest.warns(FutureWarning) as caught:
        renamed()
    said = "a() is deprecated since Sitta 0.2 and will be removed in 0.4: use b()."
    assert str(caught[0].message) == said
    assert caught[0].filename == __file__


@pytest.mark.parametrize("old", DEPRECATIONS, ids=NAMES)
def test_two_minor_versions_pass_before_a_removal_and_no_removal_is_forgotten(old):
    since, removed, now = map(Version, (old.since, old.removed, sitta.__version__))
    assert since <= now
    assert removed >= Version(f"{since.major}.{since.minor + 2}") or removed.major > since.major
    assert now < removed, f"{old.old} was to be removed in {old.removed}: remove it"


def test_the_page_and_the_changelog_list_every_deprecation():
    rows = [
        tuple(row) for row in re.findall(r"^\| `(.+)` \| `(.+)` \| (\S+) \| (\S+) \|$", PAGE, re.M)
    ]
    assert rows == [(d.old, d.use, d.since, d.removed) for d in DEPRECATIONS]
    sections = re.split(r"^## \[", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    for old in DEPRECATIONS:
        (section,) = [text for text in sections if text.startswith(f"{old.since}.0]")]
        assert re.search(r"^### Deprecated$", section, re.M), old
        assert old.removed in section.split("### Deprecated")[1].split("###")[0], old


@pytest.mark.parametrize(("given", "target"), [(False, "any"), (True, "cpu")])
def test_the_old_setting_of_the_export_warns_and_still_works(given, target, monkeypatch, tmp_path):
    seen = []
    build = importlib.import_module("sitta.export.build")
    monkeypatch.setattr(build, "write", lambda *args, **how: seen.append(how["target"]))
    model, out = sitta.load("phantom-alder"), tmp_path / "a.onnx"
    with pytest.warns(
        FutureWarning, match=r"since Sitta 0\.2 .* removed in 0\.4: use target="
    ) as w:
        sitta.export_onnx(model, out, winograd=given)
    assert w[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sitta.export_onnx(model, out, target=target)
    assert seen == [target, target]


def test_the_old_option_of_the_export_warns_in_one_line_and_still_works(monkeypatch, tmp_path):
    seen = {}

    class Written:
        def as_dict(self):
            return {}

    export = importlib.import_module("sitta.export")
    monkeypatch.setattr(export, "export_onnx", lambda *args, **how: seen.update(how) or Written())
    words = ("export", "phantom-alder", tmp_path / "a.onnx", "--json")
    done = sitta_command(*words, "--no-winograd")
    assert done.returncode == 0
    assert seen["target"] == "any"
    assert done.stderr.splitlines() == [
        "sitta: sitta export --no-winograd is deprecated since Sitta 0.2 and will be removed in "
        "0.4: use --target any."
    ]
    assert sitta_command(*words).stderr == ""
    assert "winograd" not in sitta_command("export", "--help").stdout
