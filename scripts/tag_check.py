"""Whether a tag, such as v1.2.3, is the version of the package and the newest of the changelog."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problem(tag: str, version: str, changelog: str) -> str:
    """What does not fit, or an empty text."""
    released = re.findall(r"^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    if tag != f"v{version}":
        return f"The tag is {tag or 'empty'}, and the version of the package is {version}."
    if not released or released[0] != version:
        return f"CHANGELOG.md has no dated section of {version} on top."
    unreleased = changelog.split("## [Unreleased]")[-1].split("\n## [")[0]
    return "CHANGELOG.md has entries under Unreleased." if unreleased.strip() else ""


if __name__ == "__main__":
    from sitta._version import __version__

    found = problem(sys.argv[1], __version__, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    sys.exit(f"tag-check: {found}" if found else 0)
