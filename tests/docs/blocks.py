"""Fenced blocks of a Markdown page, and the commands in those that a shell runs.

```sh is commands; ```console is commands after `$ ` with what they print, `...` for the rest. A
comment right above a block says how it is treated: `<!-- not run: why -->`, `<!-- slow: why -->`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "tables" not in page.parts),
]
FENCE = re.compile(
    r"^(?:<!-- (?P<marker>not run|slow): (?P<why>.+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SHELL = ("sh", "console")
# Never run: what would change this machine, or runs the tests themselves. Checked by reading.
STATIC = re.compile(r"(?:\S*\/)?(?:make|pip|apt-get|git|docker|pre-commit|pytest)\s")


@dataclass(frozen=True)
class Block:
    """One fenced block, with the line of the page that it starts on."""

    line: int
    language: str
    text: str
    marker: str
    why: str

    @property
    def commands(self):
        """Pairs of a command and the output shown below it, which may be empty."""
        joined = self.text.replace("\\\n", " ")
        if self.language == "console":
            parts = re.split(r"^\$ (.+)\n", joined, flags=re.MULTILINE)
            return list(zip(parts[1::2], parts[2::2], strict=True))
        bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
        return [(line, "") for line in bare if line]


def blocks(page):
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text[: found.start("language")].count("\n") + 1,
            found["language"],
            found["text"],
            found["marker"] or "",
            found["why"] or "",
        )
        for found in FENCE.finditer(text)
    ]


def is_static(command):
    """Whether a command is checked by reading it."""
    return STATIC.match(command + " ") is not None
