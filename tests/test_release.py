"""What a release needs: citation, changelog, workflows, forms, and the scripts behind them."""

import json
import re
import shlex
import tomllib
from datetime import date

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from scripts import measure_coverage, tag_check, wheel_test

import sitta
from tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASED = re.findall(r"^## \[(\d\S*)\] - (\S+)$", CHANGELOG, re.MULTILINE)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [p for p in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config"]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def name(path):
    return path.name


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(stem):
    return load(ROOT / ".github" / "workflows" / f"{stem}.yml")["jobs"]


def steps(workflow):
    return [step for job in load(workflow)["jobs"].values() for step in job.get("steps", [])]


def test_the_newest_section_of_the_changelog_is_this_version():
    assert RELEASED[0][0] == sitta.__version__
    assert [found[0] for found in RELEASED][-1] == "0.1.0"
    assert all(date.fromisoformat(day) for _, day in RELEASED)
    assert CHANGELOG.count("\n## ") == len(RELEASED) + 1


def test_a_section_has_each_kind_of_change_once_in_the_usual_order():
    for section in CHANGELOG.split("\n## ")[1:]:
        parts = re.split(r"^### (.+)$", section, flags=re.MULTILINE)
        kinds, bodies = parts[1::2], parts[2::2]
        assert kinds == [kind for kind in KINDS if kind in kinds], section[:30]
        assert all(body.strip().startswith("- ") for body in bodies), section[:30]
        assert "\n\n- " not in "".join(body.strip() for body in bodies), section[:30]


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "said"),
    [
        ("v1.2.0", "1.2.0", "## [Unreleased]\n\n## [1.2.0] - 2026-01-02\n", ""),
        ("v1.2.0", "1.3.0", "## [1.3.0] - 2026-01-02\n", "The tag is v1.2.0, and the version"),
        ("", "1.2.0", "## [1.2.0] - 2026-01-02\n", "The tag is empty"),
        ("v1.2.0", "1.2.0", "## [1.1.0] - 2026-01-02\n", "no dated section of 1.2.0"),
        ("v1.2.0", "1.2.0", "## [1.2.0]\n", "no dated section of 1.2.0"),
        (
            "v1.2.0",
            "1.2.0",
            "## [Unreleased]\n\n### Added\n\n- More\n\n## [1.2.0] - 2026-01-02\n",
            "entries under Unreleased",
        ),
    ],
)
def test_a_tag_fits_package_and_changelog(tag, version, changelog, said):
    found = tag_check.problem(tag, version, changelog)
    assert said in found
    assert bool(said) == bool(found)


def test_the_citation_has_what_its_format_asks_for_and_this_version():
    cited = load(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert cited["version"] == sitta.__version__
    assert cited["date-released"].isoformat() == dict(RELEASED)[sitta.__version__]
    assert cited["license"] == PROJECT["license"]
    assert [a["name"] for a in cited["authors"]] == [a["name"] for a in PROJECT["authors"]]
    (paper,) = cited["references"]
    assert paper["type"] == "article"
    assert all({"family-names", "given-names"} <= set(author) for author in paper["authors"])
    number = paper["identifiers"][0]["value"].replace(":", " ")
    assert number in sitta.methods()["intent"].citation
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().split())


def test_the_security_policy_names_this_version_and_no_patient():
    text = (ROOT / "SECURITY.md").read_text()
    supported = re.findall(r"^\| (\d+\.\d+) \|", text, re.MULTILINE)
    assert supported[0] == ".".join(sitta.__version__.split(".")[:2])
    assert "docs/explanation/security.md" in text
    assert "Security* page" in (ROOT / "CODE_OF_CONDUCT.md").read_text()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name)
def test_every_command_of_a_workflow_is_a_make_target(workflow):
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        program, target, *variables = shlex.split(re.sub(r"\$\{\{.*?\}\}", "x", command))
        assert program == "make"
        assert target in TARGETS
        for variable in variables:
            word = variable.partition("=")[0]
            assert re.search(rf"^{word} \?=", MAKEFILE, re.MULTILINE), variable


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name)
def test_workflows_pin_actions_hold_no_secret_and_read_only(workflow):
    text = workflow.read_text()
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", action) for action in used)
    assert load(workflow)["permissions"] == {"contents": "read"}
    assert not re.search(r"secrets\.|password|https?:", text)
    for job in load(workflow)["jobs"].values():
        local = str(job.get("uses", "")).removeprefix("./")
        assert "timeout-minutes" in job or (local and (ROOT / local).is_file())
    written = re.findall(r"run: .*\$\{\{ *(\w+)", text)  # what strangers choose is no command
    assert set(written) <= {"matrix"}


def test_ci_covers_pythons_systems_and_torch_versions():
    pythons = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if ":: Python ::" in c]
    found = jobs("ci")
    assert found["test"]["strategy"]["matrix"]["python"] == pythons
    package = found["package"]["strategy"]["matrix"]
    assert package["python"] == pythons
    assert {system.partition("-")[0] for system in package["os"]} == {"ubuntu", "macos", "windows"}
    (torch,) = [r for r in map(Requirement, PROJECT["dependencies"]) if r.name == "torch"]
    asked = {row["torch"] for row in package["include"]}
    assert wheel_test.NEWEST in asked
    (oldest,) = map(Version, asked - {wheel_test.NEWEST})
    assert oldest in torch.specifier
    assert Version(f"{oldest.major}.{oldest.minor - 1}") not in torch.specifier


def test_a_release_is_tested_built_and_published_without_a_token():
    about = load(ROOT / ".github" / "workflows" / "release.yml")
    assert about[True] == {"push": {"tags": ["v*"]}}  # "on" is true in YAML 1.1
    found = about["jobs"]
    assert "workflow_call" in load(ROOT / ".github" / "workflows" / "ci.yml")[True]
    assert (found["build"]["needs"], found["publish"]["needs"]) == ("test", "build")
    commands = [step.get("run", "").split()[1:2] for step in found["build"]["steps"]]
    assert commands.index(["tag-check"]) < commands.index(["dist"])
    assert found["publish"]["permissions"] == {"id-token": "write"}
    assert found["publish"]["environment"] == "release"
    assert [job for job in found if "permissions" in found[job]] == ["publish"]


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_issue_forms_are_whole(form):
    about = load(form)
    assert {"name", "description", "body"} <= set(about)
    fields = [part for part in about["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)


def test_forms_and_templates_name_what_exists():
    texts = [p.read_text() for p in (ROOT / ".github").rglob("*") if p.is_file()]
    text = "\n".join(texts)
    for path in re.findall(r"`((?:docs/)?[\w/-]+\.md)`", text):
        assert (ROOT / path).is_file(), path
    assert set(re.findall(r"`make ([\w-]+)", text)) <= TARGETS
    assert "sitta doctor" in text
    assert "patients" in (ROOT / ".github" / "pull_request_template.md").read_text()


def test_the_package_is_tested_with_the_torch_that_is_asked_for(tmp_path):
    def pinned(torch):
        lines = wheel_test.constraints(tmp_path, torch).read_text().splitlines()
        assert "monai==" in "\n".join(lines)
        return [line for line in lines if line.startswith("torch==")]

    tested = pinned("")
    assert len(tested) == 1
    assert tested[0] in (ROOT / "constraints.txt").read_text()
    assert pinned("2.8.0") == ["torch==2.8.0"]
    assert pinned(wheel_test.NEWEST) == []


def test_the_package_that_is_tested_must_hold_every_file():
    listed = wheel_test.tracked()
    if not listed:
        pytest.skip("not a git checkout")
    assert "sitta/models/weights/SHA256SUMS" in listed
    assert "sitta/py.typed" in listed


def test_the_readme_shows_the_coverage_that_was_measured():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kept = measure_coverage.SHOWN
    if not kept.is_file():
        assert "/badge/coverage-" not in text
        return
    found = json.loads(kept.read_text("utf-8"))
    assert found["percent"] >= measure_coverage.LEAST
    assert date.fromisoformat(found["date"])
    assert measure_coverage.badge(text, found) == text


def test_a_badge_is_added_once_and_then_replaced():
    text = "# A\n\n[![x](y)](z)\n\nText\n"
    first = measure_coverage.badge(text, {"percent": 95.1, "date": "2026-01-02"})
    second = measure_coverage.badge(first, {"percent": 96.2, "date": "2026-03-04"})
    assert first.splitlines()[2].startswith("[![x](y)](z) [![coverage 95.1 % on 2026-01-02](http")
    assert second == first.replace("95.1", "96.2").replace("2026-01-02", "2026-03-04")


def test_coverage_is_never_rounded_up():
    totals = {"percent_covered": 94.96, "num_statements": 12}
    assert measure_coverage.summary({"totals": totals}, "2026-01-02") == {
        "date": "2026-01-02",
        "percent": 94.9,
        "lines": 12,
    }
