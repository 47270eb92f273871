"""What turns the Markdown of the repository into a site.

The list in ``docs/index.md`` is the navigation, so that a page is listed in one place. Images on
other hosts become their alternative text, and formulas become pictures, where Sphinx would fetch
MathJax: the site asks no other server for anything.
"""

from __future__ import annotations

import base64
import html
import io
import posixpath
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

INDEX = "docs/index"
UNLISTED = re.compile(r"docs/results/(?:.+/)?tables/|benchmarks/")
HEADING = re.compile(r"\A#+ ")
BULLET = re.compile(r"^- \*\*(?P<caption>[^*]+)\*\*:(?P<text>(?:.*\n)(?:  .*\n)*)", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#]+)\)")


def navigation(text: str) -> str:
    """The bullets of the index as tables of contents for the sidebar."""
    parts = []
    for bullet in BULLET.finditer(text):
        listed = (f"{name} </{_page(path)}>" for name, path in LINK.findall(bullet["text"]))
        lines = "\n".join(name[0].upper() + name[1:] for name in listed)
        parts.append(f":::{{toctree}}\n:hidden:\n:caption: {bullet['caption']}\n\n{lines}\n:::\n")
    return "\n".join(parts)


def _page(path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(INDEX), path)).rpartition(".")[0]


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the navigation to the index; let tables and measurements stand outside of it."""
    if docname == INDEX:
        source[0] += "\n" + navigation(source[0])
    elif UNLISTED.match(docname):  # a table starts at the level that it has in a report
        source[0] = "---\norphan: true\n---\n\n" + HEADING.sub("# ", source[0], count=1)


class LocalImages(SphinxTransform):
    """Images on other hosts, as their alternative text."""

    default_priority = 5  # before images are collected

    def apply(self, **_: Any) -> None:
        """Replace them in place."""
        for image in list(self.document.findall(nodes.image)):
            if "://" in image["uri"]:
                image.replace_self(nodes.Text(image.get("alt", "")))


def formula(writer: Any, node: nodes.Element) -> None:
    """A formula as a picture, with its source for those who do not see it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    source, draft = " ".join(node.astext().split()), io.BytesIO()
    plain = re.sub(r"\\big(?![a-z])", "", source)  # Matplotlib knows no sizes of brackets
    math_to_image(f"${plain}$", draft, format="svg", prop=FontProperties(size=13))
    data = base64.b64encode(draft.getvalue()).decode()
    picture = f'<img alt="{html.escape(source)}" src="data:image/svg+xml;base64,{data}">'
    writer.body.append(f"<p>{picture}</p>" if isinstance(node, nodes.math_block) else picture)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Entry point of the extension."""
    app.connect("source-read", read)
    app.add_transform(LocalImages)
    app.add_html_math_renderer("picture", (formula, None), (formula, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
