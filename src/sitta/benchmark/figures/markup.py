"""SVG of a figure that can stand in a page: small, the same bytes every time, no style, own ids.

A page with a strict policy allows no style attribute, and several figures on one page must not
share an id. So properties become attributes, only ids that are used stay, and they bear the name
of the figure.
"""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET

import matplotlib
import PIL.Image
from matplotlib.figure import Figure

from sitta.benchmark.figures.style import STYLE

SVG = "http://www.w3.org/2000/svg"
TAG = f"{{{SVG}}}"
LINK = "{http://www.w3.org/1999/xlink}href"
FONTS = "'DejaVu Sans', Verdana, sans-serif"  # Verdana is as wide, so that nothing overflows
LEFT_OUT = ("font-family", "image-rendering")  # the first stands at the root, the second is ugly
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
SHADES = 128  # of a picture that is not grey: clouds of points need no more
USED = re.compile(r"url\(#([^)]*)\)")


def svg(figure: Figure, name: str, words: str) -> str:
    """The figure as SVG text.

    Args:
        figure: Any figure of this package.
        name: What its ids begin with.
        words: What it shows, for those who do not see it.
    """
    draft = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(draft, format="svg", metadata={"Date": None}, dpi=150)
    root = ET.fromstring(draft.getvalue())  # noqa: S314  (matplotlib wrote it just now)
    _plain(root)
    _share_pictures(root)
    _rename(root, name)
    _unwrap(root)
    width, height = root.attrib["viewBox"].split()[2:]
    root.attrib.update({"width": width, "height": height, "role": "img", "aria-label": words})
    root.attrib.update({"font-family": FONTS, "stroke-linejoin": "round"})
    ET.register_namespace("", SVG)
    return ET.tostring(root, encoding="unicode") + "\n"


def _plain(element: ET.Element) -> None:
    """Attributes in place of styles and short numbers, in all of a tree."""
    for rule in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if name and name not in LEFT_OUT:
            element.set(name, value)
    if LINK in element.attrib:
        element.set("href", "".join(element.attrib.pop(LINK).split()))
    for name, value in element.attrib.items():
        if name not in ("id", "href"):
            element.set(name, _short(name, value))
    if element.get("transform", "").startswith("rotate(0 "):
        del element.attrib["transform"]
    element.tail = None
    if element.tag not in (TAG + "text", TAG + "tspan"):
        element.text = None
    for child in list(element):
        if child.tag in (TAG + "metadata", TAG + "style"):
            element.remove(child)
        else:
            _plain(child)


def _short(name: str, value: str) -> str:
    """Numbers to a hundredth; of a transformation, whose errors grow, finer."""
    digits = 5 if name == "transform" else 2

    def rounded(found: re.Match[str]) -> str:
        text = f"{float(found[0]):.{digits}f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text

    value = NUMBER.sub(rounded, " ".join(value.split())).replace("rotate(-0 ", "rotate(0 ")
    return re.sub(r" ?([A-Za-z]) ?", r"\1", value) if name == "d" else value


def _share_pictures(root: ET.Element) -> None:
    """A picture that is shown in several panels is stored once, and small."""
    stored: dict[str, str] = {}
    store = ET.Element(TAG + "defs")
    for element in list(root.iter(TAG + "image")):
        kept = {k: element.attrib.pop(k) for k in ("href", "id", "width", "height")}
        if kept["href"] not in stored:
            stored[kept["href"]] = kept["id"]
            ET.SubElement(store, TAG + "image", {**kept, "href": _small(kept["href"])})
        element.tag = TAG + "use"
        element.set("href", f"#{stored[kept['href']]}")
    if stored:
        root.insert(0, store)


def _small(link: str) -> str:
    """A PNG without the channels that say nothing, and otherwise of few colours."""
    head, _, data = link.partition(",")
    picture = PIL.Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")
    red, green, blue, alpha = (picture.getchannel(c) for c in "RGBA")
    grey = red.tobytes() == green.tobytes() == blue.tobytes()
    fewer = red if grey and alpha.getextrema() == (255, 255) else picture.quantize(SHADES)
    packed = io.BytesIO()
    fewer.save(packed, "PNG", optimize=True)
    return f"{head},{base64.b64encode(packed.getvalue()).decode('ascii')}"


def _rename(root: ET.Element, name: str) -> None:
    """Ids that are used, by number in their order, after the name of the figure; no others."""
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {found for value in values for found in USED.findall(value)}
    used |= {value[1:] for value in values if value.startswith("#")}
    known = [e.attrib["id"] for e in root.iter() if e.get("id") in used]
    new = {old: f"{name}-{i}" for i, old in enumerate(known)}
    for element in root.iter():
        old = element.attrib.pop("id", "")
        if old in new:
            element.set("id", new[old])
        for key, value in element.attrib.items():
            if key == "href" and value[1:] in new:
                element.set(key, f"#{new[value[1:]]}")
            elif "url(#" in value:
                element.set(key, USED.sub(lambda found: f"url(#{new[found[1]]})", value))


def _unwrap(element: ET.Element) -> None:
    """Groups that group nothing give way to what is in them."""
    for child in list(element):
        _unwrap(child)
        if child.tag == TAG + "g" and not child.attrib:
            at = list(element).index(child)
            element.remove(child)
            for i, inner in enumerate(list(child)):
                element.insert(at + i, inner)
