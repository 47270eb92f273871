"""Pages of HTML in one file that fetches nothing: what a report and a benchmark page share."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).parent


def fill(template: Path, parts: Sequence[str] = (), **words: Any) -> str:
    """The text of a page, from an ``.html`` template that extends ``page.html``.

    Words are escaped unless they are ``Markup``. Style and script are the ``.css`` and ``.js``
    beside the template, after what all pages have and the ``.js`` of its ``parts``; the page allows
    itself no other.
    """
    style = Markup("").join([_text(_HERE / "page.css"), _text(template.with_suffix(".css"))])
    scripts = [*(template.with_name(f"{part}.js") for part in parts), template.with_suffix(".js")]
    script = Markup("").join(map(_text, scripts))
    return _template(template).render(
        **words, style=style, script=script, policy=policy(style, script)
    )


def policy(style: str, script: str) -> str:
    """A content security policy: nothing from anywhere, but this style and this script."""
    own = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
        for text in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{own[0]}'; script-src 'sha256-{own[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _text(path: Path) -> Markup:
    return Markup(path.read_text(encoding="utf-8"))  # noqa: S704  (ours)


@functools.cache
def _template(path: Path) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([path.parent, _HERE]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(path.name)
