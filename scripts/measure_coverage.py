"""Which lines of src the tests run, in all processes that they start: ``make coverage``.

Writes the total and its date to docs/coverage.json, and the total to the badge of the README.
Takes much longer than the tests alone, so it is no part of ``make test``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = ROOT / "docs" / "coverage.json"
REPORT = ROOT / "coverage-report.json"
LEAST = 95  # percent of the lines of src


def run(*words: str) -> int:
    """A command of coverage.py."""
    command = [sys.executable, "-m", "coverage", *words]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603


def summary(report: dict[str, dict[str, float]], day: str) -> dict[str, object]:
    """What is shown, of the totals that coverage.py wrote."""
    totals = report["totals"]
    percent = int(10 * totals["percent_covered"]) / 10  # never rounded up
    return {"date": day, "percent": percent, "lines": totals["num_statements"]}


def badge(text: str, found: dict[str, object]) -> str:
    """The README with the number and its day as the last badge of its line."""
    image = f"https://img.shields.io/badge/coverage-{found['percent']}%25-blue"
    alt = f"coverage {found['percent']} % on {found['date']}"
    shown = f" [![{alt}]({image})](docs/coverage.json)"
    text = re.sub(r" \[!\[coverage [^\n]*?\(docs/coverage\.json\)", "", text)
    return re.sub(r"^(\[!\[.+)$", lambda line: line[1] + shown, text, count=1, flags=re.MULTILINE)


def main() -> int:
    """Run the tests, combine what all processes saw, and write the total."""
    run("erase")
    failed = run("run", "-m", "pytest", *sys.argv[1:])
    run("combine", "--quiet")
    run("json", "--quiet", "-o", str(REPORT))
    run("report", "--skip-covered", "--sort=miss")
    report = json.loads(REPORT.read_text("utf-8"))
    REPORT.unlink()
    found = summary(report, date.today().isoformat())
    print(f"coverage: {found['percent']} % of {found['lines']} lines; the least is {LEAST} %")
    if failed:
        print("coverage: tests failed, so the number is not kept")
        return failed
    SHOWN.write_text(json.dumps(found) + "\n", "utf-8")
    readme = ROOT / "README.md"
    readme.write_text(badge(readme.read_text("utf-8"), found), "utf-8")
    return int(report["totals"]["percent_covered"] < LEAST)


if __name__ == "__main__":
    sys.exit(main())
