"""Messages for mistakes in a plan."""

from __future__ import annotations

from pydantic_core import ErrorDetails

from sitta._util.placed import PlacedError
from sitta._util.untrusted import shown
from sitta.errors import SittaError

MISTAKES = {  # by pydantic's names of them
    "string_type": "is not text",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is not true or false",
    "tuple_type": "is not a list",
    "dict_type": "is not a table",
    "model_type": "is not a table",
    "greater_than_equal": "is below {ge}",
    "less_than_equal": "is above {le}",
    "too_long": "has {actual_length} entries, more than {max_length}",
    "greater_than": "is not above 0",
    "finite_number": "is not above 0",
}


class PlanError(PlacedError):
    """A plan that cannot be run."""

    moved = (SittaError, OSError)


def in_words(error: ErrorDetails) -> PlanError:
    """An error of pydantic, in the words of ours."""
    location, kind, got = error["loc"], error["type"], shown(error["input"])
    context = error.get("ctx", {})
    if isinstance(cause := context.get("error"), SittaError):
        return PlanError.of(cause, location)
    *outer, last = location
    key = last if isinstance(last, str) else outer[-1]
    if kind == "missing":
        title = ".".join(part for part in outer if isinstance(part, str))
        return PlanError(f"{f'[{title}]' if title else 'The plan'} has no '{key}'.", *outer)
    if kind == "model_type" and isinstance(last, int):
        what = f"'{key}' is not a list of tables."
        return PlanError(what, *location, allowed=f"[[{key}]]", got=got)
    mistake = MISTAKES.get(kind, "is wrong: {msg}").format(msg=error["msg"], **context)
    holds = "" if isinstance(last, str) else "holds what "
    return PlanError(f"'{key}' {holds}{mistake}.", *location, got=got)
