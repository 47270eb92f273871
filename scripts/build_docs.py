"""Build the documentation as static files, one folder for each version.

    python scripts/build_docs.py [FOLDER]

Writes ``FOLDER/<version>/``, then ``FOLDER/versions.html`` with all versions that lie there, and
``FOLDER/index.html``, which leads to the newest. To keep earlier versions on a server, have their
folders in FOLDER, or build straight into the folder that is served. Any warning is an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version
from sphinx.cmd.build import build_main

from sitta import __version__

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "docs" / "_build" / "site"
HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Sitta</title>'
STYLE = (
    '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}'
    "body{font:1.1rem/1.6 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}"
    "</style>"
)


def build(out: Path) -> int:
    """The site of this version; 0 if nothing was wrong."""
    cache = out.parent / "cache"
    strict = ["-W", "-n", "--keep-going", "-q", "-b", "html"]
    places = ["-c", str(ROOT / "docs"), "-d", str(cache / "doctrees"), str(ROOT)]
    return build_main([*strict, *places, str(out / __version__)])


def versions(out: Path) -> list[str]:
    """Folders that hold a built version, the newest first."""
    found = []
    for page in out.glob("*/docs/index.html"):
        try:
            found.append(Version(page.parts[-3]))
        except InvalidVersion:
            continue  # a folder of something else
    return [str(version) for version in sorted(found, reverse=True)]


def write_front(out: Path) -> None:
    """The list of versions, and the page that leads to the newest."""
    listed = versions(out)
    lines = "".join(f'<li><a href="{v}/docs/index.html">Sitta {v}</a></li>' for v in listed)
    (out / "versions.html").write_text(f"{HEAD}{STYLE}<h1>Versions</h1><ul>{lines}</ul></html>\n")
    newest = f"{listed[0]}/docs/index.html"
    (out / "index.html").write_text(
        f'{HEAD}<meta http-equiv="refresh" content="0; url={newest}">'
        f'<a href="{newest}">Documentation</a></html>\n'
    )


def main() -> int:
    """Build this version, then list all."""
    out = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEFAULT
    failed = build(out)
    if not failed:
        write_front(out)
        print(f"{out / 'index.html'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
