"""Pages of HTML in one file that fetches nothing: what a report and a benchmark page share."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).parent
SHARED = _HERE.parent / "shared"  # modules and styles that the page of the service serves as well
_IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def fill(
    template: Path, parts: Sequence[str] = (), shared: Sequence[str] = (), **words: Any
) -> str:
    """The text of a page, from an ``.html`` template that extends ``page.html``.

    Words are escaped unless they are ``Markup``. Style and script are the ``.css`` and ``.js``
    beside the template, after what all pages have, the ``shared`` modules (each after those that it
    imports) and the ``.js`` of its ``parts``; the page allows itself no other.
    """
    common = [*SHARED.glob("*.css")] if shared else []
    styles = [_HERE / "page.css", *common, template.with_suffix(".css")]
    style = Markup("").join(map(_text, styles))
    scripts = [*(template.with_name(f"{part}.js") for part in parts), template.with_suffix(".js")]
    script = Markup("").join([bundled(shared), *map(_text, scripts)])
    return _template(template).render(
        **words, style=style, script=script, policy=policy(style, script)
    )


def bundled(names: Sequence[str]) -> Markup:
    """Modules as one script: a file that is opened from a disk may import none.

    What ``name.js`` exports is ``sitta.name``.
    """
    parts = [Markup("const sitta = {};\n")] if names else []
    for name in names:
        text = (SHARED / f"{name}.js").read_text(encoding="utf-8")
        exported = ", ".join(export[1] for export in _EXPORT.findall(text))
        text = _IMPORT.sub(
            lambda m: f"const {{ {m[1].replace(' as ', ': ')} }} = sitta.{m[2]};", text
        )
        text = _EXPORT.sub(r"\1", text)
        whole = f"sitta.{name} = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n"
        parts.append(Markup(whole))  # noqa: S704  (ours)
    return Markup("").join(parts)


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
