"""In which form a client wants a mask."""

from __future__ import annotations

from sitta.serve.errors import ApiError

JSON = "application/json"
LINES = "application/x-ndjson"  # JSON, a line an event, while the job goes on
MASKS = {"image/png": ".png", "application/x-nifti": ".nii.gz", "application/gzip": ".nii.gz"}
ANY = {"*/*": JSON, "application/*": JSON, "image/*": "image/png"}


def wanted(accept: str) -> str:
    """The form that a client likes best of those that there are; 406 for none of them."""
    liked: list[tuple[float, str]] = []
    for part in accept.lower().split(",") if accept.strip() else ["*/*"]:
        form, *options = (text.strip() for text in part.split(";"))
        form = ANY.get(form, form)
        quality = _quality(options)
        if quality > 0 and (form in (JSON, LINES) or form in MASKS):
            liked.append((quality, form))
    if not liked:
        raise ApiError(
            406,
            "not-acceptable",
            "The answer cannot be given in the form that Accept asks for.",
            allowed=", ".join([JSON, LINES, *MASKS]),
        )
    return max(liked, key=lambda pair: pair[0])[1]


def _quality(options: list[str]) -> float:
    given = next((o[2:] for o in options if o.startswith("q=")), "1")
    try:
        return min(max(float(given), 0.0), 1.0)
    except ValueError:
        return 1.0
